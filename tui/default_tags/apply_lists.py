"""Lists of applies of default tags: the preview by type, the last runs, and the skips and failures."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content

from client.operations import FINAL
from client.tables.columns import Column, Kind, Record, fields, id_column, person_text, time_text
from client.tables.default_tags import RUN, tags_text
from client.texts import apply
from client.texts.effects import counted
from tui.default_tags import apply_screen
from tui.default_tags.apply_text import (
    PREVIEW,
    TONES,
    TYPE,
    Summary,
    TypeRow,
    preview_lines,
    preview_rows,
    reasons_text,
    unlisted_fact,
)
from tui.shell import keymap
from tui.shell.remote_list_screen import ChildListScreen
from tui.shell.routes import Navigate, Subject
from tui.state.jobs import RUNS
from tui.state.list_store import RecordList
from tui.state.refresh import Topic, Update
from tui.state.tag_draft import TagDraft
from tui.widgets.detail import Section
from tui.widgets.record_table import Tones
from tui.widgets.record_view import RecordView

if TYPE_CHECKING:
    from client.models.default_tags import ApplyOperation, ApplyResult, ApplyRun
    from client.models.default_tags import Untouched as UntouchedResource


class ApplyPreview(ChildListScreen[TypeRow]):
    """Not refreshed automatically, because the platform examines every resource for it."""

    NAME = "apply-preview"
    TITLE = "Preview"
    KIND = PREVIEW
    PRIMARY = "apply-preview.show"
    LIST_NAME = "apply preview"
    REQUIRES_USER = False
    EMPTY_TEXT = "No resource types support default tags."
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("apply-preview")]

    def title_for(self, name: str) -> str:
        return f"Apply preview in {name}"

    def compose_header(self) -> ComposeResult:
        yield Summary()

    def tones(self) -> Tones:
        return TONES

    @property
    def draft(self) -> TagDraft | None:
        return self.workspace.tag_drafts.of(self.tenant_id)

    @property
    def result(self) -> "ApplyResult | None":
        """Result of the preview, in the form of an apply result; None if it is not loaded."""
        record_list: RecordList[Any] = self.record_list
        return next(iter(record_list.records), None) if not self.unavailable_reason() else None

    def records(self) -> Sequence[TypeRow]:
        return preview_rows(self.result) if self.result is not None else ()

    def freshness_text(self) -> str:
        return "counting" if self.record_list.state == "reading" else super().freshness_text()

    def empty(self) -> str:
        text = super().empty()
        return "Examining all resources of the tenant …" if text.startswith("Asking") else text

    def read_again(self, only: str = "") -> None:
        """Do not repeat the preview on a refresh."""

    def show(self) -> None:
        super().show()
        self.query_one(Summary).show(self._lines)

    def _lines(self, cells: int) -> list[Content]:
        result = self.result
        if result is None:
            return []
        of = "the unsaved draft" if self.subject is not None and self.subject.id else "the stored tags"
        return preview_lines(result, of, cells)

    def detail(self, record: TypeRow) -> tuple[str, Sequence[Section]]:
        kind, counts, result = record.resource_type, record.counts, self.result
        facts = [
            ("Would change", f"{counts.updated:,}"),
            ("Unchanged", f"{counts.unchanged:,}"),
            ("Skipped", f"{counts.skipped:,}"),
            ("Failing", f"{counts.failed:,}"),
            ("Examined", f"{counts.examined:,}"),
            *unlisted_fact(counts),
        ]
        if result is None:
            return kind, [("", facts)]
        keys = [(key, f"{number:,}") for key, number in result.affected.get(kind, {}).items() if number]
        sections: list[Section] = [("", facts), ("Resources that miss the key", keys or [("", "none")])]
        for title, resources in (("Skipped because", result.skipped), ("Failing because", result.failures)):
            if reasons := reasons_text(resources, kind):
                sections.append((title, [("", reasons)]))
        return kind, sections

    # Actions

    async def do_apply(self) -> None:
        await apply_screen.apply(self)

    def do_untouched(self) -> None:
        assert self.subject is not None
        of = json.dumps({"preview": self.subject.id})
        self.post_message(Navigate("untouched", Subject(self.tenant_id, of, self.subject.name)))


STATES = {"completed": "good", "failed": "bad", "cancelled": "bad", "running": "warning", "pending": "warning"}


class ApplyRuns(ChildListScreen["ApplyRun"]):
    """At most ten runs: the platform does not remember the changes of older ones."""

    NAME = "apply-runs"
    TITLE = "Recent runs"
    KIND = RUN
    PRIMARY = "apply-runs.open"
    LIST_NAME = RUNS
    REQUIRES_USER = False
    EMPTY_TEXT = "No applies in this tenant yet."
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("apply-runs")]

    def title_for(self, name: str) -> str:
        return f"Recent runs in {name}"

    def columns(self) -> Sequence[Column]:
        by_key = {column.key: column for column in RUN.columns}
        kind = by_key["kind"]._replace(title="Run", cell=kind_text)
        return (by_key["startedAt"], kind, *(by_key[key] for key in ("status", "updated", "failed", "startedBy")))

    def tones(self) -> Tones:
        return {
            "startedAt": lambda record: "dim",
            "status": lambda record: STATES.get(str(record.get("status"))),
            "failed": lambda record: "bad" if (record.get("summary") or {}).get("failed") else "dim",
            "startedBy": lambda record: "dim",
        }

    def detail(self, record: "ApplyRun") -> tuple[str, Sequence[Section]]:
        counts = record.summary
        facts = [
            ("Status", record.status),
            ("Started", time_text(record.started_at)),
            ("By", person_text(record.started_by) or "—"),
            ("Duration", apply.elapsed(record.wire()) or "—"),
        ]
        names = ("Lost tags" if record.kind == "undo" else "Updated", "Unchanged", "Skipped", "Failed")
        numbers = (counts.updated, counts.unchanged, counts.skipped, counts.failed) if counts is not None else (0,) * 4
        unlisted = [("Not listed", counted(counts.unlisted, "type"))] if counts is not None and counts.unlisted else []
        tags = record.applied_tags
        sections: list[Section] = [
            ("", facts),
            ("", [(name, f"{number:,}") for name, number in zip(names, numbers, strict=True)] + unlisted),
            ("Tags", [("", f"{key} = {tags[key]}") for key in sorted(tags)] or [("", tags_text(tags))]),
        ]
        if record.undone_by:
            sections.append(("Undone by", [("", record.undone_by)]))
        if record.undoes:
            sections.append(("Undoes", [("", record.undoes)]))
        return kind_text(record.wire()).capitalize(), [*sections, ("ID", [("", record.run_id)])]

    def do_open(self, run_id: str = "") -> None:
        chosen_id = run_id or (self.record.run_id if self.record is not None else "")
        if chosen_id:
            apply_screen.show(self, chosen_id)

    async def do_undo(self) -> None:
        if self.record is not None:
            await apply_screen.undo(self, self.record)


def kind_text(record: Record) -> str:
    """Return `apply`, `undo` or `apply, undone`."""
    return f"{record.get('kind', 'apply')}{', undone' if record.get('undoneBy') else ''}"


@dataclass(frozen=True)
class UntouchedRow:
    """A resource that failed or was skipped."""

    resource: "UntouchedResource"
    outcome: str
    """`failed` or `skipped`."""
    number: int
    """Its position among the resources of this outcome: an id is not unique."""

    def wire(self) -> Record:
        """Return the JSON object, which the columns read."""
        return {**self.resource.wire(), "what": self.outcome, "key": f"{self.outcome} {self.number}"}


def untouched_rows(result: "ApplyResult | None") -> list[UntouchedRow]:
    """Return failures, then skips; none without a result."""
    outcomes = (("failed", result.failures), ("skipped", result.skipped)) if result is not None else ()
    return [UntouchedRow(one, outcome, number) for outcome, items in outcomes for number, one in enumerate(items)]


def resource_text(record: Record) -> str:
    """Return the name or id of a resource. The failure of a whole type has no resource id."""
    if not record.get("resourceId"):
        return "(the whole type)"
    return str(record.get("resourceName") or record["resourceId"])


OUTCOME_SIGNS = {"failed": "×", "skipped": "–"}
_OUTCOME = Column("what", "Outcome", cell=lambda record: f"{record.get('what')}")
_UNTOUCHED = (
    Column("what", "", cell=lambda record: f"{OUTCOME_SIGNS.get(str(record.get('what')), ' ')}"),
    TYPE,
    Column("resourceName", "Resource", cell=resource_text),
    Column("reason", "Why", cell=lambda record: apply.short_reason(record.get("reason", ""))),
    id_column("resourceId", "ID", wide=True),
)
UNTOUCHED = Kind(
    "resource",
    "resources",
    "key",
    _UNTOUCHED,
    {
        **fields(_UNTOUCHED, type="resourceType", name="resourceName", why="reason", id="resourceId"),
        "what": _OUTCOME,
        "reason": Column("reason", "Reason"),
    },
    "resourceName",
)
UNTOUCHED_TONES: Tones = {
    "what": lambda record: "bad" if record.get("what") == "failed" else "dim",
    "reason": lambda record: "warning" if record.get("what") == "failed" else None,
    "resourceId": lambda record: "dim",
}


class Untouched(ChildListScreen[UntouchedRow]):
    """The subject is a run id or, for a preview, `{"preview": SUBJECT}` as JSON with the subject of the preview."""

    NAME = "untouched"
    TITLE = "Failures and skips"
    KIND = UNTOUCHED
    PRIMARY = "untouched.show"
    LIST_NAME = "operation"
    REQUIRES_USER = False
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("untouched")]

    def title_for(self, name: str) -> str:
        return f"Failures and skips in {name}"

    def tones(self) -> Tones:
        return UNTOUCHED_TONES

    @property
    def previewed(self) -> str | None:
        """Subject of the preview: the draft as JSON, or "" for the stored set. None for a run."""
        if self.subject is None or not self.subject.id.startswith("{"):
            return None
        return str(json.loads(self.subject.id)["preview"])

    @property
    def record_list(self) -> RecordList[Any]:
        if (preview := self.previewed) is not None:
            return self.workspace.collections.get("apply preview", self.tenant_id, preview)
        return super().record_list

    @property
    def operation(self) -> "ApplyOperation | None":
        """The run; None if it is not loaded, and for a preview."""
        if self.unavailable_reason() or self.previewed is not None:
            return None
        live_run = self.workspace.applies.of(self.tenant_id)
        if live_run is not None and self.subject is not None and live_run.id == self.subject.id:
            return live_run.operation
        return next(iter(self.record_list.records), None)

    @property
    def result(self) -> "ApplyResult | None":
        """The result of the run or preview; None if it is not loaded, and for a run without a result."""
        if self.previewed is not None and not self.unavailable_reason():
            return next(iter(self.record_list.records), None)
        return self.operation.result if self.operation is not None else None

    def records(self) -> Sequence[UntouchedRow]:
        return untouched_rows(self.result)

    def count_text(self, view: RecordView[UntouchedRow]) -> str:
        """Return the number of resources, and apart from them that of types that could not be listed."""
        types = sum(not row.resource.resource_id for row in self.records())
        if view.filter or not types:
            return super().count_text(view)
        resources = view.total - types
        return f"{counted(resources, 'resource')} · {counted(types, 'type')}"

    def freshness_text(self) -> str:
        """Return the lengths of truncated lists. The numbers in the summary are complete."""
        result, parts = self.result, []
        if result is not None and result.failures_truncated:
            failures = result.summary.failed + result.summary.unlisted
            parts.append(f"the first {len(result.failures)} of {failures:,} failures")
        if result is not None and result.skipped_truncated:
            parts.append(f"the first {len(result.skipped)} of {result.summary.skipped:,} skipped")
        return " · ".join(parts)

    def empty(self) -> str:
        operation = self.operation
        if operation is not None and operation.status not in FINAL:
            counts = apply.summary(operation.wire())
            counts_text = f"{counts['failed']:,} failed, {counts['skipped']:,} skipped"
            if counts["unlisted"]:
                counts_text += f", {counted(counts['unlisted'], 'type')} not listed"
            return f"Listed when the apply has finished; now {counts_text}."
        return super().empty() if operation is None and self.result is None else "No failures and no skips."

    def read(self, *, quiet: bool = False) -> None:
        if self.operation is None and self.previewed is None:
            super().read(quiet=quiet)

    def changed(self, update: Update) -> None:
        super().changed(update)
        if update is Topic.APPLIES:
            self.show()

    def detail(self, record: UntouchedRow) -> tuple[str, Sequence[Section]]:
        resource = record.resource
        reason, text = resource.reason, apply.reason_text(resource.reason)
        facts = [
            ("Outcome", record.outcome),
            ("Type", resource.resource_type),
            ("Why", text if text == reason else f"{text} ({reason})"),
        ]
        if advice := apply.AGAIN.get(reason):
            facts.append(("Next", advice))
        message: list[Section] = [("Message", [("", resource.message)])] if resource.message else []
        return resource_text(record.wire()), [("", facts), *message, ("ID", [("", resource.resource_id or "—")])]

    def copies(self) -> Mapping[str, str]:
        """Copy the ids of the resources, and JSON without the key of the row."""
        texts = dict(super().copies())
        rows = self.table.selected_records
        if rows:
            plain = [{**row.resource.wire(), "what": row.outcome} for row in rows]
            texts["ID"] = "\n".join(row.resource.resource_id for row in rows)
            texts["JSON"] = json.dumps(plain[0] if len(plain) == 1 else plain, indent=2, ensure_ascii=False)
        return texts

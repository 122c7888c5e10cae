"""Lists of applies of default tags: the preview by type, the last runs, and the skips and failures."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content

from client.tables.columns import Column, Record, person_text, time_text
from client.tables.default_tags import RUN, tags_text
from client.texts import apply
from tui.default_tags import apply_screen
from tui.default_tags.apply_text import (
    PREVIEW,
    TONES,
    UNTOUCHED,
    UNTOUCHED_TONES,
    Summary,
    preview_lines,
    resource_text,
    type_rows,
    untouched_rows,
)
from tui.shell import keymap
from tui.shell.remote_list_screen import ChildListScreen
from tui.shell.routes import Navigate, Subject
from tui.state.list_store import RUNS, RecordList
from tui.state.refresh import Change, Topic
from tui.state.tag_draft import TagDraft
from tui.widgets.detail import Section
from tui.widgets.record_table import Tones


class ApplyPreview(ChildListScreen[Record]):
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
    def result(self) -> Mapping[str, Any]:
        """Result of the preview, in the form of an apply result; empty if it is not loaded."""
        return self.rows.records[0] if self.rows.records and not self.unavailable_reason() else {}

    def records(self) -> Sequence[Record]:
        return type_rows({"status": "completed", "result": self.result})

    def freshness_text(self) -> str:
        return "counting" if self.rows.state == "reading" else super().freshness_text()

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
        if not result:
            return []
        of = "the unsaved draft" if self.subject is not None and self.subject.id else "the stored tags"
        return preview_lines(result, of, cells)

    def detail(self, record: Record) -> tuple[str, Sequence[Section]]:
        kind, result = str(record["resourceType"]), self.result
        facts = [
            ("Would change", f"{record.get('updated', 0):,}"),
            ("Unchanged", f"{record.get('unchanged', 0):,}"),
            ("Skipped", f"{record.get('skipped', 0):,}"),
            ("Failing", f"{record.get('failed', 0):,}"),
            ("Examined", f"{record.get('examined', 0):,}"),
        ]
        lacking = result.get("affected", {}).get(kind, {})
        keys = [(key, f"{number:,}") for key, number in lacking.items() if number]
        sections: list[Section] = [("", facts), ("Resources that miss the key", keys or [("", "none")])]
        for member, title in (("skipped", "Skipped because"), ("failures", "Failing because")):
            items = [item for item in result.get(member) or () if item.get("resourceType") == kind]
            if items:
                sections.append((title, [("", apply.reasons_counted(items))]))
        return kind, sections

    # Actions

    async def do_apply(self) -> None:
        await apply_screen.apply(self)

    def do_untouched(self) -> None:
        assert self.subject is not None
        of = json.dumps({"preview": self.subject.id})
        self.post_message(Navigate("untouched", Subject(self.tenant_id, of, self.subject.name)))


STATES = {"completed": "good", "failed": "bad", "cancelled": "bad", "running": "warning", "pending": "warning"}


class ApplyRuns(ChildListScreen[Record]):
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
        return f"Applies in {name}"

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

    def detail(self, record: Record) -> tuple[str, Sequence[Section]]:
        counts = record.get("summary") or {}
        first = "Lost tags" if record.get("kind") == "undo" else "Updated"
        names = {"updated": first, **{name: name.capitalize() for name in ("unchanged", "skipped", "failed")}}
        facts = [
            ("Status", str(record.get("status", ""))),
            ("Started", time_text(record.get("startedAt"))),
            ("By", person_text(record.get("startedBy")) or "—"),
            ("Duration", apply.elapsed(record) or "—"),
        ]
        tags = record.get("appliedTags") or {}
        sections: list[Section] = [
            ("", facts),
            ("", [(names[name], f"{counts.get(name, 0):,}") for name in names]),
            ("Tags", [("", f"{key} = {tags[key]}") for key in sorted(tags)] or [("", tags_text(tags))]),
        ]
        if record.get("undoneBy"):
            sections.append(("Undone by", [("", str(record["undoneBy"]))]))
        if record.get("undoes"):
            sections.append(("Undoes", [("", str(record["undoes"]))]))
        return kind_text(record).capitalize(), [*sections, ("ID", [("", str(record["runId"]))])]

    def do_open(self, run_id: str = "") -> None:
        chosen_id = run_id or str((self.record or {}).get("runId", ""))
        if chosen_id:
            apply_screen.show(self, chosen_id)

    async def do_undo(self) -> None:
        if self.record is not None:
            await apply_screen.undo(self, self.record)


def kind_text(record: Record) -> str:
    """Return `apply`, `undo` or `apply, undone`."""
    return f"{record.get('kind', 'apply')}{', undone' if record.get('undoneBy') else ''}"


class Untouched(ChildListScreen[Record]):
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
    def rows(self) -> RecordList[Any]:
        if (preview := self.previewed) is not None:
            return self.workspace.collections.rows("apply preview", self.tenant_id, preview)
        return super().rows

    @property
    def operation(self) -> Mapping[str, Any]:
        """The run, or the preview in the form of a completed run; empty if it is not loaded."""
        if self.unavailable_reason():
            return {}
        if self.previewed is not None:
            return {"status": "completed", "result": self.rows.records[0]} if self.rows.records else {}
        live_run = self.workspace.applies.of(self.tenant_id)
        if live_run is not None and self.subject is not None and live_run.id == self.subject.id:
            return live_run.operation
        return self.rows.records[0] if self.rows.records else {}

    def records(self) -> Sequence[Record]:
        return untouched_rows(apply.counts(self.operation))

    def freshness_text(self) -> str:
        """Return the lengths of truncated lists. The numbers in the summary are complete."""
        result, counts = apply.counts(self.operation), apply.summary(self.operation)
        parts = []
        for member, outcome in (("failures", "failed"), ("skipped", "skipped")):
            if result.get(f"{member}Truncated"):
                parts.append(f"the first {len(result.get(member) or ())} of {counts[outcome]:,} {outcome}")
        return " · ".join(parts)

    def empty(self) -> str:
        operation = self.operation
        if not operation:
            return super().empty()
        counts = apply.summary(operation)
        if apply.is_open(operation):
            counts_text = f"{counts['failed']:,} failed, {counts['skipped']:,} skipped"
            return f"Listed when the apply has finished; now {counts_text}."
        return "No failures and no skips."

    def read(self, *, quiet: bool = False) -> None:
        if not self.operation and self.previewed is None:
            super().read(quiet=quiet)

    def changed(self, change: Change) -> None:
        super().changed(change)
        if change is Topic.APPLIES:
            self.show()

    def detail(self, record: Record) -> tuple[str, Sequence[Section]]:
        reason, text = str(record.get("reason", "")), apply.reason_text(record.get("reason", ""))
        facts = [
            ("Outcome", str(record["what"])),
            ("Type", str(record.get("resourceType", ""))),
            ("Why", text if text == reason else f"{text} ({reason})"),
        ]
        if advice := apply.AGAIN.get(reason):
            facts.append(("Next", advice))
        message: list[Section] = [("Message", [("", str(record["message"]))])] if record.get("message") else []
        return resource_text(record), [("", facts), *message, ("ID", [("", str(record.get("resourceId") or "—"))])]

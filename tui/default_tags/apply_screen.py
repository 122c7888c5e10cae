"""An apply of default tags: progress and results by type, live while it runs."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.timer import Timer

from client.tables.columns import Record
from client.texts import apply as texts_apply
from tui.default_tags import apply_flow
from tui.default_tags.apply_progress import progress_lines
from tui.default_tags.apply_table import APPLY, LEGEND, TONES, type_rows
from tui.default_tags.summary import Summary
from tui.shell import keymap
from tui.shell.remote_list_screen import ChildListScreen
from tui.shell.routes import Navigate, Subject
from tui.state.list_store import Rows
from tui.state.loaders import RUNS
from tui.state.tag_draft import TagDraft
from tui.widgets.detail import Section
from tui.widgets.record_table import Tones

TICK_SECONDS = 1.0
"""Repaint interval of the elapsed time of an open run."""


class Apply(ChildListScreen):
    """The newest run of the tenant, or the run of the subject."""

    NAME = "apply"
    TITLE = "Apply"
    KIND = APPLY
    PRIMARY = "apply.untouched"
    LIST_NAME = "operation"
    REQUIRES_USER = False
    EMPTY_TEXT = "The platform sent no counts."
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("apply")]

    _ticking: Timer | None = None

    def on_mount(self) -> None:
        self._ticking = self.set_interval(TICK_SECONDS, self._summarise, pause=True)
        super().on_mount()

    def title_for(self, name: str) -> str:
        return f"{'Run' if self.subject is not None and self.subject.id else 'Apply'} in {name}"

    def compose_header(self) -> ComposeResult:
        yield Summary()

    def tones(self) -> Tones:
        return TONES

    # State

    @property
    def draft(self) -> TagDraft | None:
        return self.workspace.tag_drafts.of(self.tenant_id)

    @property
    def runs(self) -> Rows:
        return self.workspace.collections.rows(RUNS, self.tenant_id)

    @property
    def run_id(self) -> str:
        """Id of the run shown; empty if there is none."""
        if self.subject is not None and self.subject.id:
            return self.subject.id
        if (live_run := self.workspace.applies.of(self.tenant_id)) is not None:
            return live_run.id
        return str(self.runs.records[0]["runId"]) if self.runs.records else ""

    @property
    def rows(self) -> Rows:
        return self.workspace.collections.rows(self.LIST_NAME, self.tenant_id, self.run_id)

    @property
    def operation(self) -> Mapping[str, Any] | None:
        """The run as last read, by the run tracker or by this screen."""
        live_run = self.workspace.applies.of(self.tenant_id)
        if live_run is not None and live_run.id == self.run_id:
            return live_run.operation
        return self.rows.records[0] if self.rows.records else None

    def records(self) -> Sequence[Record]:
        operation = self.operation
        return type_rows(operation) if operation is not None and not self.unavailable_reason() else ()

    def empty(self) -> str:
        if self.unavailable_reason() or self.run_id:
            return super().empty()
        if not self.runs.known:
            return self.runs.error.message if self.runs.error is not None else "Asking the platform …"
        return "Default tags were not applied here yet."

    def freshness_text(self) -> str:
        return "" if self.operation is not None or not self.run_id else super().freshness_text()

    # Updates

    def read(self, *, quiet: bool = False) -> None:
        if self.unavailable_reason():
            return
        collections = self.workspace.collections
        if self.runs.state == "unread":
            collections.read(RUNS, self.tenant_id)
        if self.run_id and self.operation is None:
            collections.read(self.LIST_NAME, self.tenant_id, self.run_id, quiet=quiet)
        self._say()

    def changed(self, topic: str) -> None:
        super().changed(topic)
        if topic == RUNS and self.display:
            self.read(quiet=True)
        if topic in ("applies", RUNS, "link"):
            self.show()

    def show(self) -> None:
        super().show()
        self._summarise()
        self.show_detail()

    def _summarise(self) -> None:
        self.query_one(Summary).show(self._lines)
        operation, live_run = self.operation, self.workspace.applies.of(self.tenant_id)
        lost = live_run is not None and bool(live_run.lost)
        going = self.display and operation is not None and texts_apply.is_open(operation) and not lost
        if self._ticking is not None:
            self._ticking.resume() if going else self._ticking.pause()

    def _lines(self, cells: int) -> list[Content]:
        operation = self.operation
        if operation is None or self.unavailable_reason():
            return []
        entry = next((run for run in self.runs.records if run["runId"] == self.run_id), None)
        live_run = self.workspace.applies.of(self.tenant_id)
        lost = live_run.lost if live_run is not None and live_run.id == self.run_id else ""
        key = self.frame.keys.label("apply.afterwards")
        return progress_lines(
            operation, cells, entry or {}, lost=lost, waits=self.workspace.applies.waits(self.tenant_id), key=key
        )

    def detail(self, record: Record) -> tuple[str, Sequence[Section]]:
        operation = self.operation or {}
        first = "Lost tags" if texts_apply.is_undo(operation) else "Updated"
        facts = [
            (first, f"{record.get('updated', 0):,}"),
            ("Unchanged", f"{record.get('unchanged', 0):,}"),
            ("Skipped", f"{record.get('skipped', 0):,}"),
            ("Failed", f"{record.get('failed', 0):,}"),
            ("Looked at", f"{record.get('examined', 0):,}" + _of(record)),
        ]
        sections: list[Section] = [("", [("State", str(record["state"]))]), ("", facts)]
        result = texts_apply.counts(operation)
        for member, title in (("failures", "Failed because"), ("skipped", "Skipped because")):
            items = [item for item in result.get(member) or () if item.get("resourceType") == record["resourceType"]]
            if items:
                sections.append((title, [("", texts_apply.reasons_counted(items))]))
        return str(record["resourceType"]), [*sections, ("Bar", LEGEND)]

    # Actions

    def do_untouched(self, kind: str = "") -> None:
        if self.run_id:
            assert self.subject is not None
            # The filter matches substrings, so exclude the other types that contain this one.
            longer = [str(row["resourceType"]) for row in self.records() if kind and kind in str(row["resourceType"])]
            filter_line = " ".join([f"type:{kind}", *(f"!type:{one}" for one in longer if one != kind)]) if kind else ""
            self.post_message(
                Navigate("untouched", Subject(self.tenant_id, self.run_id, self.subject.name), filter_line)
            )

    async def do_again(self) -> None:
        await apply_flow.apply(self)

    def do_afterwards(self) -> None:
        applies, tenant_id = self.workspace.applies, self.tenant_id
        queued = not applies.waits(tenant_id)
        applies.start_afterwards(tenant_id, wanted=queued)
        message = "Yours begins when this one is over, as long as frost is open" if queued else "None begins afterwards"
        self.frame.toast(message)

    def do_runs(self) -> None:
        assert self.subject is not None
        self.post_message(Navigate("apply-runs", Subject(self.tenant_id, "", self.subject.name)))


def _of(record: Record) -> str:
    total = record.get("total")
    return f" of {total:,}" if isinstance(total, int) and record.get("state") == "running" else ""

"""An apply of default tags: start or undo it after a confirmation, and follow its progress and results by type."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.timer import Timer

from client.api import default_tags
from client.api.default_tags import IN_PROGRESS
from client.errors import Exit, FrostError
from client.operations import FINAL, is_undo
from client.tables.default_tags import tags_text
from client.text import cut, safe
from client.texts import apply as texts_apply
from client.texts.effects import counted
from tui.default_tags.apply_text import (
    APPLY,
    LEGEND,
    TONES,
    Summary,
    TypeRow,
    progress_lines,
    reasons_text,
    type_rows,
    unlisted_fact,
)
from tui.default_tags.dialogs import ListingConfirm
from tui.shell import keymap
from tui.shell.remote_list_screen import ChildListScreen
from tui.shell.routes import Navigate, Subject, UndoCleared
from tui.state.jobs import RUNS
from tui.state.list_store import RecordList
from tui.state.refresh import ListChanged, Topic, Update
from tui.state.tag_draft import TagDraft
from tui.widgets.detail import Section
from tui.widgets.picker import Entry, Menu
from tui.widgets.record_table import Tones

if TYPE_CHECKING:
    from client.models.default_tags import ApplyOperation, ApplyResult, ApplyRun
    from tui.shell.remote_list_screen import RemoteListScreen

LONGEST_TAGS = 300


async def apply(screen: "RemoteListScreen[Any]") -> None:
    """Confirm an apply with a preview, start it and show it. If a run is open, offer to follow it."""
    workspace, tenant_id = screen.workspace, screen.tenant_id
    if workspace.applies.goes_on(tenant_id):
        await offer_running_apply(screen, tenant_id)
        return
    result = await workspace.ask(default_tags.preview(tenant_id))
    counts = result.summary
    if not counts.updated and not counts.failed and not counts.unlisted:
        screen.frame.toast(f"No default tags are missing: {counts.examined:,} resources examined, none would change")
        return
    facts = [
        ("Tenant", workspace.name_of(tenant_id)),
        ("Adds", cut(tags_text(result.applied_tags), LONGEST_TAGS)),
        ("To", f"{counts.updated:,} of {counts.examined:,} resources, only missing keys"),
        ("Unchanged", not_changed_text(result)),
        *_unlisted(result),
        ("Effect", "only adds tags: changes no value, removes no tag; continues if you close the screen"),
    ]
    dialog = ListingConfirm("Apply default tags?", facts, _lines(result, "would change"), yes="Apply", wrap=False)
    if await screen.app.push_screen_wait(dialog):
        await _start(screen, tenant_id, workspace.applies.start(tenant_id), "applying default tags")


async def undo(screen: "RemoteListScreen[Any]", run: "ApplyRun") -> None:
    """Confirm the undo of a run with a preview, start it and show it."""
    workspace, tenant_id, run_id = screen.workspace, screen.tenant_id, run.run_id
    if workspace.applies.goes_on(tenant_id):
        await offer_running_apply(screen, tenant_id, own=False)
        return
    result = await workspace.ask(default_tags.undo_preview(tenant_id, run_id))
    counts = result.summary
    facts = [
        ("Tenant", workspace.name_of(tenant_id)),
        ("Removes", cut(tags_text(run.applied_tags), LONGEST_TAGS)),
        ("From", f"{counts.updated:,} resources, only keys that this run added and that have not changed since"),
        ("Unchanged", f"{counts.skipped:,} skipped, {counts.failed:,} failing"),
        *_unlisted(result),
    ]
    dialog = ListingConfirm("Undo this run?", facts, _lines(result, "would lose tags"), yes="Undo run", wrap=False)
    if await screen.app.push_screen_wait(dialog):
        await _start(screen, tenant_id, workspace.applies.undo(tenant_id, run_id), "undoing an apply")


async def offer_running_apply(screen: "RemoteListScreen[Any]", tenant_id: str, *, own: bool = True) -> None:
    """Offer to follow the open run of a tenant and, if `own`, to start another apply after it."""
    applies = screen.workspace.applies
    run = applies.of(tenant_id)
    far = f"{run.operation.progress:.0f} % done" if run is not None else "just started"
    entries = [Entry("follow", "Show progress", "f", f"Does not start your apply; {far}")]
    if own:
        note = "If frost is still open; applies the default tags of that time"
        entries.append(Entry("afterwards", "Show progress, and start my apply afterwards", "o", note))
    name = cut(safe(screen.workspace.name_of(tenant_id)), 30)
    chosen = await screen.app.push_screen_wait(
        Menu(f"An apply is running in {name}", entries, foot="One apply per tenant at a time · Esc close")
    )
    if chosen == "afterwards":
        applies.start_afterwards(tenant_id)
    if chosen is not None:
        _show_newest(screen, tenant_id)


def show(screen: "RemoteListScreen[Any]", run_id: str = "", filter_line: str = "") -> None:
    """Show the run with this id, or the newest run of the tenant. `filter_line` is the initial filter."""
    subject = Subject(screen.tenant_id, run_id, screen.workspace.name_of(screen.tenant_id))
    screen.post_message(Navigate("apply", subject, filter_line))


def _show_newest(screen: "RemoteListScreen[Any]", tenant_id: str) -> None:
    """Show the newest run of a tenant. If the user has switched to another tenant, name the tenant of the run."""
    if tenant_id == screen.workspace.tenant_id:
        show(screen)
    else:
        name = screen.workspace.name_of(tenant_id)
        screen.frame.toast(f"Apply running in {name}: switch to {name} to follow it")


async def _start(screen: "RemoteListScreen[Any]", tenant_id: str, request: Any, lasting: str) -> None:
    try:
        await request
    except FrostError as error:
        if error.code == IN_PROGRESS and error.run_id:
            from client.models.default_tags import ApplyStarted

            other = ApplyStarted(operation_id=error.operation_id, run_id=error.run_id)
            screen.workspace.applies.follow(tenant_id, other.operation)
            await offer_running_apply(screen, tenant_id)
        else:
            screen.frame.toast(f"{error.message}\n{_next_step(error)}", "error")
    else:
        screen.post_message(UndoCleared(lasting))
        _show_newest(screen, tenant_id)


def _next_step(error: FrostError) -> str:
    """Return the next step after a run did not start or may not have started."""
    if error.exit_code is Exit.UNREACHABLE:
        return "The apply may have started; if so, this screen shows it once the platform responds. Retrying is safe."
    return texts_apply.next_step(error.code, texts_apply.STARTING, error.hint)


def not_changed_text(result: "ApplyResult") -> str:
    """Return the numbers of resources that an apply would not change."""
    counts = result.summary
    text = f"{counts.unchanged:,} complete, {counts.skipped:,} skipped"
    return text + (f", {counted(counts.failed, 'failure')} expected" if counts.failed else "")


def _unlisted(result: "ApplyResult") -> list[tuple[str, str]]:
    """Return the line about the types that could not be listed, if there are any."""
    text = texts_apply.unlisted_text({"result": result.wire()})
    return [("Not listed", text)] if text else []


def _lines(result: "ApplyResult", would: str) -> list[Content]:
    """Return a line for each type with changes, skips or failures."""
    types = texts_apply.preview_by_type(result.wire(), would)
    longest = max((len(one.name) for one in types), default=0)
    lines = []
    for one in types:
        text = Content.assemble((f"{safe(one.name):<{longest}}  ", "bold"), one.numbers)
        lines.append(text + Content.styled(f"  {safe(one.reasons)}", "$text-muted") if one.reasons else text)
    return lines


TICK_SECONDS = 1.0
"""Repaint interval of the elapsed time of an open run."""


class Apply(ChildListScreen[TypeRow]):
    """The newest run of the tenant, or the run of the subject."""

    NAME = "apply"
    TITLE = "Apply"
    KIND = APPLY
    PRIMARY = "apply.untouched"
    LIST_NAME = "operation"
    REQUIRES_USER = False
    EMPTY_TEXT = "No counts available."
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("apply")]

    _ticking: Timer | None = None

    def on_mount(self) -> None:
        self._ticking = self.set_interval(TICK_SECONDS, self._summarise, pause=True)

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
    def runs(self) -> "RecordList[ApplyRun]":
        return self.workspace.collections.get(RUNS, self.tenant_id)

    @property
    def run_id(self) -> str:
        """Id of the run shown; empty if there is none."""
        if self.subject is not None and self.subject.id:
            return self.subject.id
        if (live_run := self.workspace.applies.of(self.tenant_id)) is not None:
            return live_run.id
        return self.runs.records[0].run_id if self.runs.records else ""

    @property
    def record_list(self) -> RecordList[Any]:
        return self.workspace.collections.get(self.LIST_NAME, self.tenant_id, self.run_id)

    @property
    def operation(self) -> "ApplyOperation | None":
        """The run as last read, by the run tracker or by this screen."""
        live_run = self.workspace.applies.of(self.tenant_id)
        if live_run is not None and live_run.id == self.run_id:
            return live_run.operation
        return self.record_list.records[0] if self.record_list.records else None

    def records(self) -> Sequence[TypeRow]:
        operation = self.operation
        return type_rows(operation) if operation is not None and not self.unavailable_reason() else ()

    def empty(self) -> str:
        if self.unavailable_reason() or self.run_id:
            return super().empty()
        if not self.runs.known:
            return self.runs.error.message if self.runs.error is not None else "Loading …"
        return "No applies in this tenant yet."

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

    def changed(self, update: Update) -> None:
        super().changed(update)
        if update == ListChanged(RUNS) and self.display:
            self.read(quiet=True)
        if update in (Topic.APPLIES, ListChanged(RUNS), Topic.LINK):
            self.show()

    def show(self) -> None:
        super().show()
        self._summarise()
        self.show_detail()

    def _summarise(self) -> None:
        self.query_one(Summary).show(self._lines)
        operation, live_run = self.operation, self.workspace.applies.of(self.tenant_id)
        lost = live_run is not None and bool(live_run.lost)
        going = self.display and operation is not None and operation.status not in FINAL and not lost
        if self._ticking is not None:
            self._ticking.resume() if going else self._ticking.pause()

    def _lines(self, cells: int) -> list[Content]:
        operation = self.operation
        if operation is None or self.unavailable_reason():
            return []
        entry = next((run for run in self.runs.records if run.run_id == self.run_id), None)
        live_run = self.workspace.applies.of(self.tenant_id)
        lost = live_run.lost if live_run is not None and live_run.id == self.run_id else ""
        key = self.frame.keys.label("apply.afterwards")
        return progress_lines(
            operation, cells, entry, lost=lost, waits=self.workspace.applies.waits(self.tenant_id), key=key
        )

    def detail(self, record: TypeRow) -> tuple[str, Sequence[Section]]:
        operation, counts = self.operation, record.counts
        first = "Lost tags" if operation is not None and is_undo(operation.wire()) else "Updated"
        facts = [
            (first, f"{counts.updated:,}"),
            ("Unchanged", f"{counts.unchanged:,}"),
            ("Skipped", f"{counts.skipped:,}"),
            ("Failed", f"{counts.failed:,}"),
            ("Examined", f"{counts.examined:,}" + _of(record)),
            *unlisted_fact(counts),
        ]
        sections: list[Section] = [("", [("Status", record.state)]), ("", facts)]
        if operation is not None and (result := operation.result) is not None:
            for title, resources in (("Failed because", result.failures), ("Skipped because", result.skipped)):
                if reasons := reasons_text(resources, record.resource_type):
                    sections.append((title, [("", reasons)]))
        return record.resource_type, [*sections, ("Bar", LEGEND)]

    # Actions

    def do_untouched(self, kind: str = "") -> None:
        if self.run_id:
            assert self.subject is not None
            # The filter matches substrings, so exclude the other types that contain this one.
            longer = [row.resource_type for row in self.records() if kind and kind in row.resource_type]
            filter_line = " ".join([f"type:{kind}", *(f"!type:{one}" for one in longer if one != kind)]) if kind else ""
            self.post_message(
                Navigate("untouched", Subject(self.tenant_id, self.run_id, self.subject.name), filter_line)
            )

    async def do_again(self) -> None:
        await apply(self)

    def do_afterwards(self) -> None:
        applies, tenant_id = self.workspace.applies, self.tenant_id
        queued = not applies.waits(tenant_id)
        applies.start_afterwards(tenant_id, queued=queued)
        message = "Your apply starts when this one has finished" if queued else "Queued apply cancelled"
        self.frame.toast(message)

    def do_runs(self) -> None:
        assert self.subject is not None
        self.post_message(Navigate("apply-runs", Subject(self.tenant_id, "", self.subject.name)))


def _of(row: TypeRow) -> str:
    return f" of {row.total:,}" if row.total is not None and row.state == "running" else ""

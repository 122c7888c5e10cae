"""Start an apply of default tags or the undo of a run, after a confirmation that defaults to No."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from textual.content import Content

from client.api import default_tags
from client.api.default_tags import IN_PROGRESS
from client.errors import Exit, FrostError
from client.tables.columns import Record
from client.tables.default_tags import tags_text
from client.text import cut, safe
from client.texts import apply as texts_apply
from client.texts.effects import counted
from tui.default_tags.list_confirm import ListingConfirm
from tui.shell.routes import Navigate, Subject, UndoCleared
from tui.widgets.picker import Entry, Menu

if TYPE_CHECKING:
    from tui.shell.remote_list_screen import RemoteListScreen

LONGEST_TAGS = 300


async def apply(screen: "RemoteListScreen") -> None:
    """Confirm an apply with a preview, start it and show it. If a run is open, offer to follow it."""
    workspace, tenant_id = screen.workspace, screen.tenant_id
    if workspace.applies.goes_on(tenant_id):
        await offer_running_apply(screen)
        return
    result = (await workspace.ask(default_tags.preview(tenant_id))).wire()
    counts = texts_apply.summary({"result": result})
    if not counts["updated"] and not counts["failed"]:
        screen.frame.toast(
            f"Nothing lacks a default tag: {counts['examined']:,} resources looked at, none would change"
        )
        return
    facts = [
        ("Tenant", workspace.name_of(tenant_id)),
        ("Adds", cut(tags_text(result.get("appliedTags")), LONGEST_TAGS)),
        ("To", f"{counts['updated']:,} of {counts['examined']:,} resources, each the keys it lacks"),
        ("Not to", _not_changed_text(counts)),
        ("Effect", "only adds tags: no value is changed, no tag removed; continues without this screen"),
    ]
    dialog = ListingConfirm("Apply default tags?", facts, _lines(result, "would change"), yes="Apply", wrap=False)
    if await screen.app.push_screen_wait(dialog):
        await _start(screen, workspace.applies.start(tenant_id), "applying default tags")


async def undo(screen: "RemoteListScreen", run: Record) -> None:
    """Confirm the undo of a run with a preview, start it and show it."""
    workspace, tenant_id, run_id = screen.workspace, screen.tenant_id, str(run["runId"])
    if workspace.applies.goes_on(tenant_id):
        await offer_running_apply(screen, own=False)
        return
    result = (await workspace.ask(default_tags.undo_preview(tenant_id, run_id))).wire()
    counts = texts_apply.summary({"result": result})
    facts = [
        ("Tenant", workspace.name_of(tenant_id)),
        ("Takes away", cut(tags_text(run.get("appliedTags")), LONGEST_TAGS)),
        ("From", f"{counts['updated']:,} resources, only keys that this run added and that did not change since"),
        ("Not from", f"{counts['skipped']:,} skipped, {counts['failed']:,} failing"),
    ]
    dialog = ListingConfirm("Undo this run?", facts, _lines(result, "would lose tags"), yes="Take away", wrap=False)
    if await screen.app.push_screen_wait(dialog):
        await _start(screen, workspace.applies.undo(tenant_id, run_id), "undoing an apply")


async def offer_running_apply(screen: "RemoteListScreen", *, own: bool = True) -> None:
    """Offer to follow the open run and, if `own`, to start another apply after it."""
    applies, tenant_id = screen.workspace.applies, screen.tenant_id
    run = applies.of(tenant_id)
    far = f"{run.operation.get('progress') or 0:.0f} % done" if run is not None else "it began just now"
    entries = [Entry("follow", "Follow it", "f", f"Your apply is not started; {far}")]
    if own:
        note = "As long as frost is open; it applies the default tags as they are then"
        entries.append(Entry("afterwards", "Follow it, and begin mine when it is over", "o", note))
    name = cut(safe(screen.workspace.name_of(tenant_id)), 30)
    chosen = await screen.app.push_screen_wait(
        Menu(f"An apply runs in {name} already", entries, foot="A tenant has one apply at a time · Esc close")
    )
    if chosen == "afterwards":
        applies.start_afterwards(tenant_id)
    if chosen is not None:
        show(screen)


def show(screen: "RemoteListScreen", run_id: str = "", filter_line: str | None = None) -> None:
    """Show the run with this id, or the newest run of the tenant. `filter_line` is the initial filter."""
    subject = Subject(screen.tenant_id, run_id, screen.workspace.name_of(screen.tenant_id))
    screen.post_message(Navigate("apply", subject, filter_line))


async def _start(screen: "RemoteListScreen", request: Any, lasting: str) -> None:
    tenant_id = screen.tenant_id
    try:
        await request
    except FrostError as error:
        if error.code == IN_PROGRESS and error.run_id:
            run = {"runId": error.run_id, "operationId": error.operation_id}
            screen.workspace.applies.follow(tenant_id, error.run_id, run)
            await offer_running_apply(screen)
        else:
            screen.frame.toast(f"{error.message}\n{_next_step(error)}", "error")
    else:
        screen.post_message(UndoCleared(lasting))
        show(screen)


def _next_step(error: FrostError) -> str:
    """Return the next step after a run did not start or may not have started."""
    if error.exit_code is Exit.UNREACHABLE:
        return "Whether it began is not known; if it did, it shows here once the platform answers. Again is safe."
    return texts_apply.next_step(error.code, texts_apply.STARTING, error.hint)


def _not_changed_text(counts: Mapping[str, int]) -> str:
    text = f"{counts['unchanged']:,} that lack nothing, {counts['skipped']:,} skipped"
    failed = counts["failed"]
    return text + (f", {counted(failed, 'failure', 'failures')} to be expected" if failed else "")


def _lines(result: Mapping[str, Any], would: str) -> list[Content]:
    """Return a line for each type with changes, skips or failures."""
    types = texts_apply.preview_by_type(result, would)
    longest = max((len(one.name) for one in types), default=0)
    lines = []
    for one in types:
        text = Content.assemble((f"{safe(one.name):<{longest}}  ", "bold"), one.numbers)
        lines.append(text + Content.styled(f"  {safe(one.reasons)}", "$text-muted") if one.reasons else text)
    return lines

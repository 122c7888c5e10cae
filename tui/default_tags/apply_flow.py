"""Start an apply of default tags or the undo of a run, after a confirmation that defaults to No."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from textual.content import Content

from client.api.default_tags import IN_PROGRESS
from client.errors import Exit, FrostError
from client.tables.columns import Record
from client.tables.default_tags import tags_text
from client.text import cut, safe
from client.texts import apply as texts_apply
from tui.default_tags.apply_table import type_rows
from tui.default_tags.list_confirm import ListingConfirm
from tui.shell.history import Subject
from tui.shell.messages import Navigate, UndoCleared
from tui.state.effects import counted
from tui.widgets.menu import Entry, Menu

if TYPE_CHECKING:
    from tui.shell.remote_list_screen import RemoteListScreen

LONGEST_TAGS = 300


async def apply(screen: "RemoteListScreen") -> None:
    """Confirm an apply with a preview, start it and show it. If a run is open, offer to follow it."""
    workspace, tenant_id = screen.workspace, screen.tenant_id
    if workspace.applies.goes_on(tenant_id):
        await in_the_way(screen)
        return
    result = (await workspace.ask(lambda client: client.default_tags.preview(tenant_id))).wire()
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
        ("Not to", _left_alone(counts)),
        ("Effect", "adds only: no value is changed, no tag removed; it goes on without this screen"),
    ]
    dialog = ListingConfirm("Apply default tags?", facts, _lines(result, "would change"), yes="Apply", wrap=False)
    if await screen.app.push_screen_wait(dialog):
        await _begun(screen, workspace.applies.start(tenant_id), "applying default tags")


async def undo(screen: "RemoteListScreen", run: Record) -> None:
    """Confirm the undo of a run with a preview, start it and show it."""
    workspace, tenant_id, run_id = screen.workspace, screen.tenant_id, str(run["runId"])
    if workspace.applies.goes_on(tenant_id):
        await in_the_way(screen, own=False)
        return
    result = (await workspace.ask(lambda client: client.default_tags.undo_preview(tenant_id, run_id))).wire()
    counts = texts_apply.summary({"result": result})
    facts = [
        ("Tenant", workspace.name_of(tenant_id)),
        ("Takes away", cut(tags_text(run.get("appliedTags")), LONGEST_TAGS)),
        ("From", f"{counts['updated']:,} resources, each only the keys this run added and nobody changed since"),
        ("Not from", f"{counts['skipped']:,} skipped, {counts['failed']:,} failing"),
    ]
    dialog = ListingConfirm("Undo this run?", facts, _lines(result, "would lose tags"), yes="Take away", wrap=False)
    if await screen.app.push_screen_wait(dialog):
        await _begun(screen, workspace.applies.undo(tenant_id, run_id), "undoing an apply")


async def in_the_way(screen: "RemoteListScreen", *, own: bool = True) -> None:
    """Offer to follow the open run and, if `own`, to start another apply after it."""
    applies, tenant_id = screen.workspace.applies, screen.tenant_id
    run = applies.of(tenant_id)
    far = f"{run.operation.get('progress') or 0:.0f} % done" if run is not None else "it began just now"
    entries = [Entry("follow", "Follow it", "f", f"Yours is not begun; {far}")]
    if own:
        note = "As long as frost is open; it applies the default tags as they are then"
        entries.append(Entry("afterwards", "Follow it, and begin mine when it is over", "o", note))
    name = cut(safe(screen.workspace.name_of(tenant_id)), 30)
    chosen = await screen.app.push_screen_wait(
        Menu(f"An apply runs in {name} already", entries, foot="One runs in a tenant at a time · Esc close it")
    )
    if chosen == "afterwards":
        applies.start_afterwards(tenant_id)
    if chosen is not None:
        show(screen)


def show(screen: "RemoteListScreen", run_id: str = "", filter_line: str | None = None) -> None:
    """Show the run with this id, or the newest run of the tenant. `filter_line` is the initial filter."""
    subject = Subject(screen.tenant_id, run_id, screen.workspace.name_of(screen.tenant_id))
    screen.post_message(Navigate("apply", subject, filter_line))


async def _begun(screen: "RemoteListScreen", beginning: Any, lasting: str) -> None:
    tenant_id = screen.tenant_id
    try:
        await beginning
    except FrostError as error:
        if error.code == IN_PROGRESS and error.run_id:
            told = {"runId": error.run_id, "operationId": error.operation_id}
            screen.workspace.applies.follow(tenant_id, error.run_id, told)
            await in_the_way(screen)
        else:
            screen.frame.toast(f"{error.message}\n{_next(error)}", "error")
    else:
        screen.post_message(UndoCleared(lasting))
        show(screen)


def _next(error: FrostError) -> str:
    """Return the next step after a run did not start or may not have started."""
    if error.exit_code is Exit.UNREACHABLE:
        return "Whether it began is not known; if it did, it shows here once the platform answers. Again is safe."
    return texts_apply.next_step(error.code, texts_apply.STARTING, error.hint)


def _left_alone(counts: Mapping[str, int]) -> str:
    words = f"{counts['unchanged']:,} that lack nothing, {counts['skipped']:,} skipped"
    failed = counts["failed"]
    return words + (f", {counted(failed, 'failure', 'failures')} to be expected" if failed else "")


def _lines(result: Mapping[str, Any], would: str) -> list[Content]:
    """Return a line for each type with changes, skips or failures."""
    rows = [
        row
        for row in type_rows({"status": "completed", "result": result})
        if row.get("updated") or row.get("skipped") or row.get("failed")
    ]
    unlisted = texts_apply.unlisted_types({"result": result})
    longest = max((len(str(row["resourceType"])) for row in rows), default=0)
    named = [*(result.get("skipped") or ()), *(result.get("failures") or ())]
    lines = []
    for row in rows:
        kind = str(row["resourceType"])
        parts = [f"{row['updated']:,} {would}"] if row.get("updated") else []
        if kind in unlisted:
            parts.append("not examined, it cannot be listed")
        else:
            parts += [f"{row[what]:,} {what}" for what in ("skipped", "failed") if row.get(what)]
        why = ", ".join(
            dict.fromkeys(texts_apply.short_reason(one["reason"]) for one in named if one["resourceType"] == kind)
        )
        text = Content.assemble((f"{safe(kind):<{longest}}  ", "bold"), ", ".join(parts))
        lines.append(text + Content.styled(f"  {safe(why)}", "$text-muted") if why else text)
    return lines

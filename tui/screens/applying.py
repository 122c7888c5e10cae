"""Asking for an apply of default tags, or for the undo of one: with the counts first, and No as the answer of Enter."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from textual.content import Content

from client.api.default_tags import IN_PROGRESS
from client.errors import Exit, FrostError
from client.records import Record
from client.records_tags import tags_text
from client.text import cut, safe
from tui import apply_words
from tui.apply_table import type_rows
from tui.effects import counted
from tui.history import Subject
from tui.messages import Lasting, Travel
from tui.widgets.listing_confirm import ListingConfirm
from tui.widgets.menu import Entry, Menu

if TYPE_CHECKING:
    from tui.screens.collected import Collected

LONGEST_TAGS = 300


async def apply(place: "Collected") -> None:
    """Ask with the counts of a preview, begin, and show it; where another one runs, offer to follow that."""
    workspace, tenant_id = place.workspace, place.tenant_id
    if workspace.applies.goes_on(tenant_id):
        await in_the_way(place)
        return
    result = (await workspace.ask(lambda client: client.default_tags.preview(tenant_id))).wire()
    counts = apply_words.summary({"result": result})
    if not counts["updated"] and not counts["failed"]:
        place.frame.toast(f"Nothing lacks a default tag: {counts['examined']:,} resources looked at, none would change")
        return
    facts = [
        ("Tenant", workspace.name_of(tenant_id)),
        ("Adds", cut(tags_text(result.get("appliedTags")), LONGEST_TAGS)),
        ("To", f"{counts['updated']:,} of {counts['examined']:,} resources, each the keys it lacks"),
        ("Not to", _left_alone(counts)),
        ("Effect", "adds only: no value is changed, no tag removed; it goes on without this screen"),
    ]
    dialog = ListingConfirm("Apply default tags?", facts, _lines(result, "would change"), yes="Apply", wrap=False)
    if await place.app.push_screen_wait(dialog):
        await _begun(place, workspace.applies.start(tenant_id), "applying default tags")


async def undo(place: "Collected", run: Record) -> None:
    """Ask with what would lose tags, and begin to take away just what the run added."""
    workspace, tenant_id, run_id = place.workspace, place.tenant_id, str(run["runId"])
    if workspace.applies.goes_on(tenant_id):
        await in_the_way(place, own=False)
        return
    result = (await workspace.ask(lambda client: client.default_tags.undo_preview(tenant_id, run_id))).wire()
    counts = apply_words.summary({"result": result})
    facts = [
        ("Tenant", workspace.name_of(tenant_id)),
        ("Takes away", cut(tags_text(run.get("appliedTags")), LONGEST_TAGS)),
        ("From", f"{counts['updated']:,} resources, each only the keys this run added and nobody changed since"),
        ("Not from", f"{counts['skipped']:,} skipped, {counts['failed']:,} failing"),
    ]
    dialog = ListingConfirm("Undo this run?", facts, _lines(result, "would lose tags"), yes="Take away", wrap=False)
    if await place.app.push_screen_wait(dialog):
        await _begun(place, workspace.applies.undo(tenant_id, run_id), "undoing an apply")


async def in_the_way(place: "Collected", *, own: bool = True) -> None:
    """One runs already: it can be followed, and an own one begun when it is over."""
    applies, tenant_id = place.workspace.applies, place.tenant_id
    run = applies.of(tenant_id)
    far = f"{run.operation.get('progress') or 0:.0f} % done" if run is not None else "it began just now"
    entries = [Entry("follow", "Follow it", "f", f"Yours is not begun; {far}")]
    if own:
        note = "As long as frost is open; it applies the default tags as they are then"
        entries.append(Entry("afterwards", "Follow it, and begin mine when it is over", "o", note))
    name = cut(safe(place.workspace.name_of(tenant_id)), 30)
    chosen = await place.app.push_screen_wait(
        Menu(f"An apply runs in {name} already", entries, foot="One runs in a tenant at a time · Esc leaves it")
    )
    if chosen == "afterwards":
        applies.start_afterwards(tenant_id)
    if chosen is not None:
        show(place)


def show(place: "Collected", run_id: str = "", filter_line: str | None = None) -> None:
    """Show a run, or without an id the newest of the tenant."""
    subject = Subject(place.tenant_id, run_id, place.workspace.name_of(place.tenant_id))
    place.post_message(Travel("apply", subject, filter_line))


async def _begun(place: "Collected", beginning: Any, lasting: str) -> None:
    tenant_id = place.tenant_id
    try:
        await beginning
    except FrostError as error:
        if error.code == IN_PROGRESS and error.run_id:
            told = {"runId": error.run_id, "operationId": error.operation_id}
            place.workspace.applies.follow(tenant_id, error.run_id, told)
            await in_the_way(place)
        else:
            place.frame.toast(f"{error.message}\n{_next(error)}", "error")
    else:
        place.post_message(Lasting(lasting))
        show(place)


def _next(error: FrostError) -> str:
    """What to do when a run did not begin, or may not have."""
    if error.exit_code is Exit.UNREACHABLE:
        return "Whether it began is not known; if it did, it shows here once the platform answers. Again is safe."
    return apply_words.next_step(error.code, apply_words.STARTING, error.hint)


def _left_alone(counts: Mapping[str, int]) -> str:
    words = f"{counts['unchanged']:,} that lack nothing, {counts['skipped']:,} skipped"
    failed = counts["failed"]
    return words + (f", {counted(failed, 'failure', 'failures')} to be expected" if failed else "")


def _lines(result: Mapping[str, Any], would: str) -> list[Content]:
    """A line for each type with something to say."""
    rows = [
        row
        for row in type_rows({"status": "completed", "result": result})
        if row.get("updated") or row.get("skipped") or row.get("failed")
    ]
    unlisted = apply_words.unlisted_types({"result": result})
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
            dict.fromkeys(apply_words.short_reason(one["reason"]) for one in named if one["resourceType"] == kind)
        )
        text = Content.assemble((f"{safe(kind):<{longest}}  ", "bold"), ", ".join(parts))
        lines.append(text + Content.styled(f"  {safe(why)}", "$text-muted") if why else text)
    return lines

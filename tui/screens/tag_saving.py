"""Storing a set of default tags: the difference first, nobody else's change lost, and a way back."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from client.errors import FrostError
from client.models.default_tags import DefaultTags as Stored
from client.models.default_tags import TagVersion
from client.records import time_text
from client.records_tags import person_text
from client.tag_changes import TagChanges, difference
from client.text import safe
from tui.messages import Undoable
from tui.tag_draft import TagDraft
from tui.tag_lines import difference_lines
from tui.widgets.listing_confirm import ListingConfirm
from tui.widgets.tag_conflict import TagConflict

if TYPE_CHECKING:
    from client.api.client import Client
    from tui.screens.collected import Collected
    from tui.screens.default_tags import DefaultTags

EFFECT = "new resources get it within half a minute; those that exist keep their tags until an apply"
STALE = "STALE_VERSION"


async def save(place: "DefaultTags") -> None:
    """Store the draft as it is agreed on; a set stored meanwhile is shown, and merged or overwritten on purpose."""
    tenant_id, draft = place.tenant_id, place.draft
    if draft is None:
        return
    overwriting = False
    while draft.dirty:
        if (problem := draft.problem) is not None:
            place.frame.toast(f"Not saved: {problem.message}", "warning")
            return
        if _overtaken(place, draft):  # known before anything is agreed on: the figures would be those of another set
            way = await _settled(place, draft)
            if way is None:
                return
            overwriting = way == "overwrite"
            continue
        # What is agreed on is what is sent, whatever is read or edited while the question stands.
        before, wanted, version = dict(draft.base), dict(draft.tags), draft.version
        if not await agreed(place, "Save default tags?", before, wanted, overwriting=overwriting):
            return
        try:
            stored = await place.workspace.ask(
                lambda client, wanted=wanted, version=version: client.default_tags.put(tenant_id, wanted, version)  # type: ignore[misc]
            )
        except FrostError as error:
            if error.code != STALE:
                raise
            way = await _settled(place, draft)
            if way is None:
                return
            overwriting = way == "overwrite"
            continue
        place.table.clear_marks()
        _taken(place, tenant_id, stored, own=True)
        _offer_undo(place, tenant_id, before, stored)
        return


async def put_back(place: "Collected", tags: Mapping[str, str], newest: int, now: Mapping[str, str]) -> None:
    """Store a former set again, unless another one than `newest` was stored meanwhile."""
    tenant_id = place.tenant_id
    if not await agreed(place, "Put this set back?", now, tags, yes="Put back"):
        return
    try:
        stored = await place.workspace.ask(lambda client: client.default_tags.put(tenant_id, tags, newest))
    except FrostError as error:
        if error.code != STALE:
            raise
        place.frame.toast("Nothing was put back: another set was stored meanwhile; it stands on top now", "error")
    else:
        _taken(place, tenant_id, stored)
        _offer_undo(place, tenant_id, now, stored)
    place.workspace.refresh()


async def agreed(
    place: "Collected",
    question: str,
    before: Mapping[str, str],
    after: Mapping[str, str],
    *,
    yes: str = "Save",
    overwriting: bool = False,
) -> bool:
    """Show what changes, and ask; where something is taken away, No is the answer of Enter."""
    changes = difference(before, after)
    facts = [
        ("Tenant", place.workspace.name_of(place.tenant_id)),
        ("Tags", f"{len(before)} now, {len(after)} then" if after else "none then: the set is cleared"),
        ("Effect", EFFECT),
    ]
    if overwriting:
        facts.append(("Overwrites", "what somebody else stored meanwhile, as marked below"))
    return await place.app.push_screen_wait(
        ListingConfirm(
            question, facts, difference_lines(changes), yes=yes, destructive=overwriting or bool(changes.removed)
        )
    )


def _overtaken(place: "DefaultTags", draft: TagDraft) -> bool:
    """Whether a newer set than the draft stands on is known to be stored."""
    stored = place.rows.records[0] if place.rows.records else {}
    return int(stored.get("version") or 0) > (draft.version or 0)


async def _settled(place: "DefaultTags", draft: TagDraft) -> str | None:
    """What is to become of a draft whose stored set is another one by now; it then stands on that one."""
    tenant_id = place.tenant_id
    theirs = await place.workspace.ask(lambda client: client.default_tags.get(tenant_id))
    newest = await place.workspace.ask(lambda client: _newest(client, tenant_id))
    if theirs.tags == draft.tags:
        _taken(place, tenant_id, theirs)
        place.frame.toast("The same set was stored meanwhile: there is nothing left to save")
        return None
    marked = draft.conflicts(theirs.tags)
    words = f"Version {theirs.version} was stored after your draft was begun{_by(newest)}."
    dialog = TagConflict(
        words,
        difference_lines(difference(draft.base, theirs.tags), marked),
        difference_lines(draft.changes, marked),
    )
    way = await place.app.push_screen_wait(dialog)
    if way == "merge":
        draft.merge(theirs.tags, theirs.version)
    elif way == "overwrite":
        draft.stand_on(theirs.tags, theirs.version)
    place.workspace.tag_drafts.keep(tenant_id)
    _put(place, tenant_id, theirs)
    return way


async def _newest(client: "Client", tenant_id: str) -> TagVersion | None:
    async for page in client.default_tags.history(tenant_id):
        return next(iter(page), None)
    return None


def _by(version: TagVersion | None) -> str:
    if version is None:
        return ""
    told = version.wire()
    who = person_text(told.get("changedBy"))
    return f", {time_text(told.get('changedAt'))}" + (f" by {safe(who, 60)}" if who else "")


def _taken(place: "Collected", tenant_id: str, stored: Stored, *, own: bool = False) -> None:
    """Take what is stored now; of an own draft that was saved only what was edited meanwhile is left of it."""
    drafts = place.workspace.tag_drafts
    if (draft := drafts.of(tenant_id)) is not None:
        take = draft.saved if own else draft.follow
        take(stored.tags, stored.version)
        drafts.keep(tenant_id)
    _put(place, tenant_id, stored)
    place.workspace.refresh()


def _put(place: "Collected", tenant_id: str, stored: Stored) -> None:
    record = {"id": tenant_id, "tags": stored.tags, "version": stored.version}
    place.workspace.collections.put("default tags", tenant_id, record)


def _offer_undo(place: "Collected", tenant_id: str, before: Mapping[str, str], stored: Stored) -> None:
    changes = difference(before, stored.tags)

    async def undo() -> None:
        put = await place.workspace.ask(lambda client: client.default_tags.put(tenant_id, before, stored.version))
        _taken(place, tenant_id, put)

    name = place.workspace.name_of(tenant_id)
    place.post_message(
        Undoable(f"Saved the default tags of {name}: {_counted(changes)}", undo, f"the former set of {name}")
    )


def _counted(changes: TagChanges) -> str:
    """`1 added, 2 removed`."""
    counts = ((changes.added, "added"), (changes.changed, "changed"), (changes.removed, "removed"))
    return ", ".join(f"{len(keys)} {what}" for keys, what in counts if keys)

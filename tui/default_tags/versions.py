"""The stored versions of default tags: save a draft as the next one, and the history."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import BindingType
from textual.content import Content

from client.api import default_tags
from client.errors import FrostError
from client.tables.columns import Column, Record, person_text, time_text
from client.tables.default_tags import TAG_VERSION, TagChanges, difference
from client.text import cut, safe
from tui.default_tags.dialogs import Listing, ListingConfirm, TagConflict
from tui.shell import keymap
from tui.shell.remote_list_screen import ChildListScreen
from tui.shell.routes import UndoAvailable
from tui.state.list_store import RecordList
from tui.state.tag_draft import StoredTags, TagDraft
from tui.widgets.detail import Section
from tui.widgets.record_table import Tones

if TYPE_CHECKING:
    from client.models.default_tags import DefaultTags, TagVersion
    from client.transport.call import Versioned
    from tui.shell.remote_list_screen import RemoteListScreen

LONGEST = 120  # cells of a value
TONES = {"+": "$text-success", "~": "$text-warning", "−": "$text-error"}


def difference_lines(changes: TagChanges, marked: Collection[str] = ()) -> list[Content]:
    """Return lines by key: `+ key = value`, `~ key = new  was old`, `− key = value`. `marked` keys are in conflict."""
    lines: dict[str, Content] = {}
    for sign, tags in (("+", changes.added), ("−", changes.removed)):
        for key, value in tags.items():
            lines[key] = _line(sign, key, value, "", key in marked)
    for key, (before, after) in changes.changed.items():
        lines[key] = _line("~", key, after, f"  was {_value(before)}", key in marked)
    return [lines[key] for key in sorted(lines)]


def _line(sign: str, key: str, value: str, was: str, marked: bool) -> Content:
    line = Content.assemble((f"{sign} ", f"bold {TONES[sign]}"), (safe(key), "bold"), (" = ", "$text-muted"))
    line += Content.assemble(_value(value), (was, "$text-muted"))
    return line + Content.styled("  ! changed by both", "$text-warning") if marked else line


def _value(value: str) -> str:
    return cut(safe(value), LONGEST) or "(empty)"


EFFECT = "new resources get these tags within 30 s; existing resources keep their tags until an apply"
STALE = "STALE_VERSION"
LIST = "default tags"
"""Name of the list with the stored set."""


async def save(screen: "RemoteListScreen[Any]") -> None:
    """Save the draft. If another set was stored since the draft began, let the user merge or overwrite it.

    The save belongs to the tenant that was in use at its start, even if the user switches the tenant during a request.
    """
    tenant_id, draft = screen.tenant_id, screen.draft
    if draft is None:
        return
    overwriting = False
    while draft.dirty:
        if (problem := draft.problem) is not None:
            screen.frame.toast(f"Not saved: {problem.message}", "warning")
            return
        # Before the confirmation, which would show the difference to an outdated set.
        if _is_outdated(screen, tenant_id, draft):
            way = await _resolve_conflict(screen, tenant_id, draft)
            if way is None:
                return
            overwriting = way == "overwrite"
            continue
        # Send the set that was confirmed, even if the draft changes while the dialog is open.
        before, tags, version = dict(draft.base), dict(draft.tags), draft.version
        question = "Save default tags?"
        if not await confirm_difference(screen, tenant_id, question, before, tags, overwriting=overwriting):
            return
        if not _is_in_use(screen, tenant_id, draft):
            return
        try:
            stored = await screen.workspace.versioned(default_tags.put(tenant_id, tags, version))
        except FrostError as error:
            if error.code != STALE:
                raise
            way = await _resolve_conflict(screen, tenant_id, draft)
            if way is None:
                return
            overwriting = way == "overwrite"
            continue
        screen.table.clear_marks()
        _update_draft(screen, tenant_id, stored, own=True)
        _offer_undo(screen, tenant_id, before, stored)
        return


async def put_back(
    screen: "RemoteListScreen[Any]", tags: Mapping[str, str], newest: int, now: Mapping[str, str]
) -> None:
    """Store a former set again unless a version newer than `newest` exists. `now` is the set it replaces."""
    tenant_id = screen.tenant_id
    if not await confirm_difference(screen, tenant_id, "Restore this version?", now, tags, yes="Restore"):
        return
    try:
        stored = await screen.workspace.versioned(default_tags.put(tenant_id, tags, newest))
    except FrostError as error:
        if error.code != STALE:
            raise
        screen.frame.toast("Not restored: a newer version was stored in between", "error")
    else:
        _update_draft(screen, tenant_id, stored)
        _offer_undo(screen, tenant_id, now, stored)
    screen.workspace.refresh()


async def confirm_difference(
    screen: "RemoteListScreen[Any]",
    tenant_id: str,
    question: str,
    before: Mapping[str, str],
    after: Mapping[str, str],
    *,
    yes: str = "Save",
    overwriting: bool = False,
) -> bool:
    """Confirm the difference. The default is Cancel if it removes tags or overwrites another set."""
    changes = difference(before, after)
    facts = [
        ("Tenant", screen.workspace.name_of(tenant_id)),
        ("Tags", f"{len(before)} now, {len(after)} after" if after else "none: all default tags are removed"),
        ("Effect", EFFECT),
    ]
    if overwriting:
        facts.append(("Overwrites", "changes of other users, marked below"))
    return await screen.app.push_screen_wait(
        ListingConfirm(
            question, facts, difference_lines(changes), yes=yes, destructive=overwriting or bool(changes.removed)
        )
    )


def _is_outdated(screen: "RemoteListScreen[Any]", tenant_id: str, draft: TagDraft) -> bool:
    """Return whether a version newer than the base of the draft is loaded."""
    record_list: RecordList[StoredTags] = screen.workspace.collections.get(LIST, tenant_id)
    stored = next(iter(record_list.records), None)
    return stored is not None and (stored.version or 0) > (draft.version or 0)


def _is_in_use(screen: "RemoteListScreen[Any]", tenant_id: str, draft: TagDraft) -> bool:
    """Return whether the draft belongs to the user and context in use. If not, show that it is not saved."""
    if screen.workspace.tag_drafts.of(tenant_id) is draft:
        return True
    screen.frame.toast("Not saved: the user has changed", "warning")
    return False


async def _resolve_conflict(screen: "RemoteListScreen[Any]", tenant_id: str, draft: TagDraft) -> str | None:
    """Show the conflict with the newer stored set and rebase the draft as chosen.

    Return `merge` or `overwrite`; None if the draft is left unchanged or equals the stored set.
    """
    theirs = await screen.workspace.versioned(default_tags.get(tenant_id))
    newest = next(iter(await screen.workspace.ask(default_tags.history_page(tenant_id, limit=1))), None)
    if theirs.record.tags == draft.tags:
        _update_draft(screen, tenant_id, theirs)
        screen.frame.toast("No changes to save: the stored version has the same tags")
        return None
    marked = draft.conflicts(theirs.record.tags)
    name = screen.workspace.name_of(tenant_id)
    summary = f"Version {theirs.version} of the tags of {name} was stored after your draft was started{_by(newest)}."
    dialog = TagConflict(
        summary,
        difference_lines(difference(draft.base, theirs.record.tags), marked),
        difference_lines(draft.changes, marked),
    )
    way = await screen.app.push_screen_wait(dialog)
    if not _is_in_use(screen, tenant_id, draft):
        return None
    if way == "merge":
        draft.merge(theirs.record.tags, theirs.version)
    elif way == "overwrite":
        draft.rebase(theirs.record.tags, theirs.version)
    screen.workspace.tag_drafts.keep(tenant_id)
    _put(screen, tenant_id, theirs)
    return way


def _by(version: "TagVersion | None") -> str:
    if version is None:
        return ""
    author = person_text(version.changed_by)
    return f", {time_text(version.changed_at)}" + (f" by {safe(author, 60)}" if author else "")


def _update_draft(
    screen: "RemoteListScreen[Any]", tenant_id: str, stored: "Versioned[DefaultTags]", *, own: bool = False
) -> None:
    """Update draft and list with the stored set. After an `own` save, the draft retains only later edits."""
    drafts = screen.workspace.tag_drafts
    if (draft := drafts.of(tenant_id)) is not None:
        take = draft.saved if own else draft.follow
        take(stored.record.tags, stored.version)
        drafts.keep(tenant_id)
    _put(screen, tenant_id, stored)
    screen.workspace.refresh()


def _put(screen: "RemoteListScreen[Any]", tenant_id: str, stored: "Versioned[DefaultTags]") -> None:
    tags = StoredTags(tenant_id, stored.record.tags, stored.version)
    screen.workspace.collections.put(LIST, tenant_id, tags)


def _offer_undo(
    screen: "RemoteListScreen[Any]", tenant_id: str, before: Mapping[str, str], stored: "Versioned[DefaultTags]"
) -> None:
    changes = difference(before, stored.record.tags)

    async def undo() -> None:
        put = await screen.workspace.versioned(default_tags.put(tenant_id, before, stored.version))
        _update_draft(screen, tenant_id, put)

    name = screen.workspace.name_of(tenant_id)
    screen.post_message(
        UndoAvailable(f"Saved the default tags of {name}: {_changes_text(changes)}", undo, f"restored tags of {name}")
    )


def _changes_text(changes: TagChanges) -> str:
    """Return a summary such as `1 added, 2 removed`."""
    counts = ((changes.added, "added"), (changes.changed, "changed"), (changes.removed, "removed"))
    return ", ".join(f"{len(keys)} {change}" for keys, change in counts if keys)


class TagVersions(ChildListScreen["TagVersion"]):
    """Versions of the set, newest first. `►` marks the current one."""

    NAME = "tag-versions"
    TITLE = "History"
    KIND = TAG_VERSION
    PRIMARY = "tag-versions.difference"
    LIST_NAME = "tag versions"
    REQUIRES_USER = False
    EMPTY_TEXT = "No versions yet."
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("tag-versions")]

    def title_for(self, name: str) -> str:
        return f"Default tags of {name}: history"

    def columns(self) -> Sequence[Column]:
        by_key = {column.key: column for column in TAG_VERSION.columns}
        version = by_key["version"]._replace(title="  Version", cell=_version_text, align="left")
        return (version, *(by_key[key] for key in ("changedAt", "changedBy", "tags")))

    def tones(self) -> Tones:
        return {"changedAt": lambda record: "dim", "version": lambda record: "mark" if record.get("current") else None}

    def detail(self, record: "TagVersion") -> tuple[str, Sequence[Section]]:
        suffix = " · current" if record.current else ""
        facts = [("Saved", time_text(record.changed_at)), ("By", person_text(record.changed_by) or "—")]
        tags = record.tags
        sections = [("", facts), ("Tags", [("", f"{key} = {tags[key]}") for key in sorted(tags)] or [("", "none")])]
        if (before := self._before(record)) is not None:
            lines = difference(before.tags, tags).lines()
            sections.append((f"Against version {before.version}", [("", line) for line in lines] or [("", "same")]))
        return f"Version {record.version}{suffix}", sections

    @property
    def newest(self) -> "TagVersion | None":
        """The current version."""
        return next((row for row in self.records() if row.current), None)

    def _before(self, record: "TagVersion") -> "TagVersion | None":
        return next((row for row in self.records() if row.version < record.version), None)

    # Actions

    def do_difference(self, argument: str = "") -> None:
        old = next((row for row in self.records() if str(row.version) == argument), self.record)
        new = self.newest
        if old is None or new is None:
            return
        if old is new and (old := self._before(new)) is None:
            self.frame.toast("This is the only version")
            return
        lines = difference_lines(difference(old.tags, new.tags))
        self.app.push_screen(Listing(f"Version {old.version} to {new.version}", lines, "No difference."))

    async def do_put_back(self) -> None:
        old, new = self.record, self.newest
        if old is not None and new is not None:
            await put_back(self, old.tags, new.version, new.tags)
            self.read(quiet=True)


def _version_text(record: Record) -> str:
    return f"{'►' if record.get('current') else ' '} {record['version']}"

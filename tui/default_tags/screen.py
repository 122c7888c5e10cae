"""The default tags of the current tenant as an editable draft, and their table columns."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content

from client.models.validation import KEY_BYTES, MOST, VALUE_BYTES, size
from client.tables.columns import Column, Kind, Record, fields, person_text, time_text
from client.text import cut, safe
from tui.default_tags import apply_screen, versions
from tui.default_tags.apply_text import Summary, wrapped
from tui.default_tags.dialogs import TagForm
from tui.shell import keymap
from tui.shell.remote_list_screen import RemoteListScreen
from tui.shell.routes import Navigate, Subject
from tui.state.list_store import RecordList
from tui.state.refresh import ListChanged, Update
from tui.state.tag_draft import MARKS, StoredTags, TagDraft, TagRow
from tui.widgets.detail import Section
from tui.widgets.record_table import Tones
from tui.widgets.record_view import RecordView

if TYPE_CHECKING:
    from client.models.default_tags import ApplyResult, TagVersion


def bytes_text(record: Record) -> str:
    """Return sizes and limits of key and value: `3/64 4/255`."""
    return f"{size(str(record['key']))}/{KEY_BYTES} {size(str(record['value']))}/{VALUE_BYTES}"


def _note(record: Record) -> str:
    if record.get("problem"):
        return f"! {record['problem']}"
    if record.get("mark") == "changed":
        return f"was {record.get('was') or '(empty)'}"
    return str(record.get("mark") or "")


_COLUMNS = (
    Column(
        "key",
        "  Key",
        cell=lambda record: f"{MARKS.get(str(record.get('mark')), ' ')} {record['key']}",
        sort=lambda record: str(record["key"]).casefold(),
    ),
    Column(
        "value", "Value", cell=lambda record: str(record["value"]) or "(empty)", sort=lambda record: record["value"]
    ),
    Column("note", "Draft", cell=_note),
    Column(
        "bytes",
        "Key, value bytes",
        wide=True,
        cell=bytes_text,
        sort=lambda record: size(str(record["key"]) + str(record["value"])),
    ),
)
TAG = Kind("tag", "tags", "key", _COLUMNS, fields(_COLUMNS, key="key", value="value", draft="note"), "key")


def _tone(record: Record) -> str | None:
    if record.get("problem"):
        return "bad"
    return {"added": "good", "changed": "warning", "removed": "bad"}.get(str(record.get("mark")))


TONES: Tones = {
    "key": _tone,
    "value": lambda record: "dim" if record.get("mark") == "removed" else None,
    "bytes": lambda record: "dim",
    "note": _tone,
}


class DefaultTags(RemoteListScreen[TagRow]):
    """Rows are the tags of the draft, including removed ones."""

    NAME = "default-tags"
    TITLE = "Default tags"
    KIND = TAG
    PRIMARY = "default-tags.edit"
    LIST_NAME = "default tags"
    RELATED = ("tag versions",)
    REQUIRES_USER = False
    EMPTY_TEXT = "No default tags. New resources get no tags."
    EMPTY_ACTION = "default-tags.add"
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("default-tags")]

    def compose_header(self) -> ComposeResult:
        yield Summary()

    @property
    def draft(self) -> TagDraft | None:
        return self.workspace.tag_drafts.of(self.tenant_id)

    @property
    def stored(self) -> StoredTags | None:
        """The stored set; None until it is loaded."""
        record_list: RecordList[Any] = self.record_list
        return next(iter(record_list.records), None)

    def tones(self) -> Tones:
        return TONES

    def _shown(self) -> TagDraft | None:
        """Return the draft; before the user is known, the stored set without changes."""
        stored = self.stored
        if self.draft is not None or stored is None:
            return self.draft
        return TagDraft(stored.tags, stored.version)

    def records(self) -> Sequence[TagRow]:
        shown = None if self.unavailable_reason() else self._shown()
        return shown.rows() if shown is not None else ()

    def empty(self) -> str:
        return self._empty_text() if self._shown() is not None and not self.unavailable_reason() else super().empty()

    def show(self) -> None:
        self._update_draft()
        super().show()
        self._summarise()

    def refresh_on_open(self) -> None:
        super().refresh_on_open()
        if not self.unavailable_reason():
            self.workspace.collections.read("tag versions", self.tenant_id, quiet=True)

    def read_again(self, only: str = "") -> None:
        super().read_again(only)
        if only in ("", "tag versions") and self.record is None and not self.unavailable_reason():
            self.workspace.collections.read("tag versions", self.tenant_id, quiet=True)

    def related_key(self, name: str, record: TagRow) -> str:
        return ""

    def changed(self, update: Update) -> None:
        super().changed(update)
        if isinstance(update, ListChanged) and update.name in (self.LIST_NAME, *self.RELATED):
            self.show()

    def _update_draft(self) -> None:
        """Create the draft from the stored set, restore it from disk, or update its base. Drafts belong to a person."""
        stored = self.stored
        if self.unavailable_reason() or stored is None or self.workspace.me is None:
            return
        saved_at = self.workspace.tag_drafts.follow(self.tenant_id, stored.tags, stored.version)
        if saved_at:
            key = self.frame.keys.label("default-tags.discard")
            self.frame.toast(f"Draft of {time_text(saved_at)} restored · {key} to discard")

    def count_text(self, view: RecordView[Any]) -> str:
        draft = self.draft
        count = f"{len(draft.tags)}/{MOST} tags" if draft is not None else super().count_text(view)
        return f"{len(view)} shown · {count}" if view.filter else count

    def _summarise(self) -> None:
        self.query_one(Summary).show(self._lines)

    def _lines(self, cells: int) -> list[Content]:
        draft = self.draft
        if draft is None or self.unavailable_reason():
            return []
        label = self.frame.keys.label
        version = self.stored.version if self.stored is not None else None
        if not draft.dirty:
            return wrapped(self._stored_text(), cells, "$text-muted")
        keys = " · ".join(
            f"{label(f'{self.NAME}.{verb}')} {verb}" for verb in ("save", "discard") if label(f"{self.NAME}.{verb}")
        )
        whole = [f"Not saved:  {draft.words} · {keys}"]
        parts = whole if len(whole[0]) <= cells else [f"Not saved:  {draft.words}", keys]
        lines = [line for part in parts for line in wrapped(part, cells, "$text-warning")]
        if version != draft.version:
            lines += wrapped(
                f"! Version {version} was stored after your draft was started; saving shows its changes",
                cells,
                "$text-error",
            )
        if problem := draft.problem:
            lines += wrapped(f"! {problem.message}", cells, "$text-error")
        return lines

    def _stored_text(self) -> str:
        newest: TagVersion | None = next(iter(self.related("tag versions", "").records), None)
        if newest is None:
            return "New resources get these tags. Existing resources get them when you apply."
        author = person_text(newest.changed_by)
        return f"Version {newest.version} of {time_text(newest.changed_at)}" + (f" by {author}" if author else "")

    def detail(self, record: TagRow) -> tuple[str, Sequence[Section]]:
        key, value = record.key, record.value
        facts = [
            ("Value", value or "(empty)"),
            ("Key length", f"{size(key)} of {KEY_BYTES} bytes"),
            ("Value length", f"{size(value)} of {VALUE_BYTES} bytes"),
        ]
        if record.mark:
            facts.append(("Draft", record.mark))
        if record.was is not None:
            facts.append(("Stored", record.was or "(empty)"))
        if record.problem:
            facts.append(("Problem", record.problem))
        return key, [("", facts), ("Missing the tag", self._lacking(key)), ("Effect", [("", GETS)])]

    def _lacking(self, key: str) -> list[tuple[str, str]]:
        """Return how many resources lack the key, by type, from the last preview."""
        previews = self.workspace.collections.get("apply preview", self.tenant_id, preview_of(self.draft))
        preview: ApplyResult | None = next(iter(previews.records), None)
        if preview is None:
            return [("", f"{self.frame.keys.label('default-tags.preview')} to count affected resources")]
        numbers = [(kind, lacking[key]) for kind, lacking in preview.affected.items() if lacking.get(key)]
        return [("", f"{number:,} {kind}") for kind, number in numbers] or [("", "none")]

    # Editing the draft

    async def do_edit(self, key: str = "") -> None:
        row = next((record for record in self.records() if record.key == key), self.record)
        if row is not None:
            await self._fill(row.key, row.value, row.key)

    async def do_add(self, tag: str = "") -> None:
        key, _, value = tag.partition("=")
        draft = self.draft
        if tag and draft is not None and draft.problem_of(key, value) is None:
            draft.put(key, value)
            self._edited(key)
        else:
            await self._fill(key, value, "")

    async def _fill(self, key: str, value: str, instead_of: str) -> None:
        draft, tenant_id = self.draft, self.tenant_id
        if draft is None:
            return
        title = f"Edit {cut(safe(instead_of), 40)}" if instead_of else f"New tag in {self._tenant_name()}"
        form = TagForm(
            title,
            (key, value),
            draft,
            instead_of,
            count=f"{len(draft.tags)}/{MOST} tags",
            button="Change" if instead_of else "Add to draft",
        )
        answer = await self.app.push_screen_wait(form)
        if answer is not None and self.workspace.tag_drafts.of(tenant_id) is draft:
            if instead_of:
                draft.put(*next(iter(answer.items())), instead_of)
            else:
                draft.put_all(answer)
            self._edited(next(iter(answer)), tenant_id)

    def do_remove(self) -> None:
        rows = self.table.selected_records
        draft = self.draft
        if draft is None or not rows:
            return
        keys = [row.key for row in rows]
        if all(row.mark == "removed" for row in rows):
            draft.restore(keys)
        else:
            draft.remove(keys)
        self.table.clear_marks()
        self._edited(keys[0])

    def do_discard(self) -> None:
        if self.draft is not None:
            self.draft.discard()
            self._edited("")

    @property
    def undo_description(self) -> str:
        draft = self.draft
        return "the last edit of the draft" if draft is not None and draft.undoable else ""

    def undo(self) -> None:
        if self.draft is not None:
            self.draft.undo()
            self._edited("")

    def _edited(self, key: str, tenant_id: str = "") -> None:
        self.workspace.tag_drafts.keep(tenant_id or self.tenant_id)
        self.show()
        if key:
            self.select(key)
        self.show_detail()
        self.frame.show_keys()

    # Save, apply and history

    async def do_save(self) -> None:
        await versions.save(self)

    def do_preview(self) -> None:
        self._inside("apply-preview", preview_of(self.draft))

    async def do_apply(self) -> None:
        await apply_screen.apply(self)

    def do_follow(self) -> None:
        self._inside("apply")

    def do_versions(self) -> None:
        self._inside("tag-versions")

    def do_runs(self) -> None:
        self._inside("apply-runs")

    def _inside(self, screen: str, subject: str = "") -> None:
        self.post_message(Navigate(screen, Subject(self.tenant_id, subject, self._tenant_name())))

    def _tenant_name(self) -> str:
        return self.workspace.name_of(self.tenant_id)

    def copies(self) -> Mapping[str, str]:
        """Copy a row as `key=value`, and JSON as the map that commands print."""
        texts = dict(super().copies())
        rows = self.table.selected_records
        if rows:
            tags = {row.key: row.value for row in rows}
            texts["row"] = "\n".join(f"{key}={value}" for key, value in tags.items())
            texts["JSON"] = json.dumps(tags, indent=2, ensure_ascii=False)
        return texts


GETS = "New resources get the tag within 30 s. Existing resources change only when you apply."


def preview_of(draft: TagDraft | None) -> str:
    """Return the subject of a preview: an unsaved set as JSON, or "" for the stored set."""
    return json.dumps(draft.tags, sort_keys=True) if draft is not None and draft.dirty else ""

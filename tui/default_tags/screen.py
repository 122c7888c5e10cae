"""The default tags of the current tenant as an editable draft, and their table columns."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

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
from tui.state.refresh import Change, ListChanged
from tui.state.tag_draft import MARKS, TagDraft
from tui.widgets.detail import Section
from tui.widgets.record_table import Tones
from tui.widgets.record_view import RecordView


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
    Column(
        "bytes",
        "Key, value bytes",
        cell=bytes_text,
        sort=lambda record: size(str(record["key"]) + str(record["value"])),
    ),
    Column("note", "Draft", cell=_note),
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


class DefaultTags(RemoteListScreen[Record]):
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

    def tones(self) -> Tones:
        return TONES

    def records(self) -> Sequence[Record]:
        draft = self.draft
        return draft.rows() if draft is not None and not self.unavailable_reason() else ()

    def empty(self) -> str:
        return self._empty_text() if self.draft is not None and not self.unavailable_reason() else super().empty()

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

    def related_key(self, name: str, record: Record) -> str:
        return ""

    def changed(self, change: Change) -> None:
        super().changed(change)
        if isinstance(change, ListChanged) and change.name in (self.LIST_NAME, *self.RELATED):
            self.show()

    def _update_draft(self) -> None:
        """Create the draft from the stored set, restore it from disk, or update its base."""
        if self.unavailable_reason() or not self.rows.records:
            return
        stored = self.rows.records[0]
        saved_at = self.workspace.tag_drafts.follow(self.tenant_id, stored["tags"], stored["version"])
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
        stored = self.rows.records[0] if self.rows.records else {}
        if not draft.dirty:
            return wrapped(self._stored_text(), cells, "$text-muted")
        keys = " · ".join(
            f"{label(f'{self.NAME}.{verb}')} {verb}" for verb in ("save", "discard") if label(f"{self.NAME}.{verb}")
        )
        whole = [f"Not saved:  {draft.words} · {keys}"]
        parts = whole if len(whole[0]) <= cells else [f"Not saved:  {draft.words}", keys]
        lines = [line for part in parts for line in wrapped(part, cells, "$text-warning")]
        if stored.get("version") != draft.version:
            lines += wrapped(
                f"! Version {stored.get('version')} was stored by another user; saving shows its changes",
                cells,
                "$text-error",
            )
        if problem := draft.problem:
            lines += wrapped(f"! {problem.message}", cells, "$text-error")
        return lines

    def _stored_text(self) -> str:
        newest = next(iter(self.related("tag versions", "").records), None)
        if newest is None:
            return "New resources get these tags. Existing resources get them when you apply."
        author = person_text(newest.get("changedBy"))
        return f"Version {newest['version']} of {time_text(newest.get('changedAt'))}" + (
            f" by {author}" if author else ""
        )

    def detail(self, record: Record) -> tuple[str, Sequence[Section]]:
        key, value = str(record["key"]), str(record["value"])
        facts = [
            ("Value", value or "(empty)"),
            ("Key", f"{size(key)} of {KEY_BYTES} bytes"),
            ("Length", f"{size(value)} of {VALUE_BYTES} bytes"),
        ]
        if record.get("mark"):
            facts.append(("Draft", str(record["mark"])))
        if record.get("was") is not None:
            facts.append(("Stored", str(record["was"]) or "(empty)"))
        if record.get("problem"):
            facts.append(("Problem", str(record["problem"])))
        return key, [("", facts), ("Missing the tag", self._lacking(key)), ("Effect", [("", GETS)])]

    def _lacking(self, key: str) -> list[tuple[str, str]]:
        """Return how many resources lack the key, by type, from the last preview."""
        previews = self.workspace.collections.rows("apply preview", self.tenant_id, preview_of(self.draft)).records
        if not previews:
            return [("", f"{self.frame.keys.label('default-tags.preview')} to count affected resources")]
        affected = previews[0].get("affected", {})
        numbers = [(kind, lacking[key]) for kind, lacking in affected.items() if lacking.get(key)]
        return [("", f"{number:,} {kind}") for kind, number in numbers] or [("", "none")]

    # Editing the draft

    async def do_edit(self, key: str = "") -> None:
        row = next((record for record in self.records() if record["key"] == key), self.record)
        if row is not None:
            await self._fill(str(row["key"]), str(row["value"]), str(row["key"]))

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
            lambda typed_key, typed_value: draft.problem_of(typed_key, typed_value, instead_of),
            count=f"{len(draft.tags)}/{MOST} tags",
            button="Change" if instead_of else "Add to draft",
        )
        answer = await self.app.push_screen_wait(form)
        if answer is not None and self.workspace.tag_drafts.of(tenant_id) is draft:
            draft.put(*answer, instead_of)
            self._edited(answer[0])

    def do_remove(self) -> None:
        rows = self.table.selected_records
        draft = self.draft
        if draft is None or not rows:
            return
        keys = [str(row["key"]) for row in rows]
        if all(row["mark"] == "removed" for row in rows):
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

    def _edited(self, key: str) -> None:
        self.workspace.tag_drafts.keep(self.tenant_id)
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
            tags = {str(row["key"]): str(row["value"]) for row in rows}
            texts["row"] = "\n".join(f"{key}={value}" for key, value in tags.items())
            texts["JSON"] = json.dumps(tags, indent=2, ensure_ascii=False)
        return texts


GETS = "New resources get the tag within 30 s. Existing resources change only when you apply."


def preview_of(draft: TagDraft | None) -> str:
    """Return the subject of a preview: an unsaved set as JSON, or "" for the stored set."""
    return json.dumps(draft.tags, sort_keys=True) if draft is not None and draft.dirty else ""

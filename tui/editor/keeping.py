"""The draft on disk while it is edited: written when the hand rests, offered the next time, gone when it is stored."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from client import clock
from client.errors import FrostError
from client.records import Record, time_text
from tui.editor import drafts, request
from tui.widgets.menu import Entry, Menu

if TYPE_CHECKING:
    from tui.editor.screen import PolicyEditor

REST_SECONDS = 1.0
"""How long after the last key a draft is written down."""


class Keeping:
    """Keeps the draft of one editor, for the person who opened it. A read-only session leaves drafts as they are."""

    def __init__(self, editor: "PolicyEditor") -> None:
        self.editor = editor
        self._who = editor.workspace.who
        self.over = False
        """Whether the editor is being closed: the draft on disk then stays as it is."""

    @property
    def keeps(self) -> bool:
        """Whether drafts are kept and offered here."""
        return not self.editor.workspace.read_only

    @property
    def path(self) -> Path:
        """The file of this draft."""
        return self._path(self._who)

    def _path(self, who: str) -> Path:
        editor = self.editor
        workspace = editor.workspace
        return drafts.path_of(workspace.environ, workspace.endpoint, editor.tenant_id, editor.draft.id, who)

    def now(self) -> None:
        """Write what is not stored."""
        if self.keeps and not self.over and self.editor.draft.changed(self.editor.pane.text):
            drafts.keep(self.path, self._kept())

    async def soon(self) -> None:
        """Write the draft when nothing was typed for a while. Each key replaces the worker of this."""
        await asyncio.sleep(REST_SECONDS)
        if not self.editor.draft.changed(self.editor.pane.text):
            self.drop()
        elif self.keeps:
            await asyncio.to_thread(drafts.keep, self.path, self._kept())

    def drop(self) -> None:
        """Delete the draft."""
        if self.keeps:
            drafts.drop(self.path)

    def _load(self) -> drafts.Kept | None:
        """Load the draft. A draft of an earlier release, which all users shared, is loaded for its author only."""
        kept, earlier = drafts.load(self.path), self._path("")
        if kept is None and (kept := drafts.load(earlier)) is not None:
            if kept.who != self._who:
                return None
            drafts.keep(self.path, kept)
            drafts.drop(earlier)
        return kept

    def _kept(self) -> drafts.Kept:
        editor = self.editor
        draft, (row, column) = editor.draft, editor.pane.cursor_location
        return drafts.Kept(
            editor.pane.text,
            draft.name,
            draft.description,
            draft.version,
            clock.now().isoformat(),
            row,
            column,
            dict(editor.form.values),
            draft.creation,
            self._who,
        )

    async def offer(self) -> None:
        """Offer the draft that was kept last. Esc decides nothing: it closes the editor, and the draft stays."""
        editor = self.editor
        kept = await asyncio.to_thread(self._load) if self.keeps else None
        if kept is None or kept.text == editor.pane.text:
            return
        began = f"It began with {f'version {kept.base_version}' if kept.base_version else 'a new policy'}"
        other = "Begin with what is stored" if editor.draft.id else "Start over"
        entries = [
            Entry("take", "Resume the draft", "g", began),
            Entry("drop", other, "", "Deletes the draft"),
        ]
        title, foot = f"An unsaved draft of {time_text(kept.at)}", "Enter or its key chooses · Esc closes the editor"
        chosen = await editor.app.push_screen_wait(Menu(title, entries, foot=foot))
        if chosen == "take":
            await self._take(kept)
        elif chosen == "drop":
            self.drop()
        else:
            editor.close()

    async def _take(self, kept: drafts.Kept) -> None:
        editor = self.editor
        draft = editor.draft
        if kept.base_version not in (0, draft.version):
            await self._stand_on(kept.base_version)
        draft.name, draft.description = kept.name or draft.name, kept.description or draft.description
        draft.creation = kept.creation or draft.creation
        editor.pane.put(kept.text)
        editor.pane.show_line(kept.row, kept.column)
        values = {name: kept.request[name] for name in request.BY_NAME if name in kept.request}
        editor.form.put(values)
        editor.show_facts()

    async def _stand_on(self, number: int) -> None:
        """The version the draft began with: saving then says that there is a newer one, and shows what it changed."""
        editor, draft = self.editor, self.editor.draft
        newest = draft.version
        try:
            found = await editor.workspace.ask(
                lambda client: client.policies.version(editor.tenant_id, draft.id, number)
            )
        except FrostError as error:
            editor.toast(f"Version {number}, which the draft began with, cannot be read: {error.message}", "warning")
            return
        began = found.wire()
        members: Record = {name: began[name] for name in ("name", "description", "document", "version")}
        draft.stand_on({**(draft.policy or {}), **members})
        editor.live.version = draft.version
        editor.toast(f"The draft began with version {number}; the newest is {newest}", "warning")

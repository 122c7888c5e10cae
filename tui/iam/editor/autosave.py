"""The draft on disk: written after a pause in typing, offered on the next opening, deleted after a save."""

import asyncio
from pathlib import Path

from client import times
from client.api import policies
from client.errors import FrostError
from client.tables.columns import Record, time_text
from tui.iam.editor import request
from tui.iam.editor.base import EditorBase
from tui.state import drafts
from tui.widgets.menu import Entry, Menu

REST_SECONDS = 1.0
"""Delay from the last key to the write of the draft."""


class Keeping:
    """Stores the draft of one editor for its user. A read-only session neither reads nor writes drafts."""

    def __init__(self, editor: EditorBase) -> None:
        self.editor = editor
        self._who = editor.workspace.who
        self.over = False
        """Whether the editor is closing; `now` then does not write."""

    @property
    def keeps(self) -> bool:
        """Whether drafts are stored and offered."""
        return not self.editor.workspace.read_only

    @property
    def path(self) -> Path:
        return self._path(self._who)

    def _path(self, who: str) -> Path:
        editor = self.editor
        workspace = editor.workspace
        return drafts.path_of(workspace.environ, workspace.endpoint, editor.tenant_id, editor.draft.id, who)

    def now(self) -> None:
        """Write the draft if it has unsaved changes."""
        if self.keeps and not self.over and self.editor.draft.changed(self.editor.pane.text):
            drafts.keep(self.path, self._kept())

    async def soon(self) -> None:
        """Write the draft after a pause, or delete it if unchanged. Each key restarts this worker."""
        await asyncio.sleep(REST_SECONDS)
        if not self.editor.draft.changed(self.editor.pane.text):
            self.drop()
        elif self.keeps:
            await asyncio.to_thread(drafts.keep, self.path, self._kept())

    def drop(self) -> None:
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
            times.now().isoformat(),
            row,
            column,
            dict(editor.form.values),
            draft.creation,
            self._who,
        )

    async def offer(self) -> None:
        """Offer the draft on disk. Esc closes the editor and does not delete the draft."""
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
        """Base the draft on the version it began with, so that a save reports the newer version and its changes."""
        editor, draft = self.editor, self.editor.draft
        newest = draft.version
        try:
            found = await editor.workspace.ask(policies.version(editor.tenant_id, draft.id, number))
        except FrostError as error:
            editor.toast(f"Version {number}, which the draft began with, cannot be read: {error.message}", "warning")
            return
        began = found.wire()
        members: Record = {name: began[name] for name in ("name", "description", "document", "version")}
        draft.stand_on({**(draft.policy or {}), **members})
        editor.live.version = draft.version
        editor.toast(f"The draft began with version {number}; the newest is {newest}", "warning")

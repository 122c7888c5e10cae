"""The draft on disk while it is edited: written when the hand rests, offered the next time, gone when it is stored."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from client import clock
from client.errors import FrostError
from client.records import Record, time_text
from client.text import safe
from tui.editor import drafts, request
from tui.widgets.menu import Entry, Menu

if TYPE_CHECKING:
    from tui.editor.screen import PolicyEditor

LONGEST_NAME = 60
REST_SECONDS = 1.0
"""How long after the last key a draft is written down."""


class Keeping:
    """Keeps the draft of one editor."""

    def __init__(self, editor: "PolicyEditor") -> None:
        self.editor = editor
        self.over = False
        """Whether the editor is being left: what is on disk then stays as it is."""

    @property
    def path(self) -> Path:
        """The file of this draft."""
        editor = self.editor
        workspace = editor.workspace
        return drafts.path_of(workspace.environ, workspace.endpoint, editor.tenant_id, editor.draft.id)

    def now(self) -> None:
        """Write what is not stored."""
        if not self.over and self.editor.draft.changed(self.editor.pane.text):
            drafts.keep(self.path, self._kept())

    async def soon(self) -> None:
        """Write it when nothing was typed for a while; the worker of this is replaced by each key."""
        await asyncio.sleep(REST_SECONDS)
        if self.editor.draft.changed(self.editor.pane.text):
            await asyncio.to_thread(drafts.keep, self.path, self._kept())
        else:
            self.drop()

    def drop(self) -> None:
        """Forget it."""
        drafts.drop(self.path)

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
            editor.workspace.who,
        )

    async def offer(self) -> None:
        """What was typed the last time and never stored is offered."""
        editor = self.editor
        kept = await asyncio.to_thread(drafts.load, self.path)
        if kept is None or kept.text == editor.pane.text:
            return
        at = time_text(kept.at)
        began = f"It began with {f'version {kept.base_version}' if kept.base_version else 'a new policy'}"
        title = f"An unsaved draft of {at}"
        if self._foreign(kept):
            title, began = f"An unsaved draft kept by {safe(kept.who, LONGEST_NAME)}", f"{began}, kept {at}"
        other = "Begin with what is stored" if editor.draft.id else "Begin anew"
        entries = [
            Entry("take", "Go on with the draft", "g", began),
            Entry("drop", other, "", "The draft is gone then"),
        ]
        if await editor.app.push_screen_wait(Menu(title, entries, foot="Esc goes on with the draft")) == "drop":
            self.drop()
        else:
            await self._take(kept)

    def _foreign(self, kept: drafts.Kept) -> bool:
        """Whether somebody else typed it, as far as that is known."""
        return bool(kept.who) and kept.who != self.editor.workspace.who

    async def _take(self, kept: drafts.Kept) -> None:
        editor = self.editor
        draft = editor.draft
        if kept.base_version not in (0, draft.version):
            await self._stand_on(kept.base_version)
        draft.name, draft.description = kept.name or draft.name, kept.description or draft.description
        if not self._foreign(kept):  # what somebody else may have sent is theirs: sent by another it is made anew
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

"""The palette over the editor: its actions by name, with key or reason."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

from tui.editor import actions
from tui.palette import Entry, Palette

if TYPE_CHECKING:
    from tui.app import FrostApp
    from tui.editor.screen import PolicyEditor


class EditorPalette(Palette):
    """What can be done with the draft."""

    def __init__(self, editor: "PolicyEditor") -> None:
        super().__init__(cast("FrostApp", editor.app).frame)
        self.editor = editor

    def entries(self, typed: str) -> Iterator[Entry]:
        situation = self.editor.situation()
        for action in actions.ACTIONS:
            if action.id != "editor.palette":
                reason = action.reason(situation)
                run = partial(self.editor.perform, action.id)
                key = self.editor.keys.label(action.id)
                yield Entry(action.title, key, reason or action.help, run, not reason)

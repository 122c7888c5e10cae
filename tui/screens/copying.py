"""The copy menu: id, name, row, JSON of what is marked or under the cursor, and the commands that equal its actions."""

import asyncio
from typing import TYPE_CHECKING

from tui import actions, clipboard
from tui.action import inside
from tui.widgets.menu import Entry, Menu

if TYPE_CHECKING:
    from tui.screens.frame import FrameScreen

KEYS = {"id": "i", "name": "n", "row": "r", "JSON": "j"}


async def copy(frame: "FrameScreen") -> None:
    """Ask what to copy and hand it to the terminal."""
    situation = frame.situation()
    texts: dict[str, str] = dict(frame.place.copies()) if frame.place is not None else {}
    meant = frame.place.table.meant if frame.place is not None else ()
    for action in actions.of_scope(situation.place, actions.LIST, actions.ANYWHERE):
        here = action.scope != situation.place or situation.record is not None
        if here and (command := action.lines(situation, meant)):
            texts[f"command: {inside(action.title)}"] = command
    if not texts:
        frame.toast("There is nothing to copy", "warning")
        return
    commands = iter("123456789")
    entries = [Entry(name, name, KEYS.get(name) or next(commands, ""), text) for name, text in texts.items()]
    chosen = await frame.app.push_screen_wait(Menu("Copy", entries))
    if chosen is None:
        return
    text = texts[chosen]
    if not clipboard.fits(text):
        frame.toast(f"Too much for a terminal's clipboard: {len(text):,} characters", "warning")
        return
    clipboard.to_terminal(frame.app, text)
    in_tmux = await asyncio.to_thread(clipboard.to_tmux, text, frame.workspace.environ)
    frame.toast(f"Copied {chosen}" + (" (also into tmux)" if in_tmux else ""))

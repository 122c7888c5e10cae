"""Copy to the clipboard of the terminal, also over SSH and in tmux, and the copy menu."""

import asyncio
import base64
import subprocess
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from textual.app import App

from tui.shell import actions
from tui.shell.action import inside
from tui.widgets.picker import Entry, Menu

if TYPE_CHECKING:
    from tui.shell.navigator import Navigator

LIMIT = 74_994
"""Maximum of encoded bytes that terminals accept in one OSC 52 sequence."""


def fits(text: str) -> bool:
    """Return whether a terminal accepts a text of this length."""
    return len(base64.b64encode(text.encode())) <= LIMIT


def to_terminal(app: App[Any], text: str) -> None:
    """Send the text to the terminal, base64-encoded, so that it cannot contain escape sequences."""
    app.copy_to_clipboard(text)


def to_tmux(text: str, environ: Mapping[str, str]) -> bool:
    """Copy to the buffer and clipboard of tmux, which ignores OSC 52 of programs by default. Blocks."""
    if not environ.get("TMUX"):
        return False
    try:
        done = subprocess.run(
            ["tmux", "load-buffer", "-w", "-"],  # noqa: S607  (the tmux on PATH)
            input=text.encode(),
            capture_output=True,
            timeout=2,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


KEYS = {"ID": "i", "name": "n", "row": "r", "JSON": "j"}


async def copy(frame: "Navigator") -> None:
    """Open the copy menu and copy the chosen text."""
    context = frame.action_context()
    texts: dict[str, str] = dict(frame.current.copies()) if frame.current is not None else {}
    selection = frame.current.table.selected_records if frame.current is not None else ()
    for action in actions.of_scope(context.screen, actions.LIST, actions.ANYWHERE):
        here = action.scope != context.screen or context.record is not None
        if here and (command := action.commands(context, selection)):
            texts[f"command: {inside(action.title)}"] = command
    if not texts:
        frame.toast("Nothing to copy", "warning")
        return
    commands = iter("123456789")
    entries = [Entry(name, name, KEYS.get(name) or next(commands, ""), text) for name, text in texts.items()]
    chosen = await frame.app.push_screen_wait(Menu("Copy", entries))
    if chosen is None:
        return
    text = texts[chosen]
    if not fits(text):
        frame.toast(f"Too large for the terminal clipboard: {len(text):,} characters", "warning")
        return
    to_terminal(frame.app, text)
    in_tmux = await asyncio.to_thread(to_tmux, text, frame.workspace.environ)
    frame.toast(f"Copied {chosen}" + (" (also into tmux)" if in_tmux else ""))

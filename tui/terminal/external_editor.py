"""Edit the text in the user's external editor, through a private file."""

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from textual.app import App, SuspendNotSupported

from client.text import cut, safe
from tui.terminal.shutdown import ShutdownWatcher

FALLBACKS = ("nano", "vi")
TAKES_LINE = frozenset({"vi", "vim", "nvim", "view", "nano", "emacs", "emacsclient", "micro", "kak", "joe", "ed"})
"""Editors that accept the initial line as `+12`."""


class Outcome(NamedTuple):
    """The edited text, None if unchanged or unavailable, and a message for the user in short lines."""

    text: str | None
    message: str = ""


def command(environ: Mapping[str, str]) -> list[str]:
    """Return the editor command from VISUAL, EDITOR or `FALLBACKS`; empty if there is none."""
    for name in ("VISUAL", "EDITOR"):
        try:
            arguments = shlex.split(environ.get(name, ""))
        except ValueError:
            arguments = []
        if arguments:
            return arguments
    return next(([name] for name in FALLBACKS if shutil.which(name, path=environ.get("PATH"))), [])


def edit(app: App[None], environ: Mapping[str, str], text: str, line: int) -> Outcome:
    """Suspend the application and run the editor at a line, from 1. Blocks the event loop until the editor exits.

    A file that cannot be read is kept, and the message has its path.
    """
    arguments = command(environ)
    if not arguments:
        return Outcome(None, "No editor: set EDITOR")
    # Messages contain the name only: a long path would hide the rest of the line.
    name = Path(arguments[0]).name
    label = cut(safe(name), 30)
    folder = Path(tempfile.mkdtemp(prefix="frost-"))  # 0700
    file = folder / "policy.json"
    is_kept = False
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
            stream.write(text)
        at = [f"+{line}"] if name in TAKES_LINE else []
        try:
            with app.suspend():
                code = _run([*arguments, *at, str(file)], getattr(app, "shutdown", None))
        except SuspendNotSupported:
            return Outcome(None, "This terminal cannot run another program")
        except OSError as error:
            return Outcome(None, f"{label} cannot be started: {error.strerror}\nSet EDITOR to another editor")
        try:
            back = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "not UTF-8"
            is_kept = file.exists()
            rest = f"Your edit is in {safe(file)}" if is_kept else "The text has not changed"
            return Outcome(None, f"The file from {label} cannot be read: {why}\n{rest}")
        if back == text:
            return Outcome(None, f"{label} exited with {code}: the text has not changed" if code else "")
        note = f"{label} exited with {code}; its changes are here\nUndo removes them" if code else ""
        return Outcome(back, note)
    except UnicodeEncodeError:
        return Outcome(None, "The text contains a lone surrogate, which cannot be saved to a file: remove it first")
    finally:
        if not is_kept:
            shutil.rmtree(folder, ignore_errors=True)


def _run(arguments: list[str], shutdown: ShutdownWatcher | None) -> int:
    """Run the editor in the foreground and return its exit code.

    Ctrl+C and Ctrl+\\ are for the editor: this process ignores them through a handler, which a child does not inherit.
    This process is blocked until the editor exits, so a shutdown ends the editor first.
    """
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        editor = subprocess.Popen(arguments)  # noqa: S603  (the user's choice of editor)
        if shutdown is not None:
            shutdown.editor = editor
        return editor.wait()
    finally:
        if shutdown is not None:
            shutdown.editor = None
        for number, handler in before.items():
            signal.signal(number, handler)

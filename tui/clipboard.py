"""Copying to the clipboard of the person, also over ssh and inside tmux."""

import base64
import subprocess
from collections.abc import Mapping
from typing import Any

from textual.app import App

LIMIT = 74_994
"""Encoded bytes that terminals take in one OSC 52 sequence."""


def fits(text: str) -> bool:
    """Whether a terminal takes this much."""
    return len(base64.b64encode(text.encode())) <= LIMIT


def to_terminal(app: App[Any], text: str) -> None:
    """Hand the text to the terminal; it travels base64-encoded, so its content cannot act on anything."""
    app.copy_to_clipboard(text)


def to_tmux(text: str, environ: Mapping[str, str]) -> bool:
    """Inside tmux, whose default ignores OSC 52 of programs, put the text into its buffer and clipboard. Blocks."""
    if not environ.get("TMUX"):
        return False
    try:
        done = subprocess.run(
            ["tmux", "load-buffer", "-w", "-"],  # noqa: S607  (the tmux one sits in is the one of the PATH)
            input=text.encode(),
            capture_output=True,
            timeout=2,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0

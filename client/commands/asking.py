"""Questions to the person at the terminal. Off a terminal nobody is asked, and nothing is done unasked."""

import sys

from client.commands.output import Output
from client.errors import FrostError, usage
from client.text import safe


def confirm(output: Output, question: str, *, refused: str, hint: str, typed: str = "") -> None:
    """Ask yes or no, where no is the answer to anything but yes.

    Args:
        output: Where the question is written.
        question: Names the object and the effect.
        refused: What could not be done, when there is nobody to ask.
        hint: What to do then.
        typed: What has to be typed instead of yes, where the effect is wide (design: Screens).

    Raises:
        FrostError: No terminal (exit 2), or the answer was no (exit 1).
    """
    needs_terminal(refused, hint)
    _forget_typed_ahead()
    output.prompt(f"{question} Type {safe(typed, 130)} to confirm: " if typed else f"{question} [y/N] ")
    answer = sys.stdin.readline().strip()
    if answer != typed.strip() if typed else answer.casefold() not in ("y", "yes"):
        raise FrostError("not confirmed; nothing was changed", code="NOT_CONFIRMED")


def confirm_on_terminal(output: Output, question: str) -> None:
    """Ask yes or no if there is a terminal; without one go on, for commands that scripts run without a flag.

    Raises:
        FrostError: The answer was no (exit 1).
    """
    if sys.stdin.isatty():
        confirm(output, question, refused="", hint="")


def needs_terminal(refused: str, hint: str) -> None:
    """Refuse what has to be asked about where there is nobody to ask (exit 2)."""
    if not sys.stdin.isatty():
        raise usage(f"{refused}, and there is no terminal to ask on", hint)


def _forget_typed_ahead() -> None:
    """Drop what was typed before the question could be read: it was no answer to it (hostile F12)."""
    import termios

    termios.tcflush(sys.stdin, termios.TCIFLUSH)


def secret(prompt: str) -> str:
    """A line typed at the terminal without echo, without spaces around it."""
    from getpass import getpass

    return getpass(prompt).strip()

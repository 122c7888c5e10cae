"""Messages from screens and dialogs to the main screen."""

from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass

from textual.message import Message

from tui.shell.history import Subject


@dataclass(eq=False)
class RunAction(Message):
    """Request an action. `argument` names a record, in case the cursor has moved."""

    action: str
    argument: str = ""


@dataclass(eq=False)
class Navigate(Message):
    """Request a screen. A child screen shows the contents of `subject`; the cursor moves to `record`."""

    screen: str
    subject: Subject | None = None
    filter: str | None = None
    _: KW_ONLY
    record: str = ""


@dataclass(eq=False)
class UndoAvailable(Message):
    """A reversible change was made. `undone` describes its undo."""

    description: str
    undo: Callable[[], Awaitable[None]]
    undone: str


@dataclass(eq=False)
class UndoCleared(Message):
    """An irreversible change was made. Earlier changes can no longer be undone."""

    description: str


class SignInRequired(Message):
    """The session has ended, and the user wants to sign in."""

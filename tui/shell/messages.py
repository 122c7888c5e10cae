"""Messages from screens and dialogs to the main screen."""

from collections.abc import Awaitable, Callable

from textual.message import Message

from tui.shell.history import Subject


class RunAction(Message):
    """Request an action. `argument` names a record, in case the cursor has moved."""

    def __init__(self, action: str, argument: str = "") -> None:
        super().__init__()
        self.action = action
        self.argument = argument


class Navigate(Message):
    """Request a screen. An inner screen shows the contents of `subject`; the cursor moves to `record`."""

    def __init__(
        self,
        screen: str,
        subject: Subject | None = None,
        filter_line: str | None = None,
        *,
        record: str = "",
    ) -> None:
        super().__init__()
        self.screen = screen
        self.subject = subject
        self.filter = filter_line
        self.record = record


class UndoAvailable(Message):
    """A reversible change was made. `words` describe it, `back` describes its undo."""

    def __init__(self, words: str, undo: Callable[[], Awaitable[None]], back: str) -> None:
        super().__init__()
        self.words = words
        self.undo = undo
        self.back = back


class UndoCleared(Message):
    """An irreversible change was made, described by `words`. Earlier changes can no longer be undone."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self.words = words


class SignInRequired(Message):
    """The session has ended, and the user wants to sign in."""

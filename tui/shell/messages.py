"""Messages from screens and dialogs to the main screen."""

from collections.abc import Awaitable, Callable

from textual.message import Message

from tui.shell.history import Subject


class Perform(Message):
    """Request an action. `argument` names a record, in case the cursor has moved."""

    def __init__(self, action: str, argument: str = "") -> None:
        super().__init__()
        self.action = action
        self.argument = argument


class Travel(Message):
    """Request a screen. An inner screen shows the contents of `subject`; the cursor moves to `record`."""

    def __init__(
        self,
        place: str,
        subject: Subject | None = None,
        filter_line: str | None = None,
        *,
        record: str = "",
    ) -> None:
        super().__init__()
        self.place = place
        self.subject = subject
        self.filter = filter_line
        self.record = record


class Undoable(Message):
    """A reversible change was made. `words` describe it, `back` describes its undo."""

    def __init__(self, words: str, undo: Callable[[], Awaitable[None]], back: str) -> None:
        super().__init__()
        self.words = words
        self.undo = undo
        self.back = back


class Lasting(Message):
    """An irreversible change was made, described by `words`. Earlier changes can no longer be undone."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self.words = words


class SignInWanted(Message):
    """The session has ended, and the user wants to sign in."""

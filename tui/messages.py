"""Messages between places, dialogs and the frame."""

from collections.abc import Awaitable, Callable

from textual.message import Message

from tui.history import Subject


class Perform(Message):
    """Asks the frame for an action, on a record named by `argument` where the cursor may have moved on since."""

    def __init__(self, action: str, argument: str = "") -> None:
        super().__init__()
        self.action = action
        self.argument = argument


class Travel(Message):
    """Asks the frame for a place: an inner one shows the inside of `subject`; the cursor goes to `record`."""

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
    """Something was done that can be taken back; `words` say what, `back` what taking it back does."""

    def __init__(self, words: str, undo: Callable[[], Awaitable[None]], back: str) -> None:
        super().__init__()
        self.words = words
        self.undo = undo
        self.back = back


class Lasting(Message):
    """Something was done that stays; `words` name it. What was done before can no longer be taken back by itself."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self.words = words


class SignInWanted(Message):
    """The session is over and somebody wants to go on."""

"""Messages between places, dialogs and the frame."""

from collections.abc import Awaitable, Callable

from textual.message import Message


class Perform(Message):
    """Asks the frame for an action, on a record named by `argument` where the cursor may have moved on since."""

    def __init__(self, action: str, argument: str = "") -> None:
        super().__init__()
        self.action = action
        self.argument = argument


class Undoable(Message):
    """Something was done that can be taken back; `words` say what."""

    def __init__(self, words: str, undo: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self.words = words
        self.undo = undo


class SignInWanted(Message):
    """The session is over and somebody wants to go on."""

"""A form that stays until what it sent is answered; waiting is said, and who is tired of it may leave."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from textual import on
from textual.widgets import Button
from textual.worker import Worker

from client.errors import FrostError
from tui.widgets.dialog import Dialog

SOON = 0.4
"""Seconds after which an answer counts as being waited for; most come before, and nothing flickers."""


class Waiting(NamedTuple):
    """What is said while the platform has not answered: that, on the first Esc, and when it was left on the second."""

    said: str
    warned: str
    left: str


class Sending(Dialog[Any]):
    """Gives what `send` answered, or None when it was left. A refusal stands in it, and nothing typed is lost.

    An answer brings what is seen only once, so that Esc alone does not leave before it; a platform that never
    answers holds nobody: Esc once more does.
    """

    def __init__(self, send: Callable[[Any], Awaitable[Any]], waiting: Waiting) -> None:
        super().__init__()
        self._send, self._waiting = send, waiting
        self._worker: Worker[None] | None = None
        self._warned = False

    def say(self, words: str) -> None:
        """Put words that are no problem where problems stand."""
        raise NotImplementedError

    def show_refusal(self, error: FrostError) -> None:
        """Say why it was refused."""
        raise NotImplementedError

    @property
    def sending(self) -> bool:
        """Whether an answer is on its way."""
        return self._worker is not None

    def deliver(self, draft: object) -> None:
        """Send what was filled in, once at a time."""
        if self._worker is None:
            self._warned = False
            self.say("")
            self._worker = self.app.run_worker(self._deliver(draft), group="send key", exit_on_error=False)
            self.set_timer(SOON, self._say_waiting)

    async def _deliver(self, draft: object) -> None:
        try:
            answer = await self._send(draft)
        except FrostError as error:
            self._worker = None
            self.show_refusal(error)
        else:
            self.dismiss(answer)
        finally:
            self._worker = None

    def _say_waiting(self) -> None:
        if self.sending and not self._warned:
            self.say(self._waiting.said)

    def leave(self) -> None:
        """Close it; what was sent is waited for until that is asked for twice."""
        if self._worker is None:
            self.dismiss(None)
        elif not self._warned:
            self._warned = True
            self.say(self._waiting.warned)
        else:
            self._worker.cancel()
            self.app.notify(self._waiting.left, severity="warning", markup=False)
            self.dismiss(None)

    def action_cancel(self) -> None:
        self.leave()

    @on(Button.Pressed, "#cancel")
    def _cancelled(self, event: Button.Pressed) -> None:
        event.stop()
        self.leave()

"""Keys reach the screen one after another: the next one when the one before has done what it does.

Textual hands a key to whatever has the keyboard at that moment, while the action of the key before is still on its
way up to the application. Keys that come in one burst (a slow line, a program that types) would so overtake each
other: the letters after `/` would act as keys of the table, and ctrl+u would clear what was typed after it.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from textual.events import Key, Paste
from textual.message_pump import MessagePump

if TYPE_CHECKING:
    from textual.app import App

PATIENCE = 0.25
"""Seconds that a key is waited for: one whose action waits for something else does not stop the keyboard."""

ROUNDS = 3
"""How often it is listened up to the application: a key, what the widget says then, what that leads to."""


class TypeAhead:
    """What was typed and not yet handed on."""

    def __init__(self, app: "App[None]") -> None:
        self._app = app
        self._waiting: deque[Key | Paste] = deque()
        self._next: Key | Paste | None = None
        self._busy = False
        self._task: asyncio.Task[None] | None = None

    def holds(self, event: Key | Paste) -> bool:
        """Whether an event that is about to be handed on has to wait; it comes again when it is its turn."""
        if self._busy and event is not self._next:
            self._waiting.append(event)
            return True
        self._busy, self._next = True, None
        self._task = asyncio.get_running_loop().create_task(self._hand_on())
        return False

    async def _hand_on(self) -> None:
        """Wait until the key that was let through is done with, then let the next one through."""
        try:
            async with asyncio.timeout(PATIENCE):
                for _ in range(ROUNDS):
                    await self._heard()
                    if not self._waiting:
                        break
        except TimeoutError:
            pass
        finally:
            if self._waiting:
                self._next = self._waiting.popleft()
                self._app.post_message(self._next)
            else:
                self._busy = False

    async def _heard(self) -> None:
        """What was said went up from the widget to the application, and a screen opened by it has its keyboard."""
        app, screen = self._app, self._app.screen
        for node in (app.focused or screen).ancestors_with_self:
            await _caught_up(node)
        if app.screen is not screen:
            await _caught_up(app.screen)


async def _caught_up(node: MessagePump) -> None:
    """Everything that was said to a node before has been heard."""
    heard = asyncio.Event()
    if node.call_later(heard.set):
        await heard.wait()

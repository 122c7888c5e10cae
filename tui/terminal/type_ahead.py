"""Serialize keys: each is dispatched after the action of the previous one.

Textual sends a key to the focused widget while the action of the previous key may still bubble up to the application.
In a burst (a slow connection, a script), keys would overtake each other: the letters after `/` would run actions of the
table, and ctrl+u would clear text typed after it.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from textual.events import Key, Paste
from textual.message_pump import MessagePump

if TYPE_CHECKING:
    from textual.app import App

PATIENCE = 0.25
"""Maximum of seconds to wait for a key: a slow action must not block the keyboard."""

ROUNDS = 3
"""Passes up to the application: the key, the messages of the widget, and their consequences."""


class TypeAhead:
    """The queue of keys to dispatch."""

    def __init__(self, app: "App[None]") -> None:
        self._app = app
        self._waiting: deque[Key | Paste] = deque()
        self._next: Key | Paste | None = None
        self._busy = False
        self._task: asyncio.Task[None] | None = None

    def holds(self, event: Key | Paste) -> bool:
        """Return whether an event must wait. It is posted again in its turn."""
        if self._busy and event is not self._next:
            self._waiting.append(event)
            return True
        self._busy, self._next = True, None
        self._task = asyncio.get_running_loop().create_task(self._hand_on())
        return False

    async def _hand_on(self) -> None:
        """Wait until the dispatched key is handled, then post the next one."""
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
        """Wait until the messages have bubbled up to the application, and a new screen has its focus."""
        app, screen = self._app, self._app.screen
        for node in (app.focused or screen).ancestors_with_self:
            await _caught_up(node)
        if app.screen is not screen:
            await _caught_up(app.screen)


async def _caught_up(node: MessagePump) -> None:
    """Wait until a node has handled the messages in its queue."""
    heard = asyncio.Event()
    if node.call_later(heard.set):
        await heard.wait()

"""Serialize keys: each is dispatched after the action of the previous one, and after the dialog that it opens.

Textual sends a key to the focused widget while the action of the previous key may still bubble up to the application.
In a burst (a slow connection, a script), keys would overtake each other: the letters after `/` would run actions of the
table, and ctrl+u would clear text typed after it.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from textual.events import Key, Paste
from textual.message_pump import MessagePump

if TYPE_CHECKING:
    from textual.app import App
    from textual.screen import Screen
    from textual.widget import Widget

PATIENCE_SECONDS = 0.3
"""How long keys wait at most: a slow action must not block the keyboard."""

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
        self._opening: tuple[Screen[Any], asyncio.Event] | None = None

    def holds(self, event: Key | Paste) -> bool:
        """Return whether an event must wait. It is posted again in its turn."""
        if self._busy and event is not self._next:
            self._waiting.append(event)
            return True
        self._next = None
        self._start()
        return False

    def hold_for_dialog(self, ended: asyncio.Event) -> None:
        """Hold keys until a dialog has the focus: they are meant for it. `ended` is set if the action ends before."""
        self._opening = self._app.screen, ended
        if not self._busy:
            self._start()

    def _start(self) -> None:
        self._busy = True
        self._task = asyncio.get_running_loop().create_task(self._release())

    async def _release(self) -> None:
        """Wait until the dispatched key is handled and its dialog is open, then post the next one."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                for _ in range(ROUNDS):
                    await self._handled()
                    if not self._waiting:
                        break
                if self._opening is not None:
                    await self._opened(*self._opening)
        except TimeoutError:
            pass
        finally:
            self._opening = None
            if self._waiting:
                self._next = self._waiting.popleft()
                self._app.post_message(self._next)
            else:
                self._busy = False

    async def _handled(self) -> None:
        """Wait until the messages have bubbled up to the application, and a new screen has its focus."""
        app, screen = self._app, self._app.screen
        for node in (app.focused or screen).ancestors_with_self:
            await _caught_up(node)
        if app.screen is not screen:
            await _caught_up(app.screen)

    async def _opened(self, behind: "Screen[Any]", ended: asyncio.Event) -> None:
        """Wait until a screen other than `behind` has a focused widget, or until the action has ended."""
        app = self._app

        def focused(widget: "Widget | None") -> None:
            if widget is not None:
                ended.set()

        def changed(screen: "Screen[Any]") -> None:
            if screen is not behind:
                app.watch(screen, "focused", focused)

        app.screen_change_signal.subscribe(app, changed, immediate=True)
        try:
            changed(app.screen)
            await ended.wait()
        finally:
            app.screen_change_signal.unsubscribe(app)


async def _caught_up(node: MessagePump) -> None:
    """Wait until a node has handled the messages in its queue."""
    handled = asyncio.Event()
    if node.call_later(handled.set):
        await handled.wait()

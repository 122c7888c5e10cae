"""A small language for tests of the screens: open, press, expect. The platform behind them is the real one."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.pilot import Pilot

from client.connection import resolve
from tests.homes import Home
from tui.launch import Launch
from tui.shell.app import FrostApp
from tui.state import preferences
from tui.widgets.record_table import RecordTable

PATIENCE = 60.0


async def listened(pilot: Pilot[Any]) -> None:
    """Wait until the dialog on top listens to keys."""
    deadline = time.monotonic() + PATIENCE
    while not getattr(pilot.app.screen, "listening", False):
        assert time.monotonic() < deadline, "a dialog that listens never came"
        await pilot.pause(0.02)
    await pilot.pause()


class Ui:
    """What a person sees and does."""

    def __init__(self, app: FrostApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot
        self._told: list[str] = [notification.message for notification in app._notifications]
        self._told_before_keys = 0
        self._listen_to_toasts()

    def _listen_to_toasts(self) -> None:
        """On a machine that is busy with others a message may go before anybody here has looked."""
        tell = self.app.notify

        def told(message: str, **more: Any) -> None:
            self._told.append(message)
            tell(message, **more)

        self.app.notify = told  # type: ignore[method-assign,assignment]

    @property
    def text(self) -> str:
        """The screen as text."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)

    @property
    def head(self) -> str:
        """The two lines of the header."""
        return "\n".join(self.text.splitlines()[:2])

    @property
    def under_cursor(self) -> str:
        """Name of the record under the cursor of the place."""
        screen = self.app.frame.current
        assert screen is not None
        return str((screen.record or {}).get(screen.KIND.name_key, ""))

    @property
    def toasts(self) -> list[str]:
        """Everything that was told so far and is still known."""
        return [notification.message for notification in self.app._notifications]

    async def press(self, *keys: str) -> "Ui":
        self._told_before_keys = len(self._told)
        await self.pilot.press(*keys)
        await self.pilot.pause()
        return self

    async def type(self, words: str) -> "Ui":
        names = {" ": "space", "-": "minus", ":": "colon", "[": "left_square_bracket", "]": "right_square_bracket"}
        return await self.press(*(names.get(letter, letter) for letter in words))

    async def until(self, holds: Callable[[], bool], what: str) -> "Ui":
        deadline = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < deadline, f"{what} never came; toasts {self.toasts}; the screen was:\n{self.text}"
            await asyncio.sleep(0.02)
        return self

    async def expect(self, *words: str) -> "Ui":
        for word in words:
            await self.until(lambda word=word: word in self.text, repr(word))  # type: ignore[misc]
        return self

    async def expect_head(self, words: str) -> "Ui":
        return await self.until(lambda: words in self.head, f"{words!r} in the header")

    async def expect_toast(self, words: str) -> "Ui":
        """A message told since the last keys were pressed: what an earlier deed told alike is no answer to them."""
        since = self._told_before_keys
        await self.until(lambda: any(words in toast for toast in self._told[since:]), f"toast {words!r}")
        await self.pilot.pause()  # what was done along with telling it has come to the screen, too
        return self

    async def gone(self, words: str) -> "Ui":
        return await self.until(lambda: words not in self.text, f"a screen without {words!r}")

    async def expect_cursor(self, name: str) -> "Ui":
        return await self.until(lambda: self.under_cursor == name, f"the cursor on {name!r}")

    async def cursor_on(self, name: str) -> "Ui":
        """Move the cursor to a record by keys."""
        await self.press("g")
        for _ in range(self.app.frame.current.table.view.total):  # type: ignore[union-attr]
            if self.under_cursor == name:
                return self
            await self.press("j")
        raise AssertionError(f"{name} is not in the list:\n{self.text}")

    async def policy(self, name: str) -> "Ui":
        """Go to the policies, the cursor on one."""
        await self.press("2")
        await self.expect(name)
        return await self.cursor_on(name)

    async def switch(self, tenant: str) -> "Ui":
        """Work in another tenant, called by its whole name."""
        await self.press("ctrl+t")
        await self.expect("Switch tenant")
        await self.type(tenant)
        await self.press("enter")
        return await self.expect_head(tenant.title())

    async def heard(self) -> "Ui":
        """Look at what is asked on top of the place as long as a person does at least, and until it listens to keys."""
        await self.pilot.pause(0.3)
        await listened(self.pilot)
        return self

    async def agree(self) -> "Ui":
        """Answer the question that is open with yes, once it listens."""
        await self.heard()
        return await self.press("y")

    def row(self, name: str) -> str:
        """The line of the list that shows a name."""
        return next(line for line in self.text.splitlines() if name in line)


@asynccontextmanager
async def opened(
    home: Home,
    monkeypatch: pytest.MonkeyPatch,
    *,
    size: tuple[int, int] = (120, 36),
    launch: Launch | None = None,
) -> AsyncIterator[Ui]:
    """The application in this process, on the platform of a home, remembering nothing of an earlier test."""
    for name, value in home.environment().items():
        monkeypatch.setenv(name, value)
    for name in ("FROST_TENANT", "FROST_CONTEXT", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    memory = preferences.path_of(os.environ)
    memory.unlink(missing_ok=True)
    connection = await asyncio.to_thread(resolve, None, os.environ)
    app = FrostApp(connection, launch or Launch(), memory)
    async with app.run_test(size=size, notifications=True) as pilot:
        ui = Ui(app, pilot)
        await ui.until(lambda: app.focused is not None, "the first frame")
        yield ui


def shown(ui: Ui) -> list[str]:
    """The names of the list, in its order."""
    view = ui.app.screen.query_one(RecordTable).view
    return [str(view[index]["displayName"]) for index in range(len(view))]


async def use_key(home: Home, name: str) -> None:
    """Let a home's context work with one of the world's keys."""
    home.start()
    secret = home.world_key(name)
    result = await asyncio.to_thread(home.frost, "config", "set", "api_key", "-", stdin=f"{secret}\n")
    assert result.code == 0, result

"""A small language for tests of the screens: open, press, expect. The platform behind them is the real one."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import Screen

from client.connection import resolve
from client.tables.columns import json_of
from tests.homes import Home
from tui.launch import Launch
from tui.shell.app import FrostApp
from tui.shell.list_screen import ListScreen
from tui.state import preferences
from tui.state.context_state import Limits
from tui.state.debug_log import DebugLog
from tui.widgets.dialog import Confirm

PATIENCE = 60.0
KEY_NAMES = {
    **{" ": "space", "-": "minus", ":": "colon", "@": "at", ".": "full_stop"},
    **{"[": "left_square_bracket", "]": "right_square_bracket"},
}
Words = str | Sequence[str]
SMALL = pytest.mark.parametrize("size", [(80, 24)])
SIGNALS_ONLY = Limits(reread_seconds=3600.0)
"""Nothing but a signal causes another read."""
READ_ONLY = pytest.mark.parametrize("launch", [Launch(read_only=True)])


def signed_in(email: str) -> pytest.MarkDecorator:
    """Open the screens for a user of the demo data."""
    return pytest.mark.parametrize("user", [email])


def with_key(name: str) -> pytest.MarkDecorator:
    """Open the screens in a context with an API key of the demo data."""
    return pytest.mark.parametrize("api_key", [name])


async def listened(pilot: Pilot[Any]) -> None:
    """Wait until the dialog on top listens to keys."""
    deadline = time.monotonic() + PATIENCE
    while not getattr(pilot.app.screen, "listening", False):
        assert time.monotonic() < deadline, "a dialog that listens never came"
        await pilot.pause(0.02)
    await pilot.pause()


class Ui:
    """The screens, as a person sees and uses them."""

    def __init__(self, app: FrostApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot
        self._messages: list[str] = [notification.message for notification in app._notifications]
        self._count_before_keys = 0
        notify = app.notify

        def record(message: str, **more: Any) -> None:
            """Record each message, as it may end before a busy machine has read it."""
            self._messages.append(message)
            notify(message, **more)

        app.notify = record

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
        """The name of the selected record."""
        record = self.screen.record
        return str(json_of(record).get(self.screen.KIND.name_key, "")) if record is not None else ""

    @property
    def screen(self) -> ListScreen:
        """The screen in front of the person, below any dialog."""
        screen = self.app.frame.current
        assert screen is not None
        return screen

    @property
    def focus(self) -> str | None:
        """The id of the widget that has the focus."""
        return self.app.focused.id if self.app.focused is not None else None

    @property
    def toasts(self) -> list[str]:
        """The messages that have not ended."""
        return [notification.message for notification in self.app._notifications]

    async def press(self, *keys: str, on: str = "", **outcome: Any) -> "Ui":
        """Press keys, on a record if it is named, and wait for their outcome as `see` does."""
        if on:
            await self.cursor_on(on)
        self._count_before_keys = len(self._messages)
        await self.pilot.press(*keys)
        await self.pilot.pause()
        return await self.see(**outcome)

    async def see(
        self,
        *,
        shows: Words = (),
        head: Words = (),
        toast: Words = (),
        cursor: Words = (),
        gone: Words = (),
        top: Screen[Any] | None = None,
    ) -> "Ui":
        """Wait for texts on the screen, in its header and in messages, a selected record, and a screen on top."""
        expectations = (
            (self.expect, shows),
            (self.expect_head, head),
            (self.expect_toast, toast),
            (self.expect_cursor, cursor),
            (self.gone, gone),
        )
        for expect, words in expectations:
            await expect(*((words,) if isinstance(words, str) else words))
        if top is not None:
            await self.until(lambda: self.app.screen is top, f"{top} on top")
        return self

    async def type(self, words: str, **outcome: Any) -> "Ui":
        return await self.press(*(KEY_NAMES.get(letter, letter) for letter in words), **outcome)

    async def enter(self, words: str, **outcome: Any) -> "Ui":
        """Type a text and press Enter."""
        await self.type(words)
        return await self.press("enter", **outcome)

    async def replace(self, words: str, **outcome: Any) -> "Ui":
        """Type words in place of the text of the field, and press Enter."""
        await self.press("ctrl+a", "ctrl+k")
        return await self.enter(words, **outcome)

    async def command(self, line: str, **outcome: Any) -> "Ui":
        """Enter a line after `:`."""
        await self.press("colon")
        return await self.enter(line, **outcome)

    async def filter(self, line: str, **outcome: Any) -> "Ui":
        """Enter a filter after `/`."""
        await self.press("slash")
        return await self.enter(line, **outcome)

    async def until(self, holds: Callable[[], bool], what: str) -> "Ui":
        deadline = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < deadline, f"{what} never came; toasts {self.toasts}; the screen was:\n{self.text}"
            await asyncio.sleep(0.04)
        return self

    async def expect(self, *words: str) -> "Ui":
        text = self.text if words else ""
        for word in words:
            if word not in text:
                await self.until(lambda word=word: word in self.text, repr(word))
        return self

    async def expect_head(self, *words: str) -> "Ui":
        for word in words:
            await self.until(lambda word=word: word in self.head, f"{word!r} in the header")
        return self

    async def expect_toast(self, *words: str) -> "Ui":
        """Wait for messages since the last keys: an equal message of an earlier action is no answer to them."""
        since = self._count_before_keys
        for word in words:
            await self.until(lambda word=word: any(word in one for one in self._messages[since:]), f"toast {word!r}")
            await self.pilot.pause()  # the screen shows the changes that came with the message
        return self

    async def gone(self, *words: str) -> "Ui":
        for word in words:
            await self.until(lambda word=word: word not in self.text, f"a screen without {word!r}")
        return self

    async def expect_cursor(self, *names: str) -> "Ui":
        for name in names:
            await self.until(lambda name=name: self.under_cursor == name, f"the cursor on {name!r}")
        return self

    async def cursor_on(self, name: str) -> "Ui":
        """Select a record by its name."""

        def ids() -> list[str]:
            screen, view = self.screen, self.screen.table.view
            rows = range(len(view))
            return [view.id_at(row) for row in rows if json_of(view[row]).get(screen.KIND.name_key) == name]

        await self.until(lambda: bool(ids()), f"{name} in the list")
        self.screen.select(ids()[0])
        await self.pilot.pause()
        return await self.expect_cursor(name)

    async def policy(self, name: str) -> "Ui":
        """Go to the policies, the cursor on one."""
        await self.press("2")
        await self.expect(name)
        return await self.cursor_on(name)

    async def switch(self, tenant: str) -> "Ui":
        """Use another tenant by its whole name."""
        await self.press("ctrl+t")
        await self.expect("Switch tenant")
        await self.type(tenant)
        await self.press("enter")
        return await self.expect_head(tenant.title())

    async def heard(self) -> "Ui":
        """Wait as long as a person looks at a question, and until it listens to keys."""
        await self.pilot.pause(0.3)
        await listened(self.pilot)
        return self

    async def answer(self, key: str, *, to: str = "", **outcome: Any) -> "Ui":
        """Answer the open question once it listens; `to` is its text, which must come before and go after."""
        if to:
            await self.expect(to)
        await self.heard()
        await self.press(key, **outcome)
        return await self.gone(*([to] if to else ()))

    async def agree(self, **outcome: Any) -> "Ui":
        """Answer the open question with yes."""
        return await self.answer("y", **outcome)

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
    limits: Limits | None = None,
    debug_log: DebugLog | None = None,
    remembers: bool = False,
) -> AsyncIterator[Ui]:
    """The application in this process, on the platform of a home.

    The preferences of an earlier run are removed, unless it `remembers`.
    """
    for name, value in home.environment().items():
        monkeypatch.setenv(name, value)
    for name in ("FROST_TENANT", "FROST_CONTEXT", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    memory = preferences.path_of(os.environ)
    if not remembers:
        memory.unlink(missing_ok=True)
    connection = await asyncio.to_thread(resolve, os.environ)
    app = FrostApp(connection, launch or Launch(), memory, debug_log, limits=limits)
    async with app.run_test(size=size, notifications=True) as pilot:
        ui = Ui(app, pilot)
        await ui.until(lambda: app.focused is not None, "the first frame")
        yield ui


def sign_in_questions(ui: Ui) -> int:
    """Count the open questions to sign in."""
    return sum(isinstance(screen, Confirm) and "signed in" in screen.question for screen in ui.app.screen_stack)


async def use_key(home: Home, name: str) -> None:
    """Let a home's context work with one of the world's keys."""
    home.start()
    secret = home.world_key(name)
    result = await asyncio.to_thread(home.frost, "config", "set", "api_key", "-", stdin=f"{secret}\n")
    assert result.code == 0, result


def add_other_context(home: Home) -> None:
    """Add a read-only context with the credentials of the current one."""
    home.start()
    text = home.config.read_text()
    local = text[text.index("  local:") : text.index("file_id:")]
    home.write_config(text.replace(local, local + local.replace("local:", "other:") + "    read_only: true\n"))

"""The queue of keys before a dialog opens."""

import asyncio

import pytest
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.screen import ModalScreen
from textual.widgets import Button, Input

from tui.terminal.textual_patches import TypeAhead


class Question(ModalScreen[None]):
    def compose(self) -> ComposeResult:
        yield Input()


class Program(App[None]):
    """An application whose action opens a dialog, after `may_open` is set, or ends without one."""

    BINDINGS = [Binding("o", "open", priority=True)]

    def __init__(self, *, opens: bool = True) -> None:
        super().__init__()
        self.queue = TypeAhead(self)
        self.may_open, self.opens = asyncio.Event(), opens
        self.keys_behind: list[str] = []

    def compose(self) -> ComposeResult:
        yield Button("behind")

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key) and not event.is_forwarded and self.queue.holds(event):
            return
        await super().on_event(event)

    def on_key(self, event: events.Key) -> None:
        self.keys_behind.append(event.key)

    def action_open(self) -> None:
        ended = asyncio.Event()
        self.queue.hold_for_dialog(ended)
        self.run_worker(self._open(ended))

    async def _open(self, ended: asyncio.Event) -> None:
        await self.may_open.wait()
        if self.opens:
            await self.push_screen_wait(Question())
        ended.set()


@pytest.mark.parametrize(("keys", "typed"), [("oab", "ab"), ("a", "a")], ids=["opened by a key", "by no key"])
async def test_keys_wait_for_the_dialog_before_them(keys: str, typed: str) -> None:
    app = Program()
    async with app.run_test() as pilot:
        if not keys.startswith("o"):
            app.action_open()
        for key in keys:
            app.post_message(events.Key(key, key))
        handled = asyncio.Event()  # the screen handles messages while keys wait
        app.screen.call_later(handled.set)
        app.call_later(handled.set)
        await handled.wait()
        assert not isinstance(app.screen, Question)
        app.may_open.set()
        await pilot.pause()
        while not isinstance(app.screen, Question) or app.screen.query_one(Input).value != typed:
            await pilot.pause(0.01)
        assert app.keys_behind == []


async def test_keys_go_on_when_the_action_ends_without_a_dialog() -> None:
    app = Program(opens=False)
    async with app.run_test() as pilot:
        for key in "oab":
            app.post_message(events.Key(key, key))
        app.may_open.set()
        while app.keys_behind != ["a", "b"]:
            await pilot.pause(0.01)

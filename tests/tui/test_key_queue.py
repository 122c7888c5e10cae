"""The queue of keys: none is lost before a form opens, and none reaches a question that has just opened."""

import asyncio

import pytest
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import ModalScreen
from textual.widgets import Button, Input

from tests.tui.screens import listened
from tui.terminal.textual_patches import KeyQueueApp, TypeAhead
from tui.widgets.dialog import Confirm


class Form(ModalScreen[None]):
    def compose(self) -> ComposeResult:
        yield Input()


class Program(KeyQueueApp):
    """An application whose action opens a dialog, after `may_open` is set, or ends without one.

    The dialog is a form, or a question if `asks`. The times are parameters of the queue.
    """

    BINDINGS = [Binding("o", "open", priority=True)]

    def __init__(self, *, opens: bool = True, asks: bool = False, **seconds: float) -> None:
        super().__init__()
        self.type_ahead = TypeAhead(self, **seconds)
        self.may_open, self.opens, self.asks = asyncio.Event(), opens, asks
        self.answers: list[bool | None] = []
        self.keys_behind: list[str] = []

    def compose(self) -> ComposeResult:
        yield Button("behind")

    def on_key(self, event: events.Key) -> None:
        self.keys_behind.append(event.key)

    def action_open(self) -> None:
        ended = asyncio.Event()
        self.type_ahead.hold_for_dialog(ended)
        self.run_worker(self._open(ended))

    async def _open(self, ended: asyncio.Event) -> None:
        await self.may_open.wait()
        if self.asks:
            self.answers.append(await self.push_screen_wait(Confirm("Delete?", [("Tenant", "Staging")])))
        elif self.opens:
            await self.push_screen_wait(Form())
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
        assert not isinstance(app.screen, Form)
        app.may_open.set()
        await pilot.pause()
        while not isinstance(app.screen, Form) or app.screen.query_one(Input).value != typed:
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


async def test_keys_do_not_wait_for_a_slow_action() -> None:
    app = Program(patience_seconds=0.01)
    async with app.run_test() as pilot:
        for key in "oab":
            app.post_message(events.Key(key, key))
        while app.keys_behind != ["a", "b"]:
            await pilot.pause(0.01)
        assert not app.may_open.is_set()


EARLY = [events.Key("y", "y"), events.Paste("y\n"), events.Key("enter", "\r"), events.Key("y", "y")]


async def test_keys_typed_ahead_of_a_question_do_not_answer_it() -> None:
    app = Program(asks=True)
    async with app.run_test() as pilot:
        for event in (events.Key("o", "o"), *EARLY):
            app.post_message(event)
        app.may_open.set()
        await listened(pilot)
        assert (app.answers, app.keys_behind) == ([], [])
        await pilot.press("y")
        while not app.answers:
            await pilot.pause(0.01)
        assert app.answers == [True]


async def test_a_question_that_has_just_opened_discards_keys_except_esc() -> None:
    app = Program(asks=True, question_seconds=3600)
    async with app.run_test() as pilot:
        app.may_open.set()
        app.post_message(events.Key("o", "o"))
        while not isinstance(app.screen, Confirm) or not app.screen.is_mounted:
            await pilot.pause(0.01)
        for event in EARLY:
            app.post_message(event)
        await pilot.pause()
        assert app.answers == []
        app.post_message(events.Key("escape", None))
        while not app.answers:
            await pilot.pause(0.01)
        assert (app.answers, app.keys_behind) == ([False], ["escape"])
        await pilot.press("a")  # the screen behind gets keys again
        while app.keys_behind != ["escape", "a"]:
            await pilot.pause(0.01)


async def test_esc_typed_ahead_of_a_question_cancels_it() -> None:
    app = Program(asks=True, question_seconds=3600)
    async with app.run_test() as pilot:
        for key in ("o", "y", "escape"):
            app.post_message(events.Key(key, None))
        app.may_open.set()
        while not app.answers:
            await pilot.pause(0.01)
        assert app.answers == [False]

"""Keys typed before a question do not answer it, and a question shows which tenant it is about."""

import sys

import pytest
from textual import events
from textual.app import App

from tests.acceptance.people import STAGING
from tests.homes import Home
from tests.terminal import Program
from tests.tui.screens import listened
from tui.widgets.dialog import Confirm


class Asking(App[None]):
    """Asks one question about a tenant and keeps the answer."""

    def __init__(self, tenant: str = "Staging", **options: str) -> None:
        super().__init__()
        self.tenant, self.options = tenant, options
        self.answers: list[bool | None] = []

    def ask(self) -> None:
        facts = [("Tenant", self.tenant), ("Id", STAGING)]
        self.push_screen(Confirm("Delete the tenant?", facts, **self.options), self.answers.append)


@pytest.mark.slow
async def test_keys_typed_ahead_of_a_dialog_do_not_answer_it() -> None:
    app = Asking()
    async with app.run_test(size=(80, 24)) as pilot:
        app.ask()
        for key, character in (("y", "y"), ("enter", "\r"), ("y", "y")):
            app.post_message(events.Key(key, character))
        await listened(pilot)
        assert app.answers == []
        await pilot.press("y")
        await pilot.pause()
        assert app.answers == [True]


async def test_enter_and_a_pasted_line_mean_no() -> None:
    for key in ("enter", "n", "escape"):
        app = Asking()
        async with app.run_test(size=(80, 24)) as pilot:
            app.ask()
            await listened(pilot)
            app.screen.post_message(events.Paste("y\n"))
            await pilot.pause()
            assert app.answers == []
            await pilot.press(key)
            await pilot.pause()
            assert app.answers == [False]


async def test_the_answers_stand_inside_the_box_that_asks() -> None:
    app = Asking()
    async with app.run_test(size=(80, 24)) as pilot:
        app.ask()
        await listened(pilot)
        box = app.screen.query_one(".dialog").region
        assert [box.contains_region(button.region) for button in app.screen.query("Button")] == [True, True]


async def test_a_wide_question_takes_the_name_and_nothing_less() -> None:
    app = Asking(typed="web-shop")
    async with app.run_test(size=(80, 24)) as pilot:
        app.ask()
        await listened(pilot)
        await pilot.press("y", "tab", "tab", "enter")
        await pilot.pause()
        assert app.answers in ([], [False])


@pytest.mark.parametrize(
    ("name", "marked"), [("Pr\u043ed", True), ("Prod", False), ("\u041f\u0440\u043e\u0434", False)]
)
async def test_a_look_alike_name_is_asked_about_with_its_id_and_marked(name: str, marked: bool) -> None:
    app = Asking(name)
    async with app.run_test(size=(90, 24)) as pilot:
        app.ask()
        await listened(pilot)
        strips = app.screen._compositor.render_strips()
        shown = "\n".join("".join(segment.text for segment in strip) for strip in strips)
        assert STAGING in shown
        assert ("has letters of different scripts" in shown) is marked


def test_an_answer_typed_before_the_question_of_a_command_does_not_count(demo: Home) -> None:
    demo.start()
    program = Program(
        [sys.executable, "-m", "tui", "platform", "reset"], 100, 20, env=demo.environment(), inherit=False
    )
    program.write(b"y\r")
    program.wait_for("[y/N]")
    program.until_quiet(0.5, 3)
    assert program.alive
    program.write(b"n\r")
    assert program.wait_end() == 1
    assert demo.platform_pid() is not None

"""Keys typed before a question do not answer it, and a question shows which tenant it is about."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from textual import events
from textual.pilot import Pilot

from tests.homes import Home
from tests.people import STAGING
from tests.terminal import on_terminal
from tests.tui.screens import listened
from tui.terminal.textual_patches import KeyQueueApp
from tui.widgets.dialog import Confirm


class Asking(KeyQueueApp):
    def __init__(self, tenant: str, **options: str) -> None:
        super().__init__()
        self.tenant, self.options = tenant, options
        self.answers: list[bool | None] = []

    def ask(self) -> None:
        facts = [("Tenant", self.tenant), ("ID", STAGING)]
        self.push_screen(Confirm("Delete the tenant?", facts, **self.options), self.answers.append)


@asynccontextmanager
async def question(*, tenant: str = "Staging", **options: str) -> AsyncIterator[tuple[Asking, Pilot[None]]]:
    """An open question."""
    app = Asking(tenant, **options)
    async with app.run_test(size=(90, 24)) as pilot:
        app.ask()
        await listened(pilot)
        yield app, pilot


async def test_enter_and_a_pasted_line_mean_no() -> None:
    for key in ("enter", "n", "escape"):
        async with question() as (app, pilot):
            app.screen.post_message(events.Paste("y\n"))
            await pilot.pause()
            assert app.answers == []
            await pilot.press(key)
            await pilot.pause()
            assert app.answers == [False]
    # A wide question takes the name and nothing less.
    async with question(typed="web-shop") as (app, pilot):
        await pilot.press("y", "tab", "tab", "enter")
        await pilot.pause()
        assert app.answers in ([], [False])


@pytest.mark.parametrize(
    ("name", "marked"), [("Pr\u043ed", True), ("Prod", False), ("\u041f\u0440\u043e\u0434", False)]
)
async def test_a_look_alike_name_is_asked_about_with_its_id_and_marked(name: str, marked: bool) -> None:
    async with question(tenant=name) as (app, _):
        strips = app.screen._compositor.render_strips()
        shown = "\n".join("".join(segment.text for segment in strip) for strip in strips)
        assert STAGING in shown
        assert ("has letters of different scripts" in shown) is marked
        box = app.screen.query_one(".dialog").region
        assert [box.contains_region(button.region) for button in app.screen.query("Button")] == [True, True]


def test_an_answer_typed_before_the_question_of_a_command_does_not_count(demo: Home) -> None:
    demo.start()
    program = on_terminal(demo, "platform", "reset", columns=140, rows=20)
    program.write(b"y\r")
    program.wait_for("[y/N]")
    program.until_quiet(0.5, 3)
    assert program.alive
    program.write(b"n\r")
    assert program.wait_end() == 1
    assert demo.platform_pid() is not None

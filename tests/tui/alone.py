"""An application with one widget or one dialog."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from textual.app import ComposeResult
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widget import Widget

from tests.tui.screens import listened
from tui.terminal.textual_patches import PatchedApp


class Alone(PatchedApp):
    """Shows `widgets`; `answer` is the result of the last dialog."""

    answer: Any = "none yet"

    def __init__(self, *widgets: Widget) -> None:
        super().__init__()
        self.widgets = widgets

    def compose(self) -> ComposeResult:
        yield from self.widgets

    def ask(self, dialog: Screen[Any]) -> None:
        self.push_screen(dialog, lambda answer: setattr(self, "answer", answer))

    @property
    def text(self) -> str:
        return "\n".join(strip.text.rstrip() for strip in self.screen._compositor.render_strips())


@asynccontextmanager
async def asked(dialog: Screen[Any], size: tuple[int, int] = (80, 24)) -> AsyncIterator[tuple[Alone, Pilot[None]]]:
    """Open a dialog over nothing, and wait until it listens to keys."""
    app = Alone()
    async with app.run_test(size=size) as pilot:
        app.ask(dialog)
        await (listened(pilot) if hasattr(dialog, "listening") else pilot.pause())
        yield app, pilot

"""What a message was shown by goes with it: who works all day sees thousands."""

import gc

import pytest
from textual._styles_cache import StylesCache
from textual.widget import Widget
from textual.widgets._toast import Toast, ToastHolder

from tests.homes import Home
from tests.tui.screens import opened


async def test_of_messages_that_were_taken_away_nothing_stays(shared: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    shared.start()
    shared.sign_in()
    async with opened(shared, monkeypatch) as ui:
        for number in range(6):
            ui.app.notify(f"message {number}", timeout=600)
            await ui.expect(f"message {number}")
            ui.app.withdraw(lambda _: True)
            await ui.until(lambda: not ui.app.screen.query(Toast), "nothing told")
        await ui.until(lambda: not ui.app.screen.query(ToastHolder), "nothing left of it")


async def test_of_widgets_that_are_gone_no_painted_line_stays(shared: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    shared.start()
    shared.sign_in()
    async with opened(shared, monkeypatch) as ui:
        for _ in range(3):
            await ui.press("question_mark", shows="Esc close")
            await ui.press("escape", gone="Esc close")
        gc.collect()
        alive = gc.get_objects()
        kept = {id(one._styles_cache) for one in alive if isinstance(one, Widget)}
        assert sum(isinstance(one, StylesCache) and id(one) not in kept for one in alive) == 0

"""Removed widgets free their memory."""

import gc

import pytest
from textual._styles_cache import StylesCache
from textual.widget import Widget

from tests.homes import Home
from tests.tui.screens import opened


async def test_removed_widgets_leave_no_cached_lines(shared: Home, monkeypatch: pytest.MonkeyPatch) -> None:
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

"""The ways between the places: Esc leads out of every inside exactly the way one came, `[` and `]` keep that way."""

import pytest

from tests.homes import Home
from tests.tui.screens import Ui, opened

pytestmark = pytest.mark.slow

ENTER = "enter"


async def members(ui: Ui) -> None:
    await ui.press("3")
    await ui.expect("deployers")
    await ui.cursor_on("deployers")
    await ui.press(ENTER)
    await ui.expect("Members of deployers", "3 members")


async def test_escape_goes_back_view_by_view_however_often_a_place_was_entered(
    shared: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(shared, monkeypatch) as ui:
        await members(ui)
        await ui.cursor_on("deploy-pipeline")
        await ui.press("w")
        await ui.expect("What deploy-pipeline may do", "compute:instances:delete")
        await ui.cursor_on("compute:instances:create")
        await ui.press("w")
        await ui.expect("Who may compute:instances:create on *", "shop/checkout")
        await ui.cursor_on("shop/checkout")
        await ui.press("w")
        await ui.expect("What shop/checkout may do", "compute:instances:create")
        await ui.press("g", "w")
        await ui.until(lambda: "Who may compute:instances:create on" not in ui.text, "another operation")
        await ui.expect("Who may ")
        await ui.press("escape")
        await ui.expect("What shop/checkout may do")
        await ui.press("escape")
        await ui.expect("Who may compute:instances:create on *")
        await ui.until(lambda: ui.under_cursor == "shop/checkout", "the cursor where it was")
        await ui.press("escape")
        await ui.expect("What deploy-pipeline may do")
        await ui.until(lambda: ui.under_cursor == "compute:instances:create", "the cursor where it was")
        await ui.press("escape")
        await ui.expect("Members of deployers")
        await ui.until(lambda: ui.under_cursor == "deploy-pipeline", "the cursor where it was")
        await ui.press("escape")
        await ui.expect("3 groups")
        await ui.press("escape", "escape")
        await ui.expect("3 groups")


async def test_the_way_back_belongs_to_the_view_also_when_it_is_come_to_through_the_history(
    shared: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(shared, monkeypatch) as ui:
        await members(ui)
        await ui.press("w")
        await ui.expect("What ", " may do")
        await ui.press("4")
        await ui.expect("Catalogue", "operations")
        await ui.press("left_square_bracket")
        await ui.expect("What ", " may do")
        await ui.press("escape")
        await ui.expect("Members of deployers")
        await ui.press("left_square_bracket")
        await ui.expect("What ", " may do")
        await ui.press("escape", "escape")
        await ui.expect("3 groups")


async def test_the_history_does_not_show_the_inside_of_another_tenants_record(
    shared: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(shared, monkeypatch) as ui:
        await members(ui)
        await ui.press("2")
        await ui.expect("7 policies")
        await ui.switch("newsroom")
        await ui.press("left_square_bracket")
        await ui.expect("1 group", "editors")
        await ui.gone("deployers")
        await ui.press("minus")
        await ui.expect_head("Web Shop")


async def test_two_quick_escapes_go_two_levels_back(shared: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(shared, monkeypatch) as ui:
        await members(ui)
        await ui.press("w")
        await ui.expect("What ", " may do")
        await ui.pilot.press("escape", "escape")
        await ui.expect("3 groups")

"""Navigation between screens with Esc, `[` and `]`."""

import pytest

from tests.tui.screens import Ui

pytestmark = pytest.mark.slow


async def members(ui: Ui) -> None:
    await ui.press("3", shows="deployers")
    await ui.press("enter", on="deployers", shows=("Members of deployers", "3 members"))


async def test_escape_goes_back_view_by_view(ui: Ui) -> None:
    await members(ui)
    await ui.press("w", on="deploy-pipeline", shows=("Access of deploy-pipeline", "compute:instances:delete"))
    await ui.press("w", on="compute:instances:create", shows=("Who may compute:instances:create on *", "shop/checkout"))
    await ui.press("w", on="shop/checkout", shows=("Access of shop/checkout", "compute:instances:create"))
    await ui.press("g", "w", shows="Who may ", gone="Who may compute:instances:create on")
    await ui.press("escape", shows="Access of shop/checkout")
    await ui.press("escape", shows="Who may compute:instances:create on *", cursor="shop/checkout")
    await ui.press("escape", shows="Access of deploy-pipeline", cursor="compute:instances:create")
    await ui.press("escape", shows="Members of deployers", cursor="deploy-pipeline")
    await ui.press("escape", shows="3 groups")
    await ui.press("escape", "escape", shows="3 groups")


async def test_a_view_from_the_history_keeps_its_way_back_and_no_other_tenant(ui: Ui) -> None:
    await members(ui)
    await ui.press("w", shows="Access of ")
    await ui.press("4", shows=("Catalogue", "operations"))
    await ui.press("left_square_bracket", shows="Access of ")
    await ui.press("escape", shows="Members of deployers")
    await ui.press("left_square_bracket", shows="Access of ")
    await ui.pilot.press("escape", "escape")  # two quick keys go two levels back
    await ui.expect("3 groups")
    await members(ui)
    await ui.press("2", shows="7 policies")
    await ui.switch("newsroom")
    await ui.press("left_square_bracket", shows=("1 group", "editors"), gone="deployers")
    await ui.press("minus", head="Web Shop")

"""The palette: actions of other screens, filters and empty results."""

import pytest
from textual.widgets import OptionList

from tests.tui.screens import BOTH_SIZES, READ_ONLY, Ui
from tui.shell import actions, routes
from tui.shell.palette import Palette, _line, entries, ranked

pytestmark = pytest.mark.slow


async def test_actions_of_other_screens_are_offered_and_run_there(ui: Ui) -> None:
    await ui.expect("Data Lake")
    await ui.press("ctrl+p", shows="Palette")
    await ui.type("zzzqqq", shows="No matches")
    await ui.press("down", "enter", shows=("Palette", "No matches"))
    await ui.press(*["backspace"] * 6)
    await ui.enter("go to con", shows=("Endpoint", "Credential"))
    await ui.press("1", shows="Data Lake")
    titles = [entry.title for entry in entries(ui.app.frame)]
    for route in routes.ROUTES:
        assert {action.title for action in actions.of_scope(route.name)} <= set(titles)
    assert titles.index("New group") > titles.index("Create tenant")
    assert titles.count("Create tenant") == 1
    await ui.press("ctrl+p", shows="Palette")
    await ui.type("new group", shows="In groups")
    await ui.press("enter", shows=("New group", "Description", "3 Groups"))
    await ui.press("escape", shows="3 groups")


@READ_ONLY
async def test_a_writing_action_of_another_screen_shows_the_reason(ui: Ui) -> None:
    await ui.expect("Data Lake")
    await ui.press("ctrl+p", shows="Palette")
    await ui.type("new group", shows=("New group", "frost was started with --read-only"))


@BOTH_SIZES
async def test_a_long_title_stays_on_one_line(ui: Ui) -> None:
    await ui.expect("Data Lake")
    await ui.press("ctrl+p", shows="Palette")
    await ui.type("limit for the organization", shows="Request a new limit for the organization  In quotas")
    palette = ui.app.screen
    assert isinstance(palette, Palette)
    assert palette.query_one(OptionList).virtual_size.height == len(palette.matches)


async def test_a_long_name_is_found_by_its_end(monkeypatch: pytest.MonkeyPatch, ui: Ui) -> None:
    await ui.expect("Data Lake")
    name = "Analytics of the north-eastern region, nightly jobs zanzibar"
    await ui.until(lambda: ui.app.workspace.tenants_state == "fresh", "the tenants")
    ui.app.workspace.tenants.append({**ui.app.workspace.tenants[0], "displayName": name})
    (entry, letters), *_ = ranked(entries(ui.app.frame, "zanzibar"), "zanzibar")
    assert (entry.title, len(letters)) == (f"Use tenant {name}", len("zanzibar"))
    line = _line(entry, letters, 40).plain
    assert line.startswith("     Use tenant Analytics of the north-eastern region, ni…")
    assert "zanzibar" not in line
    assert not ui.app.frame.action_context().browser
    monkeypatch.setattr(type(ui.app), "is_web", True)
    assert ui.app.frame.action_context().browser

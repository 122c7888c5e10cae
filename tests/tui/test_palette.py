"""The palette: what it offers beyond the place one is in, and what it says when nothing is called that."""

import pytest
from textual.widgets import OptionList

from tests.homes import Home
from tests.tui.screens import opened
from tui.launch import Launch
from tui.shell import actions, routes
from tui.shell.palette import Palette, _line, entries, ranked

pytestmark = pytest.mark.slow

ENTER = "enter"


async def test_the_actions_of_the_other_places_are_offered_and_done_there(
    shared: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(shared, monkeypatch) as ui:
        await ui.expect("Data Lake")
        titles = [entry.title for entry in entries(ui.app.frame)]
        for route in routes.ROUTES:
            assert {action.title for action in actions.of_scope(route.name)} <= set(titles)
        assert titles.index("New group") > titles.index("Create tenant")
        assert titles.count("Create tenant") == 1
        await ui.press("ctrl+p")
        await ui.expect("Palette")
        await ui.type("new group")
        await ui.expect("In groups")
        await ui.press(ENTER)
        await ui.expect("New group", "Description", "3 Groups")
        await ui.press("escape")
        await ui.expect("3 groups")


async def test_an_action_of_another_place_that_writes_says_why_it_cannot(
    shared: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(shared, monkeypatch, launch=Launch(read_only=True)) as ui:
        await ui.expect("Data Lake")
        await ui.press("ctrl+p")
        await ui.expect("Palette")
        await ui.type("new group")
        await ui.expect("New group", "frost was started with --read-only")


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_a_long_title_takes_from_its_words_and_stays_one_line(
    shared: Home, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    async with opened(shared, monkeypatch, size=size) as ui:
        await ui.expect("Data Lake")
        await ui.press("ctrl+p")
        await ui.expect("Palette")
        await ui.type("limit for the organization")
        await ui.expect("Request a new limit for the organization  In quotas")
        palette = ui.app.screen
        assert isinstance(palette, Palette)
        assert palette.query_one(OptionList).virtual_size.height == len(palette.matches)


async def test_where_nothing_is_found_the_palette_says_so_and_enter_does_nothing(
    shared: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(shared, monkeypatch) as ui:
        await ui.expect("Data Lake")
        await ui.press("ctrl+p")
        await ui.expect("Palette")
        await ui.type("zzzqqq")
        await ui.expect("No matches")
        await ui.press("down", ENTER)
        await ui.expect("Palette", "No matches")
        await ui.press(*["backspace"] * 6)
        await ui.type("go to con")
        await ui.press(ENTER)
        await ui.expect("Endpoint", "Credential")


async def test_a_long_name_is_found_by_its_end_and_shown_with_an_ellipsis(
    shared: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(shared, monkeypatch) as ui:
        await ui.expect("Data Lake")
        name = "Analytics of the north-eastern region, nightly jobs zanzibar"
        await ui.until(lambda: ui.app.workspace.tenants_state == "fresh", "the tenants")
        ui.app.workspace.tenants.append({**ui.app.workspace.tenants[0], "displayName": name})
        (entry, letters), *_ = ranked(entries(ui.app.frame, "zanzibar"), "zanzibar")
        assert entry.title == f"Use tenant {name}"
        assert len(letters) == len("zanzibar")
        shown = _line(entry, letters, 40)
        assert shown.plain.startswith("     Use tenant Analytics of the north-eastern region, ni…")
        assert "zanzibar" not in shown.plain


async def test_actions_know_whether_the_screens_run_in_a_browser(shared: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(shared, monkeypatch) as ui:
        assert not ui.app.frame.action_context().browser
        monkeypatch.setattr(type(ui.app), "is_web", True)
        assert ui.app.frame.action_context().browser

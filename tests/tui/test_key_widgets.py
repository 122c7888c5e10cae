"""The widgets of the API key forms."""

from datetime import UTC, datetime, timedelta

import pytest

from client.errors import Exit, FrostError
from client.models.account import GrantableScope
from client.texts.refusals import KeyProblem
from tests.tui.alone import Alone
from tui.account.key_form import form_problem
from tui.account.key_inputs import ChoiceLine, Until
from tui.account.key_tables import ServiceHeading, about, rows
from tui.account.rotate_dialog import AT_ONCE, OVERLAPS
from tui.widgets.lines import LineInput

NOW = "2026-11-21T10:05:00Z"


async def test_a_choice_is_made_by_keys_and_clicks() -> None:
    line = ChoiceLine(["one", "two", "[/x] three"], 1)
    app = Alone(line)
    async with app.run_test() as pilot:
        line.focus()
        assert app.text.startswith("○ one  ● two  ○ [/x] three")
        await pilot.press("left", "left", "h")
        assert line.chosen == 0
        await pilot.press("right", "l", "space", "right")
        assert line.chosen == 2
        for cell in (8, 5):  # the second is between two choices
            await pilot.click(ChoiceLine, offset=(cell, 0))
            assert line.chosen == 1


@pytest.mark.slow
async def test_an_expiry_is_shown_exactly_and_limited_by_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROST_CLOCK", NOW)
    until = Until("The old one", OVERLAPS, 0, at_once=AT_ONCE, latest=datetime(2026, 11, 23, 10, 5, tzinfo=UTC))
    app = Alone(until)
    async with app.run_test() as pilot:
        until.line.focus()
        await pilot.pause()
        assert until.moment is None
        assert AT_ONCE in app.text
        for words, away in (
            ("2026-11-21 11:05:00Z, in 1h", timedelta(hours=1)),
            ("2026-11-22 10:05:00Z, in 1d", timedelta(days=1)),
            ("2026-11-23 10:05:00Z: the key's own expiry is earlier", timedelta(days=7)),
        ):
            await pilot.press("right")
            await pilot.pause()
            assert words in app.text
            assert until.moment == until.now + away
        await pilot.press("right", "tab", *"2026-11-2")
        await pilot.pause()
        assert until.problem
        assert "not a date (YYYY-MM-DD) or" in app.text
        await pilot.press(*"2T08:00:00", "plus", *"01:00")
        await pilot.pause()
        assert (until.problem, until.moment) == ("", datetime(2026, 11, 22, 7, tzinfo=UTC))
        assert "2026-11-22 07:00:00Z, in 20h" in app.text


async def test_a_typed_expiry_has_room_beside_the_choices() -> None:
    until = Until("The old one", OVERLAPS, 0)
    app = Alone(until)
    async with app.run_test(size=(74, 5)) as pilot:
        until.line.chosen = len(OVERLAPS)
        await pilot.pause()
        field = app.query_one(LineInput)
        assert field.display
        assert field.size.width >= len("2027-01-31") + 1
        assert "● until 2027-01-31" in app.text
        assert "YYYY-MM-DD (end of the day, local time) or RFC 3339" in app.text
        assert until.problem == "enter a date (YYYY-MM-DD) or an RFC 3339 timestamp"


def test_scopes_are_grouped_by_service_and_described() -> None:
    listed = [GrantableScope(scope=scope) for scope in ("dns:read", "cdn:read", "dns:write")]
    groups = rows(listed, ["dns:zones:read", "cdn:read", "other:read"])
    scopes = ["dns ", "dns:read", "dns:write", "dns:zones:read", "cdn ", "cdn:read", "other ", "other:read"]
    assert [row.scope for row in groups] == scopes
    grantable = [row for row in groups if isinstance(row, GrantableScope)]
    assert [scope.scope for scope in grantable if not scope.enforced] == ["dns:zones:read", "other:read"]
    scope = {"scope": "dns:read", "description": "Read DNS resources", "operations": 5}
    for members, end in (
        ({}, "Read DNS resources."),
        ({"held": False, "lacks": ["a", "b", "c"]}, "; not available: your role lacks a and more."),
        ({"lacks": ["a"]}, "limited to your role, which lacks a."),
        ({"enforced": False}, "no service requires this scope, so it has no effect."),
    ):
        assert about(GrantableScope.model_validate({**scope, **members})).endswith(end)
    assert about(GrantableScope.model_validate(scope)) == "Read DNS resources."
    assert about(ServiceHeading("dns")) == about(None) == ""


def test_a_lost_response_names_the_key_that_may_exist() -> None:
    lost = form_problem(FrostError("no answer", code="X", exit_code=Exit.UNREACHABLE))
    assert lost == KeyProblem("", "no answer; the key may exist: check the list")

"""The sessions screen, and screens that lose their session."""

import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from client.operations import REREAD_SECONDS
from tests.homes import Home
from tests.tui.screens import BOTH_SIZES, Ui, opened, sign_in_questions
from tui.state.workspace import Workspace

ENTER = "enter"


@BOTH_SIZES
async def test_sessions_are_listed_and_the_own_one_is_marked(ui: Ui) -> None:
    await ui.press("7", shows=("5 sessions", "thinkpad-x1 (Fedora)", "Göteborg", "this one, now"))
    assert [line for line in ui.text.splitlines() if "►" in line] == [ui.row("this one, now")]
    await ui.press(ENTER, on="astrid-mbp (macOS)", shows=("Last seen  20", "Ends", "Stockholm, Sweden"))


@pytest.mark.slow
async def test_ending_all_sessions_asks_and_returns_after_sign_in(demo: Home, ui: Ui) -> None:
    await ui.press("7", shows="5 sessions")
    before = demo.token()
    await ui.press("delete", shows=("End every session?", "5: this one, and 4 other devices", "stay valid"))
    await ui.answer(ENTER, gone="End every session?")
    assert demo.request("GET", "/api/v1/me", token=before).status == 200
    await ui.press("delete", shows="End every session?")
    await ui.answer("y", toast="Ended 5 sessions, this one too")
    await ui.expect("You are not signed in", "you ended every session")
    assert sign_in_questions(ui) == 1
    assert demo.request("GET", "/api/v1/me", token=before).status == 401
    key = demo.world_key("tenant-reader")
    assert demo.request("GET", "/api/v1/tenants", key=key).status == 200
    await ui.answer(ENTER, shows=("1 session", "this one, now"), toast="Signed in to local")
    assert ui.screen.NAME == "sessions"


@pytest.mark.slow
async def test_a_session_ended_elsewhere_stops_all_requests(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    whole = Workspace.ask

    async def counted(self: Workspace, question: Callable[[Any], Awaitable[Any]]) -> Any:
        asked.append(question)
        return await whole(self, question)

    monkeypatch.setattr(Workspace, "ask", counted)
    async with opened(demo, monkeypatch) as ui:
        await ui.press("6", shows="compute-all")
        await ui.filter("tenant-", shows=("2 of 16", "In groups"))
        token = demo.token()
        begun = time.monotonic()
        assert demo.request("POST", "/api/v1/sessions/revoke-all", token=token).status == 200
        await ui.expect("You are not signed in")
        assert time.monotonic() - begun < REREAD_SECONDS - 5
        await ui.pilot.pause(0.5)
        assert sign_in_questions(ui) == 1
        await ui.press("escape", head="not signed in")
        number = len(asked)
        await ui.press("j", "k", "3", "2", "7", "6")
        await ui.pilot.pause(0.5)
        assert len(asked) == number, "nobody is signed in, and the platform was asked"
        assert sign_in_questions(ui) == 0
        await ui.press("r", shows="You are not signed in")
        await ui.answer(ENTER, shows=("2 of 16", "tenant-reader"), toast="Signed in to local")


@pytest.mark.slow
async def test_a_form_keeps_what_was_typed_over_a_sign_in(demo: Home, ui: Ui) -> None:
    await ui.expect_head("Web Shop")
    await ui.press("6", shows="compute-all")
    await ui.press("n", shows=("New API key in Web Shop", "compute:read"))
    await ui.type("kept")
    await ui.press(*["tab"] * 5, "j", "space", shows="1 chosen")
    assert demo.request("POST", "/api/v1/sessions/revoke-all", token=demo.token()).status == 200
    await ui.expect("You are not signed in")
    await ui.answer(ENTER, toast="Signed in to local")
    await ui.until(lambda: sign_in_questions(ui) == 0, "the question gone")
    await ui.expect("New API key in Web Shop", "1 chosen")
    await ui.press("ctrl+s", shows=("New API key kept", "shown only now"))

"""Sessions from the screens: this one marked, the end of all of them, and what a screen does that has lost its own."""

import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from client.operations import REREAD_SECONDS
from tests.homes import Home
from tests.tui.screens import Ui, opened
from tui.state.workspace import Workspace
from tui.widgets.dialog import Confirm

ENTER = "enter"


def questions(ui: Ui) -> int:
    """How many questions to sign in stand over each other."""
    return sum(isinstance(screen, Confirm) and "signed in" in screen.question for screen in ui.app.screen_stack)


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_sessions_of_every_device_are_listed_and_this_one_is_marked(
    shared: Home, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    async with opened(shared, monkeypatch, size=size) as ui:
        await ui.press("7")
        await ui.expect("5 sessions", "thinkpad-x1 (Fedora)", "Göteborg", "this one, now")
        assert [line for line in ui.text.splitlines() if "►" in line] == [ui.row("this one, now")]
        await ui.cursor_on("astrid-mbp (macOS)")
        await ui.press(ENTER)
        await ui.expect("Last seen  20", "Ends", "Stockholm, Sweden")


@pytest.mark.slow
async def test_ending_all_asks_with_no_first_and_then_signs_in_again_with_the_view_as_it_was(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(demo, monkeypatch) as ui:
        await ui.press("7")
        await ui.expect("5 sessions")
        before = demo.token()
        await ui.press("delete")
        await ui.expect("End every session?", "5: this one, and 4 other devices", "stay valid")
        await ui.heard()
        await ui.press(ENTER)
        await ui.until(lambda: "End every session?" not in ui.text, "the question gone")
        assert demo.request("GET", "/api/v1/me", token=before).status == 200
        await ui.press("delete")
        await ui.expect("End every session?")
        await ui.heard()
        await ui.press("y")
        await ui.expect_toast("Ended 5 sessions, this one too")
        await ui.expect("You are not signed in", "you ended every session")
        assert questions(ui) == 1
        assert demo.request("GET", "/api/v1/me", token=before).status == 401
        key = demo.world_key("tenant-reader")
        assert demo.request("GET", "/api/v1/tenants", key=key).status == 200
        await ui.heard()
        await ui.press(ENTER)
        await ui.expect_toast("Signed in to local")
        await ui.expect("1 session", "this one, now")
        assert ui.app.frame.current is not None
        assert ui.app.frame.current.NAME == "sessions"


@pytest.mark.slow
async def test_a_session_ended_elsewhere_is_said_within_seconds_and_everything_stops_asking(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    whole = Workspace.ask

    async def counted(self: Workspace, question: Callable[[Any], Awaitable[Any]]) -> Any:
        asked.append(question)
        return await whole(self, question)

    monkeypatch.setattr(Workspace, "ask", counted)
    async with opened(demo, monkeypatch) as ui:
        await ui.press("6")
        await ui.expect("compute-all")
        await ui.press("slash")
        await ui.type("tenant-")
        await ui.press(ENTER)
        await ui.expect("2 of 16", "In groups")
        token = demo.token()
        begun = time.monotonic()
        assert demo.request("POST", "/api/v1/sessions/revoke-all", token=token).status == 200
        await ui.expect("You are not signed in")
        assert time.monotonic() - begun < REREAD_SECONDS - 5
        await ui.pilot.pause(0.5)
        assert questions(ui) == 1
        await ui.press("escape")
        await ui.expect_head("not signed in")
        number = len(asked)
        await ui.press("j", "k", "3", "2", "7", "6")
        await ui.pilot.pause(0.5)
        assert len(asked) == number, "nobody is signed in, and the platform was asked"
        assert questions(ui) == 0
        await ui.press("r")
        await ui.expect("You are not signed in")
        await ui.heard()
        await ui.press(ENTER)
        await ui.expect_toast("Signed in to local")
        await ui.expect("2 of 16", "tenant-reader")


@pytest.mark.slow
async def test_a_form_that_loses_its_session_is_there_with_all_that_was_typed_after_signing_in(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(demo, monkeypatch) as ui:
        await ui.expect_head("Web Shop")
        await ui.press("6")
        await ui.expect("compute-all")
        await ui.press("n")
        await ui.expect("New API key in Web Shop", "compute:read")
        await ui.type("kept")
        await ui.press(*["tab"] * 5, "j", "space")
        await ui.expect("1 chosen")
        assert demo.request("POST", "/api/v1/sessions/revoke-all", token=demo.token()).status == 200
        await ui.expect("You are not signed in")
        await ui.heard()
        await ui.press(ENTER)
        await ui.expect_toast("Signed in to local")
        await ui.until(lambda: questions(ui) == 0, "the question gone")
        await ui.expect("New API key in Web Shop", "1 chosen")
        await ui.press("ctrl+s")
        await ui.expect("New API key kept", "shown only now")

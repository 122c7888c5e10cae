"""The account and sessions screens, and screens that lose their session."""

import asyncio
import time
from typing import Any

import pytest

from client.operations import REREAD_SECONDS
from tests.homes import Home
from tests.people import MEMBER
from tests.tui.screens import SMALL, Ui, opened, sign_in_questions, signed_in
from tui.state.workspace import Workspace


@pytest.mark.slow
@signed_in(MEMBER)
async def test_an_account_is_deleted_once_its_email_is_typed(demo: Home, ui: Ui) -> None:
    await ui.expect_head("connected")
    await ui.press("8", shows="Credential  session")
    await ui.press("delete")
    await ui.expect("Delete your account?", "all your sessions", "support can restore the account", f"Type {MEMBER}")
    await ui.heard()
    await ui.type("somebody@else.example")
    assert ui.app.screen.query_one("#yes").disabled
    await ui.press("enter", shows=f"Does not match: type {MEMBER}")
    token = demo.token()
    await ui.replace(MEMBER, shows=f"Type {MEMBER} to confirm")  # Enter moves the focus to the answer
    await ui.until(lambda: ui.focus == "yes", "the answer")
    assert demo.request("GET", "/api/v1/me", token=token).status == 200
    await ui.press("enter", toast=f"The account {MEMBER} was deleted; support can restore it until 20")
    await ui.expect_head("not signed in")
    assert demo.request("GET", "/api/v1/me", token=token).status == 401
    await ui.pilot.pause(0.5)
    assert sign_in_questions(ui) == 0
    assert MEMBER not in ui.text.replace(f"The account {MEMBER} was", "")
    await ui.press("6", "7", "1", "3")
    await ui.pilot.pause(0.3)
    assert sign_in_questions(ui) == 0
    assert (await asyncio.to_thread(demo.frost, "account", "profile")).code != 0


@pytest.mark.slow
@SMALL
async def test_the_last_owner_of_an_organization_is_refused(ui: Ui) -> None:
    await ui.expect_head("connected")
    await ui.press("8", shows="Credential")
    await ui.press("delete", shows="Delete your account?")
    await ui.heard()
    await ui.type("owner@aurora.example")
    await ui.press("tab", "tab", "enter")
    await ui.expect(
        "Your account was not deleted",
        "the last owner of this organization, which has",
        "Aurora Labs",
        "Make another member an owner",
    )
    await ui.answer("enter", head="owner@aurora.example · session", gone="Your account was not deleted")


async def test_profile_roles_and_sessions_are_shown(ui: Ui) -> None:
    await ui.press(
        "8", shows=("Astrid Lindqvist", "owner@aurora.example", "Credential  session, ends", "tenant Web Shop")
    )
    await ui.expect("2 organizations")
    assert "owner" in ui.row("Aurora Labs  ")
    assert "member" in ui.row("Borealis Media")
    await ui.press("enter", on="Borealis Media", shows=("Newsroom", "Tenants"), gone="Data Lake")
    await ui.press("7", shows=("5 sessions", "thinkpad-x1 (Fedora)", "Göteborg", "this session, now"))
    assert [line for line in ui.text.splitlines() if "►" in line] == [ui.row("this session, now")]
    await ui.press("enter", on="astrid-mbp (macOS)", shows=("Last seen  20", "Ends", "Stockholm, Sweden"))


@pytest.mark.slow
async def test_ending_all_sessions_asks_and_returns_after_sign_in(demo: Home, ui: Ui) -> None:
    await ui.press("7", shows="5 sessions")
    before = demo.token()
    await ui.press("delete", shows=("End all sessions?", "5: this session and 4 other sessions", "stay valid"))
    await ui.answer("enter", gone="End all sessions?")
    assert demo.request("GET", "/api/v1/me", token=before).status == 200
    await ui.press("delete", shows="End all sessions?")
    await ui.answer("y", toast="Ended 5 sessions, including this one")
    await ui.expect("You are not signed in", "you ended all sessions")
    assert sign_in_questions(ui) == 1
    assert demo.request("GET", "/api/v1/me", token=before).status == 401
    key = demo.world_key("tenant-reader")
    assert demo.request("GET", "/api/v1/tenants", key=key).status == 200
    await ui.answer("enter", shows=("1 session", "this session, now"), toast="Signed in to local")
    assert ui.screen.NAME == "sessions"


@pytest.mark.slow
async def test_a_session_ended_elsewhere_stops_all_requests(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    asks: list[object] = []
    ask = Workspace.ask

    async def counted(self: Workspace, call: Any) -> Any:
        asks.append(call)
        return await ask(self, call)

    monkeypatch.setattr(Workspace, "ask", counted)
    async with opened(demo, monkeypatch) as ui:
        await ui.press("6", shows="compute-all")
        await ui.filter("tenant-", shows=("2 of 16", "In groups"))
        begun = time.monotonic()
        assert demo.request("POST", "/api/v1/sessions/revoke-all", token=demo.token()).status == 200
        await ui.expect("You are not signed in")
        assert time.monotonic() - begun < REREAD_SECONDS - 5
        await ui.pilot.pause(0.5)
        assert sign_in_questions(ui) == 1
        await ui.press("escape", head="not signed in")
        number = len(asks)
        await ui.press("j", "k", "3", "2", "7", "6")
        await ui.pilot.pause(0.5)
        assert len(asks) == number, "a request was sent without a session"
        assert sign_in_questions(ui) == 0
        await ui.press("r", shows="You are not signed in")
        await ui.answer("enter", shows=("16 API keys", "compute-all"), toast="Signed in to local")


@pytest.mark.slow
async def test_a_form_keeps_what_was_typed_over_a_sign_in(demo: Home, ui: Ui) -> None:
    await ui.expect_head("Web Shop")
    await ui.press("6", shows="compute-all")
    await ui.press("n", shows=("New API key in Web Shop", "compute:read"))
    await ui.type("kept")
    await ui.press(*["tab"] * 5, "j", "space", shows="1 selected")
    assert demo.request("POST", "/api/v1/sessions/revoke-all", token=demo.token()).status == 200
    await ui.expect("You are not signed in")
    await ui.answer("enter", toast="Signed in to local")
    await ui.until(lambda: sign_in_questions(ui) == 0, "the question gone")
    await ui.expect("New API key in Web Shop", "1 selected")
    await ui.press("ctrl+s", shows=("New API key kept", "shown only once"))

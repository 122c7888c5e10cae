"""The contexts screen on a real config file: create, edit and delete."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from client.auth import sign_in as auth_sign_in
from tests.homes import Home
from tests.tui.editing import hung
from tests.tui.relay import Relay
from tests.tui.screens import SMALL, Ui, add_other_context, opened, sign_in_questions
from tui.state import contexts
from tui.state.contexts import endpoint_problem


async def fill(ui, *values: str) -> None:
    """Type into the fields of a form, one after another, and replace their values."""
    for number, value in enumerate(values):
        if number:
            await ui.press("tab")
        await ui.press("ctrl+a", "ctrl+k")
        await ui.type(value)


@pytest.mark.slow
async def test_a_context_is_created_edited_back_to_the_default_and_deleted(demo_slow: Home, ui: Ui) -> None:
    await ui.expect_head("connected")
    await ui.press("5", "n", shows="Create a context")
    await fill(ui, "local", "https://away.example/api", "north-1")
    await ui.press("enter", shows="context 'local' already exists")
    await fill(ui, "work")
    await ui.press("enter", cursor="work")
    made = (await asyncio.to_thread(demo_slow.json, "config", "get-contexts"))["items"]
    assert {"work", "local"} == {one["name"] for one in made}
    assert "https://away.example/api" in demo_slow.config.read_text()
    assert "north-1" in demo_slow.config.read_text()

    await ui.press("e", shows="Edit context work")
    await ui.press("ctrl+a", "ctrl+k", shows="empty: unix:~/.cli/platform/api.sock")
    await ui.press("enter", toast="Saved context work")
    assert "away.example" not in demo_slow.config.read_text()

    await ui.press("delete", shows=("Delete this context?", "endpoint, region, selected tenant", "permanently"))
    await ui.heard()
    await ui.press("enter")  # Cancel has the focus
    await ui.gone("Delete this context?")
    assert "work" in demo_slow.config.read_text()
    await ui.press("delete", shows="Delete this context?")
    await ui.answer("y", toast="Deleted context work")
    assert "work:" not in demo_slow.config.read_text()

    await ui.press(
        "delete", on="local", toast="Delete context: this context is in use: switch to another context first"
    )


async def test_another_context_shows_its_credentials_and_a_failed_sign_out_leaves_the_current_one(
    demo_slow: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo_slow.start()
    others = {"spare": "{api_key: K, access_token: A}", "ring": "{store: keyring, holds: [session]}"}
    added = "".join(f"  {name}:\n    credentials: {members}\n" for name, members in others.items())
    demo_slow.config.write_text(demo_slow.config.read_text().replace("contexts:\n", f"contexts:\n{added}", 1))
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "")
    async with opened(demo_slow, monkeypatch) as ui:
        await ui.expect_head("connected")
        await ui.press("5")
        await ui.press("delete", on="spare")
        await ui.expect("selected tenant, stored API", "key, stored session", "Session   stays valid until it expires")
        await ui.press("escape", gone="Delete this context?")
        await ui.press("o", on="ring")
        await ui.answer("y", to="Sign out?", toast="keyring")
        assert sign_in_questions(ui) == 0
        await ui.expect_head("connected")


@pytest.mark.slow
async def test_an_action_is_not_continued_in_the_next_context(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    add_other_context(demo)
    with closing(Relay(demo)) as relay:
        async with opened(demo, monkeypatch) as ui:
            await ui.press("6", shows="16 API keys")
            await ui.press("space", on="quota-bot")
            await ui.press("space", on="tenant-writer")
            await ui.press("delete", shows="Delete 2 API keys?")
            keys = [key.id for key in ui.screen.table.selected_records]

            def sent() -> list[str]:
                return [path for path in relay.requests if path.rpartition("/")[2] in keys]

            with hung(demo):
                await ui.answer("y", to="Delete 2 API keys?")
                await ui.until(lambda: len(sent()) == 1, "the first request")
                await ui.press("5")
                await ui.press("u", on="other", head="other")
                await ui.expect_toast("0 of 2 done, then: the request was interrupted")
            await ui.press("6", shows="15 API keys")  # lists are read
            assert len(sent()) == 1, "a read-only context"


class Held:
    """A function whose first call waits for `release`: a fake for time only."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.reached, self.release = threading.Event(), threading.Event()

    def __call__(self, *arguments: Any) -> Any:
        if not self.reached.is_set():
            self.reached.set()
            assert self.release.wait(60)
        return self._function(*arguments)


async def switch_during(ui: Ui, held: Held, action: str) -> None:
    """Use the other context while an action waits, then let it end."""
    await ui.until(held.reached.is_set, "the action")
    await ui.app.workspace.move_to("other")
    held.release.set()
    workers = ui.app.workers
    await ui.until(lambda: all(one.is_finished for one in workers if one.group == action), "its end")
    await ui.pilot.pause()


@pytest.mark.slow
async def test_a_switch_during_an_action_is_not_undone(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    add_other_context(demo)
    async with opened(demo, monkeypatch) as ui:
        await ui.press("5", "n", shows="Create a context")
        await fill(ui, "work", "https://away.example/api")
        with monkeypatch.context() as patch:
            held = Held(contexts.again)
            patch.setattr(contexts, "again", held)
            await ui.press("enter")
            await switch_during(ui, held, "contexts.create")
        assert (ui.app.workspace.context, ui.app.workspace.connection.context.name) == ("other", "other")
        await ui.app.workspace.move_to("local")
        await ui.press("7", shows="this session, now")
        await ui.press("delete", shows="End all sessions?")
        with monkeypatch.context() as patch:
            held = Held(contexts.session_ended)
            patch.setattr(contexts, "session_ended", held)
            await ui.answer("y", to="End all sessions?")
            await switch_during(ui, held, "sessions.end_all")
        assert ui.app.workspace.context == "other"


@pytest.mark.slow
async def test_a_form_is_not_sent_in_the_next_context(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    add_other_context(demo)
    async with opened(demo, monkeypatch) as ui:
        await ui.press("6", shows="16 API keys")
        await ui.press("n", shows=("New API key in Web Shop", "compute:read"))
        await ui.type("lost")
        await ui.press(*["tab"] * 5, "j", "space", shows="1 selected")
        await ui.app.workspace.move_to("other")
        await ui.press("ctrl+s", shows="the context changed: New API key was not continued")
        await ui.press("escape", shows="16 API keys")
        await ui.press("r", shows="16 API keys", gone="lost")


@pytest.mark.slow
async def test_hints_name_the_configured_keys(demo_slow: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    demo_slow.start()
    config = demo_slow.config.read_text()
    spare = "  spare:\n    credentials: {access_token: A}\n"
    keys = "keys:\n  contexts.sign_in: v\n  contexts.sign_out: w\n  contexts.use: ''\n  app.refresh: x\n"
    demo_slow.write_config(config.replace("contexts:\n", f"contexts:\n{spare}") + keys)
    async with opened(demo_slow, monkeypatch) as ui:
        await ui.expect_head("connected")
        await ui.press("5", "n", shows="Create a context")
        await fill(ui, "work", "https://away.example/api")
        await ui.press("enter", toast="Saved context work · v to sign in")
        assert not any("to use" in message for message in ui._messages)
        await ui.press("delete", on="spare", shows=("stays valid until it expires", "w to sign out"))
        await ui.press("escape", gone="Delete this context?")
        await ui.press("w", on="local", shows="Sign out?")
        await ui.answer("y", head="not signed in", toast="Signed out of local")
        await ui.press("1", "n", toast="you signed out; x to sign in")


@pytest.mark.slow
async def test_a_sign_in_in_another_terminal_is_followed_after_the_end_of_the_session(demo_slow: Home, ui: Ui) -> None:
    for closes in (True, False):  # the dialog was closed, or is open
        await ui.expect_head("owner@aurora.example · session")
        assert (await asyncio.to_thread(demo_slow.frost, "logout")).code == 0
        await ui.press("r", shows="You are not signed in")
        if closes:
            await ui.press("escape", head="! not signed in", gone="You are not signed in")
            assert "owner@" not in ui.head
        assert (await asyncio.to_thread(demo_slow.frost, "login")).code == 0
        await ui.expect_head("owner@aurora.example · session")
        await ui.gone("You are not signed in")


@pytest.mark.slow
async def test_a_sign_in_names_a_platform_that_does_not_respond(demo_slow: Home, ui: Ui) -> None:
    open_connections: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda _, writer: open_connections.append(writer), "127.0.0.1", 0)
    address = f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}/api"
    await ui.expect_head("connected")
    await ui.press("5", "n", shows="Create a context")
    await fill(ui, "", "ftp://x")  # a missing name does not hide the problem
    await ui.expect("'ftp' is not a valid scheme; use", "https://… or unix:/path")
    await ui.press("shift+tab")
    await fill(ui, "silent", address)
    await ui.press("enter", cursor="silent")
    await ui.press("i", shows=("Sign in to silent", f"Contacting {address}", "Esc cancel"))
    await ui.press("escape", gone="Contacting", cursor="silent")
    await ui.press("u", head="! not signed in")
    await ui.press("2", shows="not signed in to context silent", gone="No tenant selected")
    silent.close()
    for connection in open_connections:
        connection.close()
    assert not ui.toasts[1:]


@pytest.mark.slow
async def test_the_end_of_the_program_stops_a_pending_sign_in(ui: Ui, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[threading.Event] = []

    def wait_for_approval(*_: object, cancelled: threading.Event, **__: object) -> None:
        """Wait for an approval that never comes."""
        waits.append(cancelled)
        cancelled.wait(60)

    monkeypatch.setattr(auth_sign_in, "sign_in_device", wait_for_approval)
    await ui.expect_head("connected")
    await ui.press("5", "i")
    await ui.until(lambda: bool(waits), "the sign-in")
    ui.app.workers.cancel_all()  # as at the end
    await ui.pilot.pause()
    assert waits[0].is_set()


@SMALL
async def test_the_form_of_a_context_fits_and_shows_the_problem_of_its_endpoint(ui: Ui) -> None:
    await ui.expect_head("connected")
    await ui.press("5", "n", shows=("Create a context", "Enter create · Tab next field"))
    box = ui.app.screen.query_one(".dialog").region
    assert 2 < box.y < box.bottom < 23
    assert "Esc cancel" in ui.text
    await ui.type("work")
    await ui.press("ctrl+s", shows="Enter an endpoint that starts with https:// or unix:")
    assert ui.focus == "field-endpoint"
    wrong = "http://a-host-with-a-rather-long-name.of-somebody-else.example.com/api"
    problem = endpoint_problem(wrong)
    assert problem is not None
    assert len(problem) > 60
    ui.app.screen.query_one("#field-endpoint").value = wrong
    await ui.press("enter")

    def text_of_dialog() -> str:
        parts = (part for line in ui.text.splitlines() for part in line.split("│")[1:2])
        return "".join("".join(parts).split())

    await ui.until(lambda: "".join(problem.split()) in text_of_dialog(), "the whole reason")

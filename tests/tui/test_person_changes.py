"""Another sign-in and a stopped platform while the screens are open."""

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from client.api import account
from client.errors import FrostError
from client.operations import REREAD_SECONDS
from client.tables.columns import Record
from client.transport.async_client import AsyncClient
from client.transport.exchange import RequestLogEntry
from tests.homes import Home
from tests.people import OUTSIDER
from tests.tui.screens import Ui, add_other_context, opened, sign_in_questions, signed_in
from tui.shell.actions import BY_ID
from tui.state import loaders
from tui.state.context_state import BACKOFF
from tui.state.contexts import config_changes
from tui.state.debug_log import DebugLog


async def test_a_sign_in_elsewhere_is_noticed_and_shows_nothing_of_the_former_user(demo: Home, ui: Ui) -> None:
    await ui.expect("Data Lake", "Newsroom")
    await ui.switch("newsroom")
    assert (await asyncio.to_thread(demo.frost, "login", "--as", "member@aurora.example")).code == 0
    begun = time.monotonic()
    await ui.expect_head("member@aurora.example · session")
    assert time.monotonic() - begun < REREAD_SECONDS - 5  # less than the reading that comes anyway
    await ui.expect_toast("local: signed in as member@aurora.example, before as owner@aurora.example")
    await ui.expect("Sandbox")
    await ui.gone("Data Lake")
    await ui.expect_head("unavailable: choose another")
    assert ui.app.workspace.tenant_before == ""


@pytest.mark.slow
async def test_another_user_starts_on_the_first_screen(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(demo, monkeypatch) as ui:
        await ui.expect_head("owner@aurora.example · session")
        await ui.switch("newsroom")
        await ui.command("activity", shows="Activity")
        await ui.until(lambda: ui.screen.NAME == "activity", "the activity")
    async with opened(demo, monkeypatch, remembers=True) as ui:  # the same user
        await ui.expect_head("owner@aurora.example · session")
        assert ui.screen.NAME == "activity"
    demo.sign_in("member@aurora.example")
    async with opened(demo, monkeypatch, remembers=True) as ui:
        await ui.expect_head("member@aurora.example · session")
        await ui.until(lambda: ui.screen.NAME == "tenants", "the first screen")
        assert ui.app.frame.history.earlier is None
        assert ui.app.workspace.tenant_before == ""
        await ui.press("3", shows="Groups")
    async with opened(demo, monkeypatch, remembers=True) as ui:
        await ui.expect_head("member@aurora.example · session")
        assert ui.screen.NAME == "groups"
        assert ui.app.workspace.state.screen_of == "member@aurora.example"


@pytest.mark.slow
@signed_in(OUTSIDER)
async def test_a_user_without_tenants_is_offered_only_what_works(demo: Home, user: str, ui: Ui) -> None:
    advice = "Ask an owner or admin of an organization"
    await ui.expect_head("no tenant", f"{OUTSIDER} · session")
    await ui.expect(advice)
    for key in ("2", "3", "9"):
        await ui.press(key, shows=advice)
        assert ui.screen.NAME in ("policies", "groups", "quotas")
    none = "You have no API key. A key belongs to a tenant, and you have none."
    await ui.press("6")
    await ui.until(lambda: (ui.screen.NAME, ui.screen.empty()) == ("api-keys", none), none)
    for action in ("api-keys.create", "groups.create", "policies.create", "tenants.create"):
        assert BY_ID[action].disabled_reason(ui.app.frame.action_context()), action
    await ui.gone("choose another", "Choose", "New API key")


@pytest.mark.slow
async def test_a_question_closes_with_its_user_or_context(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    add_other_context(demo)
    closed = "Closed without an answer, because the user or the context changed: End all sessions?"
    async with opened(demo, monkeypatch) as ui:
        await ui.press("7", shows="this session, now")
        await ui.press("delete", shows="End all sessions?")
        workspace = ui.app.workspace
        before = workspace.connection, workspace.me
        assert (await asyncio.to_thread(demo.frost, "login")).code == 0
        await ui.until(lambda: workspace.connection is not before[0] and workspace.me is not before[1], "the config")
        await ui.expect("End all sessions?")  # the same user
        assert (await asyncio.to_thread(demo.frost, "login", "--as", "member@aurora.example")).code == 0
        await ui.see(gone="End all sessions?", toast=closed, head="member@aurora.example")
        await ui.press("delete", shows="End all sessions?")
        await workspace.move_to("other")
        await ui.see(gone="End all sessions?", toast=closed, head="other")


@pytest.mark.slow
async def test_a_sign_out_while_the_config_is_read_asks_nothing(demo: Home, ui: Ui) -> None:
    await ui.expect_head("connected")
    workspace = ui.app.workspace
    former = workspace._client_connection
    reached, released = threading.Event(), threading.Event()

    def invalidate() -> None:
        """Wait for the test: a fake for time only."""
        reached.set()
        assert released.wait(60)
        type(former).invalidate_credential(former)

    former.invalidate_credential = invalidate
    reading = asyncio.create_task(workspace.invalidate_credential())
    await ui.until(reached.is_set, "the new credential")
    await workspace.end_session(account.revoke_all_sessions(), lambda _: "you ended all sessions")
    released.set()
    assert await reading
    assert workspace.connection.context.session_ended, "the config of the former session"
    await ui.press("3", "2", head="not signed in")
    assert (workspace.link.why, sign_in_questions(ui)) == ("you ended all sessions", 0)


async def test_changes_of_the_config_file_are_noticed(tmp_path: Path) -> None:
    file, seen = tmp_path / "config.yaml", asyncio.Event()

    async def watch() -> None:
        async for _ in config_changes(str(file), 0.01):
            seen.set()

    async def unchanged() -> None:
        seen.clear()
        await asyncio.sleep(0.1)
        assert not seen.is_set()

    task = asyncio.ensure_future(watch())
    await unchanged()
    other = tmp_path / "other"
    other.write_text("x: 1")
    for change in (lambda: file.write_text("a: 1"), lambda: os.utime(file), lambda: other.replace(file), file.unlink):
        seen.clear()
        change()
        await asyncio.wait_for(seen.wait(), 60)
    await unchanged()
    task.cancel()


@pytest.mark.slow
async def test_a_stopped_platform_is_started_on_request_only(demo: Home, ui: Ui) -> None:
    await ui.expect_head("connected")
    await ui.expect("Staging")
    for start in ("by a key", "by a command"):
        assert (await asyncio.to_thread(demo.frost, "platform", "stop")).code == 0
        await ui.expect_head("○ stopped · r start")
        await asyncio.sleep(2 * BACKOFF[0])
        assert demo.platform_pid() is None
        await ui.expect("Staging")
        exchanges: list[RequestLogEntry] = []
        ui.app.workspace.connection.respects_stop = True
        client = AsyncClient(ui.app.workspace.connection, on_reply=exchanges.append)
        with pytest.raises(FrostError, match="the platform is not running"):
            await client.ask(account.me())
        assert [one.method for one in exchanges] == ["GET"], "repeated, although the platform remains stopped"
        if start == "by a key":
            await ui.press("r", head="connected")
        else:
            assert (await asyncio.to_thread(demo.frost, "tenant", "list")).code == 0
            await ui.expect_head("connected")
        assert demo.platform_pid() is not None


@pytest.mark.slow
async def test_the_cursor_returns_to_a_record_of_a_later_page(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = loaders.LOADERS["groups"]

    async def one_by_one(*about: Any) -> AsyncIterator[Sequence[Record]]:
        async for page in whole(*about):
            for record in page:
                yield [record]
                await asyncio.sleep(0.1)

    monkeypatch.setitem(loaders.LOADERS, "groups", one_by_one)
    async with opened(demo, monkeypatch) as ui:
        await ui.press("3", shows="3 groups")
        await ui.press("G")
        last = ui.under_cursor
        assert (await asyncio.to_thread(demo.frost, "login", "--as", "member@aurora.example")).code == 0
        await ui.press("r", head="member@aurora.example · session", shows="3 groups", cursor=last)


@pytest.fixture
def full_log(tmp_path: Path) -> DebugLog:
    """A log on a full disk."""
    log = DebugLog(str(tmp_path / "debug.log"))
    with Path("/dev/full").open("wb") as full:
        os.dup2(full.fileno(), log._file.fileno())
    return log


@pytest.mark.slow
async def test_a_log_on_a_full_disk_is_reported_once_and_loses_no_response(
    shared: Home, monkeypatch: pytest.MonkeyPatch, full_log: DebugLog
) -> None:
    async with opened(shared, monkeypatch, debug_log=full_log) as ui:
        await ui.expect_head("connected")
        await ui.expect_toast("No space left on device. The log is incomplete")
        await ui.press("6", shows="deploy-pipeline")
        assert sum("No space left" in message for message in ui._messages) == 1

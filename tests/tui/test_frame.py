"""The frame on the real platform: help, palette, prompt, history, sizes, connection and sign-in."""

import asyncio
import gc
import os
import warnings
from functools import partial

import pytest

from client.api import account
from client.auth import sign_in as auth_sign_in
from client.connection import Connection, resolve
from client.errors import Exit, FrostError
from tests.homes import Home
from tests.tui.screens import PATIENCE, SMALL, Ui, opened, sign_in_questions
from tui.launch import Launch
from tui.shell import actions
from tui.shell.app import FrostApp
from tui.state import preferences
from tui.state.context_state import Limits
from tui.tenants.screen import Tenants
from tui.widgets.detail import Detail


@pytest.mark.slow
@pytest.mark.parametrize("size", [(120, 50)])
async def test_help_and_palette_list_the_actions_and_are_searched(ui: Ui) -> None:
    await ui.expect("Data Lake")
    await ui.press("question_mark")
    await ui.expect(*(action.title for action in actions.of_scope("tenants", "list")))
    await ui.gone("Sign out")
    await ui.type("retries", shows="retries a lost connection", gone="Create tenant")
    await ui.press("escape", "5", "question_mark", shows="Sign out")
    await ui.press("escape", "1", shows="Data Lake")
    await ui.press("ctrl+p", shows=("Create tenant", "Go to contexts"))
    await ui.type("undo", shows="nothing to undo")
    await ui.press("backspace", "backspace", "backspace", "backspace")
    await ui.enter("go to con", shows=("Endpoint", "Credential"))
    await ui.pilot.press("ctrl+p", *"light", "enter")  # Enter right after the text runs the typed action
    await ui.until(lambda: ui.app.theme == "frost-light", "the light theme")
    await ui.expect_head("Web Shop")


@pytest.mark.slow
async def test_the_prompt_runs_completes_and_remembers_lines(demo_slow: Home, ui: Ui) -> None:
    await ui.expect_head("Web Shop")
    await ui.press("colon")
    await ui.type("use newsr", shows="use Newsroom")
    await ui.press("tab", "enter", head="Newsroom")
    await ui.press("colon", "up", shows=":use Newsroom")
    await ui.press("escape")
    await ui.command("contexts loc", shows=("Contexts", "1 of 1"))
    await ui.command("tenant use 'data lake'", head="Data Lake", shows="1 of 1")


@pytest.mark.slow
async def test_the_history_keeps_views_with_their_filters(ui: Ui) -> None:
    await ui.expect("Data Lake", "Local platform")
    # The hint of the first run is remembered at once: a kill may follow.
    await ui.until(lambda: ui.app.state_path.exists(), "the preferences")
    assert preferences.load(ui.app.state_path).hinted
    await ui.filter("news", cursor="Newsroom")
    await ui.filter("lake", shows="1 of 6", cursor="Data Lake")
    await ui.press("5", shows="Credential")
    await ui.press("left_square_bracket", shows="1 of 6")
    await ui.press("right_square_bracket", shows="Credential")
    await ui.press("right_square_bracket", toast="this is the latest screen")
    await ui.press("left_square_bracket", shows="1 of 6")
    lake = ui.screen.record.id
    for key, text in (("i", lake), ("1", f"frost tenant use {lake}")):
        await ui.press("y", key)
        await ui.until(lambda text=text: ui.app.clipboard == text, text)
    await ui.press("5", shows="Credential")
    await ui.press("1", shows="6 tenants")


async def test_details_have_the_focus_until_the_same_key_again(ui: Ui) -> None:
    await ui.expect("Data Lake", "Fullest quota")
    for focused in (True, False, True):
        await ui.press("d")
        await ui.until(lambda focused=focused: ui.screen.query_one(Detail).has_focus is focused, "the focus")
    await ui.press("+", gone="6 tenants", shows="Fullest quota")
    await ui.press("d", gone="Your role", shows="6 tenants")
    await ui.press("+", shows="Created")
    await ui.filter("nothing like this", shows="No matches")
    await ui.press("d", toast="Details: nothing is selected")
    await ui.press("enter", toast="Use tenant: nothing is selected")


async def test_replaced_work_never_begins(ui: Ui) -> None:
    begun = []

    async def work(number: int) -> None:
        begun.append(number)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(3):
            ui.app.spawn("the same name", partial(work, number))
        await ui.until(lambda: bool(begun), "the last one")
        gc.collect()
    assert begun == [2]
    assert not [one for one in caught if "never awaited" in str(one.message)]


@pytest.mark.slow
async def test_work_that_is_cancelled_before_it_begins_leaves_no_coroutine(ui: Ui) -> None:
    await ui.expect_head("connected")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ui.app.frame.perform("app.refresh")
        ui.app.workers.cancel_group(ui.app, "app.refresh")
        await ui.app.workspace.client()
        loading = asyncio.ensure_future(ui.app.workspace.load())
        await asyncio.sleep(0)  # its requests have tasks, which have not begun
        loading.cancel()
        await asyncio.wait({loading})
        await ui.pilot.pause()
        gc.collect()
    assert [str(one.message) for one in caught if "never awaited" in str(one.message)] == []


@SMALL
async def test_escape_never_quits_and_q_quits_at_the_root(monkeypatch: pytest.MonkeyPatch, ui: Ui) -> None:
    for key, words in (("2", "deployments"), ("1", "Data Lake")):
        await ui.press(key, shows=words)
        await ui.until(lambda: ui.text.splitlines()[-1].endswith("…  ? help  q quit"), "both at the end")
    await ui.press("escape", "escape")
    assert ui.app.is_running
    await ui.press("d", shows=("Fullest quota", "Created"))
    await ui.press("q", shows=("Data Lake", "Newsroom"))
    with monkeypatch.context() as without_primary_action:
        without_primary_action.setattr(Tenants, "PRIMARY", "list.detail")
        await ui.press("down", "enter", shows="Organization")
        await ui.press("escape", shows="Data Lake")
    await ui.press("ctrl+c", toast="q to quit.")
    await ui.press("q")
    await ui.until(lambda: not ui.app.is_running, "the end")


async def test_configured_keys_win_and_conflicts_are_reported(shared: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    shared.start()
    config = shared.config.read_text()
    shared.write_config(f"{config}keys:\n  tenants.create: a\n  app.copy: s\n  app.no: w\n")
    async with opened(shared, monkeypatch) as ui:
        await ui.expect("Data Lake", "a new")
        await ui.expect_toast("s now runs app.copy instead of list.sort")
        await ui.expect_toast("unknown action app.no")
        await ui.press("a", shows="Create a tenant")
        await ui.press("escape", "n")
        await ui.pilot.pause(0.3)
        await ui.gone("Create a tenant")
        await ui.press("s", shows="JSON")
        await ui.press("escape", gone="JSON")
        ui.app.workspace.tenants = []
        assert ui.screen.empty() == "You have no tenants yet; a to create one."
    shared.write_config(config)


@pytest.mark.parametrize("size", [(1, 1)])
async def test_the_frame_fits_from_60_by_16_and_names_the_needed_size(ui: Ui) -> None:
    for columns, rows in ((3, 2), (59, 24), (80, 15)):
        await ui.pilot.resize_terminal(columns, rows)
        if columns > 3:
            await ui.expect("frost needs 60 × 16", f"this is {columns} × {rows}")
    for columns, rows in ((80, 24), (60, 16), (100, 30), (200, 60)):
        await ui.pilot.resize_terminal(columns, rows)
        await ui.until(lambda rows=rows: len(ui.text.split("\n")) == rows, f"{rows} lines")
        await ui.see(shows=("Data Lake", "Newsroom", "? help"), head=("Web Shop", "owner@aurora.example", "connected"))
        await ui.until(lambda columns=columns: max(map(len, ui.text.split("\n"))) <= columns, f"{columns} columns")
        await ui.press("ctrl+t", shows=("Switch tenant", "Newsroom"))
        await ui.press("escape", gone="Switch tenant")
    await ui.pilot.click("Heading")
    await ui.press("g")
    first = ui.under_cursor
    await ui.press("j")
    await ui.until(lambda: ui.under_cursor != first, "a cursor that moved")
    await ui.press("e", shows="Rename tenant")


@pytest.mark.slow
async def test_a_lost_connection_keeps_the_rows_and_comes_back(
    demo_slow: Home, monkeypatch: pytest.MonkeyPatch, ui: Ui
) -> None:
    await ui.expect("Data Lake")
    with monkeypatch.context() as broken:
        broken.setattr(Connection, "start", lambda _: False)
        demo_slow.kill_platform()
        await ui.press("r", shows=("Data Lake", "not refreshed"), head="no response since")
        await ui.cursor_on("Newsroom")
    await ui.press("r", head="connected", cursor="Newsroom", gone="not refreshed")


async def test_a_platform_that_cannot_start_names_the_reason(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    demo.sign_in()
    assert (await asyncio.to_thread(demo.frost, "platform", "stop")).code == 0
    log = demo.platform_dir / "platform.log"
    log.unlink(missing_ok=True)
    log.symlink_to(demo.path / "elsewhere")
    async with opened(demo, monkeypatch) as ui:
        await ui.expect_head("no response since")
        await ui.expect("platform.log is a link", "not refreshed")
        log.unlink()
        await ui.press("r", head="connected")


async def test_the_first_hint_ends_and_the_sort_is_remembered(shared: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(shared, monkeypatch, limits=Limits(hint_seconds=0.1)) as ui:
        await ui.expect("Data Lake")
        await ui.until(lambda: "Local platform" not in ui.head, "a header without the hint")
        await ui.press("s", "s")
        await ui.until(lambda: ui.app.remembered.sort.get("tenants") == ["displayName", True], "the stored sort")
        path = ui.app.state_path
        await ui.press("q")
        await ui.until(lambda: not ui.app.is_running, "the end")
    assert preferences.load(path).sort["tenants"] == ["displayName", True]
    app = FrostApp(await asyncio.to_thread(resolve, os.environ), Launch(), path)
    async with app.run_test(size=(120, 36)) as pilot:
        await Ui(app, pilot).expect("Data Lake", "▼")
    assert preferences.load(path).sort["tenants"] == ["displayName", True]


@pytest.mark.slow
async def test_signing_out_asks_first_and_does_not_ask_to_sign_in(
    demo_slow: Home, ui: Ui, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, sign_out = asyncio.get_running_loop(), auth_sign_in.sign_out
    refusals: list[BaseException | None] = []

    def sign_out_and_send_a_request(connection: Connection) -> bool:
        has_ended = sign_out(connection)
        request = asyncio.run_coroutine_threadsafe(ui.app.workspace.ask(account.me()), loop)
        refusals.append(request.exception(PATIENCE))
        # The watch of the config file may see the end of the session first.
        asyncio.run_coroutine_threadsafe(ui.app.workspace._reload_config(retry=False), loop).result(PATIENCE)
        return has_ended

    monkeypatch.setattr(auth_sign_in, "sign_out", sign_out_and_send_a_request)
    await ui.expect_head("connected")
    await ui.press("5", "i", head="connected", toast="Signed in to local")
    await ui.press("o", shows=("Sign out?", "the session ends"))
    await ui.answer("enter", gone="Sign out?")
    assert (await asyncio.to_thread(demo_slow.frost, "tenant", "list")).code == 0
    await ui.press("o", shows="Sign out?")
    await ui.answer("y", head="not signed in", toast="Signed out of local")
    assert [error.exit_code for error in refusals if isinstance(error, FrostError)] == [Exit.NOT_SIGNED_IN]
    ui.app.workspace.end_hint()
    await ui.pilot.pause()
    await ui.gone("owner@")
    assert sign_in_questions(ui) == 0
    await ui.press("1", "n", toast="you signed out; r to sign in")
    await ui.press("r", shows="You are not signed in")

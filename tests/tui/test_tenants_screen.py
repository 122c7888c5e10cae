"""The tenants screen on the real platform."""

import asyncio
import threading

import pytest

from client.connection import Connection
from tests.homes import Home
from tests.tui.screens import READ_ONLY, SMALL, Ui, opened, shown
from tui.state import contexts, refresh

ENTER = "enter"
CHOSEN = ("Data Lake", "Staging")


@pytest.mark.slow
async def test_a_new_tenant_gets_the_cursor_and_shows_its_steps(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    demo.variables["FROST_PLATFORM_PROVISIONING_PACE"] = "2"
    async with opened(demo, monkeypatch) as ui:
        await ui.expect("Data Lake")
        await ui.filter("lake", shows="1 of 6")
        await ui.press("n", shows="Create a tenant")
        await ui.enter("Night Shift", shows=("7 tenants", "Provisioning", "billing account"), cursor="Night Shift")
        await ui.press("r")
        await ui.pilot.pause(0.5)
        await ui.expect_cursor("Night Shift")
        await ui.until(lambda: "◐ provisioning" in ui.text, "its status")
        await ui.press("5", shows="Endpoint", toast="Night Shift is ready")
        await ui.press("1", gone="◐")


@pytest.mark.slow
async def test_a_narrow_screen_shows_the_steps_of_a_new_tenant(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    demo.variables["FROST_PLATFORM_PROVISIONING_PACE"] = "2"
    async with opened(demo, monkeypatch, size=(80, 24)) as ui:
        await ui.expect("Data Lake")
        await ui.press("n")
        # The one organization in which the owner may create is named though it cannot be chosen.
        await ui.expect("Create a tenant in Aurora Labs")
        await ui.enter("Night Shift", shows=("night-shift", "Provisioning", "billing account"), gone="Data Lake")
        await ui.press("escape", shows="Data Lake", cursor="Night Shift")


@pytest.mark.slow
async def test_a_rename_is_undone(demo: Home, ui: Ui) -> None:
    await ui.expect("Data Lake")
    await ui.press("e", on="Data Lake", shows="Rename tenant")
    await ui.press("ctrl+a", "ctrl+k")
    await ui.enter("Data Ocean", shows="Data Ocean", toast="Renamed Data Lake to Data Ocean · z to undo")
    await ui.expect_cursor("Data Ocean")
    await ui.press("z", toast="Undone", cursor="Data Lake")
    assert demo.json("tenant", "list")["items"][0]["displayName"] == "Data Lake"


async def test_a_renamed_tenant_moves_to_its_place(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh, "REREAD_SECONDS", 3600.0)
    async with opened(demo, monkeypatch) as ui:
        await ui.expect("Data Lake")
        await ui.press("e", on="Data Lake", shows="Rename tenant")
        await ui.press("ctrl+a", "ctrl+k")
        await ui.enter("Zoo")
        await ui.until(lambda: shown(ui)[:4] == ["Sandbox", "Staging", "Web Shop", "Zoo"], "the new place")


@pytest.mark.slow
async def test_a_change_elsewhere_keeps_cursor_and_marks(demo_slow: Home, ui: Ui) -> None:
    await ui.expect("Data Lake")
    await ui.press("space", "k", on="Staging")
    web = next(t for t in ui.app.workspace.tenants if t["displayName"] == "Web Shop")
    result = await asyncio.to_thread(demo_slow.frost, "tenant", "rename", web["id"], "--name", "A Shop")
    assert result.code == 0, result
    await ui.press("r", shows=("A Shop", "1 marked"), cursor="Staging")


async def test_an_empty_name_and_a_member_are_refused(ui: Ui) -> None:
    await ui.expect("Data Lake")
    await ui.press("n", ENTER, shows="a name is required")
    await ui.press("escape", gone="Create a tenant")
    await ui.press("e", on="Newsroom", toast="only an owner or admin of Borealis Media can rename the tenant")


@pytest.mark.slow
async def test_the_filter_counts_and_is_cleared_by_escape(ui: Ui) -> None:
    await ui.expect("Data Lake")
    await ui.press("slash")
    await ui.type("organization:borealis !news", shows="1 of 6", cursor="Staging")
    await ui.press(ENTER)
    await ui.press("escape", shows="6 tenants")


@pytest.mark.slow
@SMALL
async def test_a_long_filter_shows_its_end_while_typing(ui: Ui) -> None:
    beginning, end = "/ organization:borealis", "!nobody !news"
    await ui.expect("Data Lake")
    await ui.press("slash")
    await ui.type("organization:borealis !nothing !somewhere !nobody !news", shows=("1 of 6", end), gone=beginning)
    await ui.press(ENTER, shows=beginning)
    await ui.press("slash", shows=end, gone=beginning)
    await ui.press("escape", shows="6 tenants")
    await ui.command("filter organization:borealis !nothing !somewhere !nobody !news", shows=("1 of 6", beginning))


@pytest.mark.slow
async def test_an_ambiguous_name_offers_a_choice(demo: Home, ui: Ui) -> None:
    await ui.expect("Data Lake")
    await ui.command("use staging")
    await ui.expect("Which staging?", "Staging · staging · Aurora Labs", "Staging · staging · Borealis Media")
    await ui.press("down", ENTER, head="Borealis Media › Staging")


@pytest.mark.slow
async def test_the_line_filters_and_sorts_the_list(ui: Ui) -> None:
    await ui.expect("Data Lake")

    async def enter(line: str) -> None:
        await ui.command(line)

    await enter("sort name")
    await ui.until(lambda: shown(ui)[0] == "Data Lake", "the first by name")
    await enter("sort name")
    await ui.until(lambda: shown(ui)[0] == "Web Shop", "the last by name")
    await enter("sort nothing")
    await ui.expect_toast("no column named nothing; columns: name, status")
    await enter("filter stag")
    await ui.expect("2 of 6")
    assert set(shown(ui)) == {"Staging"}


@pytest.mark.slow
async def test_the_switcher_and_the_tenant_before_keep_the_view(demo: Home, ui: Ui) -> None:
    await ui.expect("Data Lake")
    await ui.expect_head("Web Shop")
    await ui.press("slash")
    await ui.type("lake")
    await ui.press(ENTER, "ctrl+t", shows="Switch tenant")
    await ui.enter("newsroom", shows="1 of 6", head="Borealis Media › Newsroom")
    await ui.press("minus", head="Aurora Labs › Web Shop")
    await ui.press("minus", head="Newsroom")
    current = await asyncio.to_thread(demo.json, "tenant", "current")
    assert current["displayName"] == "Newsroom"


async def test_the_last_of_two_switches_is_stored(demo: Home, monkeypatch: pytest.MonkeyPatch, ui: Ui) -> None:
    written, later = contexts.remember_tenant, threading.Event()
    order: list[str] = []

    def on_a_slow_disk(connection: Connection, tenant_id: str) -> Connection:
        order.append(tenant_id)
        if len(order) == 1:
            later.wait(2)
        try:
            return written(connection, tenant_id)
        finally:
            later.set()

    await ui.expect("Data Lake")
    monkeypatch.setattr(contexts, "remember_tenant", on_a_slow_disk)
    workspace = ui.app.workspace
    ids = [str(next(one for one in workspace.tenants if one["displayName"] == name)["id"]) for name in CHOSEN]
    ui.app.frame.use_tenant(ids[0])
    await ui.until(lambda: order == ids[:1], "the first write")
    ui.app.frame.use_tenant(ids[1])
    await ui.expect_head(CHOSEN[1])
    await ui.until(lambda: len(order) == 2 and workspace.tenant_source == "context", "both writes")
    assert workspace.connection.context.tenant == ids[1]
    current = await asyncio.to_thread(demo.json, "tenant", "current")
    assert current["displayName"] == CHOSEN[1]


async def test_a_switch_that_cannot_be_stored_is_reported(demo: Home, ui: Ui) -> None:
    await ui.expect("Data Lake")
    good = demo.config.read_text() if demo.config.exists() else ""
    demo.config.write_text("contexts: [\n")
    await ui.switch("data lake")
    await ui.expect_toast("config.yaml")
    await ui.expect_head("not stored")
    demo.config.write_text(good)
    await ui.switch("data lake")
    await ui.until(lambda: "not stored" not in ui.head, "the tenant stored")
    current = await asyncio.to_thread(demo.json, "tenant", "current")
    assert current["displayName"] == "Data Lake"


@pytest.mark.slow
@READ_ONLY
async def test_read_only_screens_refuse_changes(shared: Home, ui: Ui) -> None:
    await ui.expect("Data Lake", "READ-ONLY", "n new")
    for key, title in (("n", "Create tenant"), ("e", "Rename tenant")):
        await ui.press(key, toast=f"{title}: frost was started with --read-only")
    await ui.command("create Something", toast="Create tenant: frost was started with --read-only")
    before = shared.config.read_bytes()
    await ui.press("5", shows=("Credential", "i sign in"))
    for key, title in (("e", "Edit endpoint and region"), ("i", "Sign in"), ("o", "Sign out")):
        await ui.press(key, toast=f"{title}: frost was started with --read-only")
    await ui.switch("newsroom")
    await ui.expect_toast("Switched only here")
    assert shared.config.read_bytes() == before


@pytest.mark.slow
async def test_names_with_markup_are_shown_as_text(demo: Home, ui: Ui) -> None:
    evil = "[/x][@click=app.exit]Web[/]"
    await ui.expect("Data Lake")
    web = next(t for t in ui.app.workspace.tenants if t["displayName"] == "Web Shop")
    await asyncio.to_thread(demo.frost, "tenant", "rename", web["id"], "--name", evil)
    await ui.press("r", head=evil)
    await ui.press("e", on=evil, shows="Rename tenant")
    await ui.press("escape", "ctrl+p")
    await ui.type("click", shows="Use tenant [/x]")
    await ui.press("escape", "y", shows="Copy")
    await ui.press("n")
    await ui.until(lambda: ui.app.clipboard == evil, "the name in the clipboard")
    assert ui.app.is_running

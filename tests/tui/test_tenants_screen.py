"""The tenants screen on the real platform."""

import asyncio
import threading

import pytest

from client.connection import Connection
from tests.homes import Home
from tests.people import DATA_LAKE, STAGING, WEB_SHOP
from tests.tui.screens import READ_ONLY, SIGNALS_ONLY, Ui, opened, with_key
from tui.state import contexts


@pytest.mark.slow
async def test_a_new_tenant_gets_the_cursor_and_shows_its_steps(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    demo.variables["FROST_PLATFORM_PROVISIONING_PACE"] = "2"
    async with opened(demo, monkeypatch) as ui:
        await ui.expect("Data Lake")
        await ui.filter("lake", shows="1 of 6")
        # The dialog names the only organization in which the owner may create tenants.
        await ui.press("n", shows=("Create a tenant in Aurora Labs", "Enter create · Esc cancel"))
        await ui.enter("Night Shift", shows=("7 tenants", "Provisioning", "billing account"), cursor="Night Shift")
        await ui.press("r")
        await ui.pilot.pause(0.5)
        await ui.expect_cursor("Night Shift")
        await ui.until(lambda: "◐ provisioning" in ui.text, "its status")
        await ui.press("5", shows="Endpoint", toast="Night Shift is ready")
        await ui.press("1", gone="◐")
        await ui.pilot.resize_terminal(80, 24)  # a narrow screen shows the steps in the place of the list
        await ui.press("n", shows="Create a tenant")
        await ui.enter("Day Shift", shows=("day-shift", "Provisioning", "billing account"), gone="Data Lake")
        await ui.press("escape", shows="Data Lake", cursor="Day Shift")


@with_key("compute-all")
async def test_a_key_without_the_scope_shows_its_identity_and_what_to_do(ui: Ui) -> None:
    await ui.expect_head(f"local › {WEB_SHOP}")
    await ui.expect_head("owner@aurora.example · API key")
    for screen in ("tenants", "default-tags"):
        await ui.command(screen)
        await ui.until(lambda screen=screen: screen == ui.screen.NAME, screen)
        await ui.expect("The API key lacks the organizations:read scope. Use a key", "or switch the context.")
        await ui.gone("0 tenants", "0 tags", "not refreshed", "refreshing")
    await ui.press("n", toast="New tag: this API key lacks the scope organizations:write")
    await ui.press("ctrl+t", shows="The API key lacks the organizations:read scope")
    await ui.press("escape", "8", shows=("Astrid Lindqvist", "Credential  API key", "1 organization", "Scopes"))
    assert "owner   create and rename tenants" in ui.row("Aurora Labs  ")  # without the unknown number of tenants


async def test_a_renamed_tenant_moves_to_its_place_and_is_undone(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(demo, monkeypatch, limits=SIGNALS_ONLY) as ui:
        await ui.expect("Data Lake")
        await ui.press("e", on="Data Lake", shows=("Rename tenant", "Enter save · Esc cancel"))
        await ui.replace("Zoo", toast="Renamed Data Lake to Zoo · z to undo", cursor="Zoo")
        view = ui.screen.table.view
        await ui.until(lambda: [one.display_name for one in view][2:4] == ["Web Shop", "Zoo"], "the new place")
        await ui.press("z", toast="Undone", cursor="Data Lake")
    assert demo.json("tenant", "list")["items"][0]["displayName"] == "Data Lake"


@pytest.mark.slow
async def test_an_empty_name_and_a_member_are_refused(ui: Ui) -> None:
    await ui.expect("Data Lake", "110% Bucket stor", "Bucket storage 27500")
    await ui.press("n", shows="for example: Web Shop")
    await ui.press("enter", shows="a name is required")
    await ui.press("escape", gone="Create a tenant")
    await ui.command("sort nothing", toast="no column named nothing; columns: name, status")
    await ui.press("e", on="Newsroom", toast="only an owner or admin of Borealis Media can rename the tenant")


def stored_tenant(home: Home) -> str:
    return str(home.json("tenant", "current")["displayName"])


@pytest.mark.slow
async def test_the_switcher_keeps_the_view_and_reports_what_it_cannot_store(demo: Home, ui: Ui) -> None:
    await ui.expect("Data Lake")
    await ui.expect_head("Web Shop")
    await ui.filter("lake")
    await ui.press("ctrl+t", shows="Switch tenant")
    await ui.enter("newsroom", shows="1 of 6", head="Borealis Media › Newsroom")
    await ui.press("minus", head="Aurora Labs › Web Shop")
    await ui.press("minus", head="Newsroom")
    assert await asyncio.to_thread(stored_tenant, demo) == "Newsroom"
    await ui.command("use staging")
    await ui.expect("Which staging?", "Staging · staging · Aurora Labs", "Staging · staging · Borealis Media")
    await ui.press("down", "enter", head="Borealis Media › Staging")
    good = demo.config.read_text()
    demo.config.write_text("contexts: [\n")
    await ui.switch("data lake")
    await ui.expect_toast("config.yaml")
    await ui.expect_head("not stored")
    demo.config.write_text(good)
    await ui.switch("data lake")
    await ui.until(lambda: "not stored" not in ui.head, "the tenant stored")
    assert await asyncio.to_thread(stored_tenant, demo) == "Data Lake"


@pytest.mark.slow
async def test_the_last_of_two_switches_is_stored(demo: Home, monkeypatch: pytest.MonkeyPatch, ui: Ui) -> None:
    store, later = contexts.remember_tenant, threading.Event()
    order: list[str] = []

    def on_a_slow_disk(connection: Connection, tenant_id: str) -> Connection:
        order.append(tenant_id)
        if len(order) == 1:
            later.wait(2)
        try:
            return store(connection, tenant_id)
        finally:
            later.set()

    await ui.expect("Data Lake")
    monkeypatch.setattr(contexts, "remember_tenant", on_a_slow_disk)
    workspace = ui.app.workspace
    ui.app.frame.use_tenant(DATA_LAKE)
    await ui.until(lambda: order == [DATA_LAKE], "the first write")
    ui.app.frame.use_tenant(STAGING)
    await ui.expect_head("Staging")
    await ui.until(lambda: len(order) == 2 and workspace.tenant_source == "context", "both writes")
    assert workspace.connection.context.tenant == STAGING
    assert await asyncio.to_thread(stored_tenant, demo) == "Staging"


@pytest.mark.slow
@READ_ONLY
async def test_read_only_screens_refuse_changes(shared: Home, ui: Ui) -> None:
    await ui.expect("Data Lake", "READ-ONLY", "n new")
    for key, title in (("n", "Create tenant"), ("e", "Rename tenant")):
        await ui.press(key, toast=f"{title}: frost was started with --read-only")
    await ui.command("create Something", toast="Create tenant: frost was started with --read-only")
    await ui.press("ctrl+p")
    await ui.type("new group", shows=("New group", "frost was started with --read-only"))
    await ui.press("escape")
    before = shared.config.read_bytes()
    await ui.press("5", shows=("Credential", "i sign in"))
    for key, title in (("e", "Edit endpoint and region"), ("i", "Sign in"), ("o", "Sign out")):
        await ui.press(key, toast=f"{title}: frost was started with --read-only")
    await ui.switch("newsroom")
    await ui.expect_toast("Switched only here")
    assert shared.config.read_bytes() == before

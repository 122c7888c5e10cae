"""The API keys screen on the real platform: what is seen of a key, and how one is ended."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from client import times
from tests.acceptance.people import OUTSIDER, WEB_SHOP
from tests.homes import Home
from tests.tui.screens import opened, use_key
from tui.account import key_tables
from tui.launch import Launch

ENTER = "enter"
EVIL = "[/x] nightly 🌙"
NOW = datetime(2026, 11, 21, 10, 5, tzinfo=UTC)


def key(**members: object) -> dict[str, object]:
    made = {"status": "active", "createdAt": "2026-01-01T00:00:00Z", "expiresAt": "2027-11-21T10:05:00Z"}
    return {"id": "k", "name": "k", "lastUsedAt": None, **made, **members}


@pytest.fixture
def standing_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROST_CLOCK", "2026-11-21T10:05:00Z")


@pytest.mark.parametrize(
    ("left", "span", "drawn"),
    [
        (timedelta(days=30), timedelta(days=30), "━━━━━━━━"),
        (timedelta(days=15), timedelta(days=30), "━━━━····"),
        (timedelta(seconds=1), timedelta(days=731), "╸·······"),
        (timedelta(), timedelta(days=30), "········"),
        (timedelta(days=-3), timedelta(days=30), "········"),
        (timedelta(days=40), timedelta(days=30), "━━━━━━━━"),
    ],
)
def test_a_bar_is_read_by_its_length_alone(left: timedelta, span: timedelta, drawn: str) -> None:
    assert key_tables.bar(left, span) == drawn


@pytest.mark.usefixtures("standing_clock")
def test_the_axis_is_the_shortest_that_holds_every_active_key() -> None:
    assert key_tables.axis([]).label == "30 days"
    assert key_tables.axis([key(expiresAt="2026-12-21T10:05:00Z")]).label == "30 days"
    assert key_tables.axis([key(expiresAt="2026-12-21T10:05:01Z")]).label == "90 days"
    assert key_tables.axis([key()]).label == "1 year"
    assert key_tables.axis([key(), key(expiresAt="2028-11-21T10:05:00Z")]).label == "2 years"
    assert key_tables.axis([key(expiresAt="2028-11-21T10:05:00Z", status="revoked")]).label == "30 days"


@pytest.mark.usefixtures("standing_clock")
@pytest.mark.parametrize(
    ("record", "unused", "words"),
    [
        (key(), True, "○ never"),
        (key(createdAt="2026-11-21T01:00:00Z"), False, "  never"),
        (key(lastUsedAt="2026-08-01T00:00:00Z"), True, "○ 112d"),
        (key(lastUsedAt="2026-11-21T10:00:00Z"), False, "  5m"),
        (key(status="revoked"), False, "  never"),
    ],
)
def test_a_key_that_works_and_that_nobody_uses_is_marked(record: dict[str, object], unused: bool, words: str) -> None:
    assert key_tables.unused(record) is unused
    assert key_tables.used_text(record) == words
    assert times.now() == NOW


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_own_keys_of_every_tenant_with_state_bar_and_use_are_in_sight(
    shared: Home, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    async with opened(shared, monkeypatch, size=size) as ui:
        await ui.press("6")
        await ui.expect("16 API keys", "bars span 2 years", "Status", "Expires", "Idle", "old-deploy")
        row = ui.row("old-deploy")
        assert "expired" in row
        assert "45d ago" in row
        assert "━" not in row
        assert "active" in ui.row("notebook-rea")
        assert ui.row("notebook-rea").count("━") > ui.row("deploy-pipel").count("━")
        assert "○ never" in ui.row("compute-all")
        assert "Newsroom" in ui.row("newsroom-reader")
        await ui.press("slash")
        await ui.type("used:never !status:expired")
        await ui.expect("3 of 16")
        await ui.press(ENTER)
        await ui.gone("status-page")


@pytest.mark.slow
async def test_the_details_say_what_each_scope_permits_and_what_the_key_belongs_to(
    shared: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(shared, monkeypatch) as ui:
        await ui.press("6")
        await ui.expect("mixed-forms")
        await ui.cursor_on("mixed-forms")
        await ui.expect(
            "compute:read", "21 operations", "compute:instances:start", "compute:instances:start  unenforced"
        )
        await ui.expect("requests a minute", "Prefix", "fmk_", "Astrid Lindqvist", "In groups")
        await ui.cursor_on("deploy-pipeline")
        await ui.expect("deployers")
        await ui.cursor_on(EVIL)  # a key of another tenant: its own groups are shown, and its scopes there
        await ui.expect("functions:*", "15 operations", "Staging")
        await ui.press("w")
        await ui.expect_toast("this key belongs to Staging: use that tenant first")
        await ui.cursor_on("deploy-pipeline")
        await ui.press(ENTER)
        await ui.expect("What deploy-pipeline may do")
        await ui.press("escape")
        await ui.expect("16 API keys")
        await ui.expect_cursor("deploy-pipeline")


async def test_the_navigation_marks_the_place_from_which_the_access_view_was_entered(
    shared: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(shared, monkeypatch) as ui:
        await ui.press("6")
        await ui.expect("deploy-pipeline", "▌6 API keys")
        await ui.cursor_on("deploy-pipeline")
        await ui.press(ENTER)
        await ui.expect("What deploy-pipeline may do", "▌6 API keys")
        assert ui.app.workspace.state.screen == "api-keys"
        await ui.press("escape")
        await ui.expect("16 API keys", "▌6 API keys")
        await ui.press("left_square_bracket")
        await ui.expect("What deploy-pipeline may do", "▌6 API keys")
        await ui.switch("data lake")
        await ui.expect("16 API keys", "▌6 API keys")
        await ui.press("3")
        await ui.expect("▌3 Groups")


async def test_enter_and_the_letter_both_refuse_the_access_of_a_key_of_another_tenant(
    shared: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(shared, monkeypatch) as ui:
        await ui.press("6")
        await ui.expect("deploy-pipeline")
        await ui.switch("data lake")
        await ui.cursor_on("deploy-pipeline")
        for key in ("w", ENTER):
            await ui.press(key)
            await ui.expect_toast("Access: this key belongs to Web Shop: use that tenant first")
            await ui.expect("16 API keys")
        await ui.type(":api-keys.access deploy-pipeline")
        await ui.press(ENTER)
        await ui.expect_toast("this key belongs to Web Shop: use that tenant first")
        assert ui.app.frame.current is not None
        assert ui.app.frame.current.NAME == "api-keys"


@pytest.mark.slow
async def test_revoking_asks_with_no_first_and_the_key_is_refused_at_once(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(demo, monkeypatch, size=(80, 24)) as ui:
        await ui.press("6")
        await ui.expect("tenant-reader")
        await ui.cursor_on("tenant-reader")
        await ui.press("v")
        await ui.expect("Revoke API key?", "a93f32a9", "Web Shop", "the next request with it is refused; it cannot")
        await ui.heard()
        await ui.press(ENTER)
        await ui.until(lambda: "Revoke API key?" not in ui.text, "the question gone")
        secret = demo.world_key("tenant-reader")
        assert demo.request("GET", "/api/v1/tenants", key=secret).status == 200
        await ui.press("v")
        await ui.expect("Revoke API key?")
        await ui.heard()
        await ui.press("y")
        await ui.expect_toast("Revoked tenant-reader")
        assert demo.request("GET", "/api/v1/tenants", key=secret).status == 401
        await ui.until(lambda: "revoked" in ui.row("tenant-reader"), "its state")
        await ui.press("v")
        await ui.expect_toast("Revoke API key: it is revoked already")
        await ui.press("o")
        await ui.expect_toast("only an active key can be rotated; this one is revoked")
        await ui.press("z")
        await ui.expect_toast("revoking an API key cannot be undone")


@pytest.mark.slow
async def test_marked_keys_are_deleted_together_and_are_gone_for_good(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(demo, monkeypatch) as ui:
        await ui.press("6")
        await ui.expect("quota-bot")
        await ui.cursor_on("quota-bot")
        await ui.press("space", "space", "delete")
        await ui.expect("Delete 2 API keys?", "quota-bot, tenant-writer", "In use", "2 of them")
        await ui.heard()
        await ui.press("y")
        await ui.expect_toast("Deleted 2 API keys")
        await ui.expect("14 API keys")
        await ui.gone("quota-bot")
        left = {one["name"] for one in (await asyncio.to_thread(demo.json, "account", "api-key", "list"))["items"]}
        assert left.isdisjoint({"quota-bot", "tenant-writer"})


async def test_a_key_that_was_never_used_is_not_counted_as_in_use_however_young_it_is(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo.json("account", "api-key", "create", "--name", "young", "--scopes", "dns:read")
    async with opened(demo, monkeypatch, size=(80, 24)) as ui:
        await ui.press("6")
        await ui.expect("17 API keys")
        for name in ("young", "status-page"):
            await ui.cursor_on(name)
            await ui.press("space")
        await ui.press("v")
        await ui.expect("Revoke 2 API keys?", "young, status-page", "1 of them")


async def test_the_longest_idle_keys_stand_last_and_downwards_those_never_used_first(
    shared: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(shared, monkeypatch) as ui:
        await ui.press("6")
        await ui.expect("16 API keys")
        assert ui.app.frame.current is not None
        view = ui.app.frame.current.table.view
        ui.app.frame.current.do_sort("idle")
        await ui.expect("Idle ▲")
        names = [str(view[index]["name"]) for index in range(16)]
        assert (names[0], names[12]) == ("status-page", "old-deploy")
        assert set(names[13:]) == {EVIL, "compute-all", "newsroom-writer"}
        ui.app.frame.current.do_sort("idle")
        await ui.expect("Idle ▼")
        assert str(view[3]["name"]) == "old-deploy"


async def test_who_may_enter_no_tenant_is_not_told_to_make_a_key(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    demo.sign_in(OUTSIDER)
    async with opened(demo, monkeypatch, size=(80, 24)) as ui:
        await ui.expect_head(OUTSIDER)
        await ui.press("6")
        await ui.expect("You have no API key. A key belongs to a tenant, and none is")


@pytest.mark.slow
async def test_a_context_whose_key_is_refused_is_not_asked_to_sign_in(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo.sign_in()
    person, secret = demo.token(), demo.world_key("tenant-reader")
    assert (await asyncio.to_thread(demo.frost, "config", "set", "api_key", "-", stdin=f"{secret}\n")).code == 0
    async with opened(demo, monkeypatch, size=(80, 24)) as ui:
        await ui.expect_head("API key")
        await ui.expect_head("Web Shop")
        path = f"/api/v1/tenants/{WEB_SHOP}/api-keys/a93f32a9-a172-4102-8e4e-dc90253d9e30/revoke"
        assert demo.request("POST", path, token=person).status == 200
        for _ in range(2):  # the second time it is still the key: nothing signed in meanwhile
            await ui.press("r")
            await ui.expect("The API key is refused", "revoked, expired", "frost config set api_key -", "y Contexts")
            await ui.expect_head("API key refused · r retry")
            await ui.press("escape")
            await ui.until(lambda: "The API key is refused" not in ui.text, "the words gone")
        await ui.press("r")
        await ui.expect("The API key is refused")
        await ui.heard()
        await ui.press(ENTER)
        await ui.until(
            lambda: ui.app.frame.current is not None and ui.app.frame.current.NAME == "contexts", "the contexts"
        )


async def test_in_a_read_only_start_the_keys_stay_and_say_why(shared: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(shared, monkeypatch, launch=Launch(read_only=True)) as ui:
        await ui.press("6")
        await ui.expect("tenant-reader", "n new")
        for press, title in (("n", "New API key"), ("o", "Rotate API key"), ("delete", "Delete API key")):
            await ui.press(press)
            await ui.expect_toast(f"{title}: frost was started with --read-only")


async def test_with_an_api_key_the_places_say_that_a_person_is_needed(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    await use_key(demo, "tenant-reader")
    async with opened(demo, monkeypatch) as ui:
        await ui.expect_head("API key")
        for digit, press, title in (("6", "n", "New API key"), ("7", "delete", "End every session")):
            await ui.press(digit)
            await ui.expect("This context works with an API key", "signed-in user.")
            await ui.gone("0 API keys")
            await ui.gone("0 sessions")
            await ui.press(press)
            await ui.expect_toast(f"{title}: this context works with an API key")
        await ui.press("8")
        await ui.expect("Works with  API key, ends", "Scopes      organizations:read", "Aurora Labs")
        await ui.press("delete")
        await ui.expect_toast("Delete account: this context works with an API key")


@pytest.mark.slow
async def test_a_name_full_of_markup_stands_in_every_dialog_as_it_is(
    shared: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(shared, monkeypatch, size=(80, 24)) as ui:
        await ui.press("6")
        await ui.expect(EVIL)
        await ui.cursor_on(EVIL)
        for press, words in (
            ("e", f"Change API key {EVIL} in Staging"),
            ("o", f"Rotate {EVIL}"),
            ("v", "Revoke API key?"),
            ("delete", "Delete API key?"),
        ):
            await ui.press(press)
            await ui.expect(words, "[/x] nightly")
            await ui.press("escape")
            await ui.until(lambda words=words: words not in ui.text, "the dialog gone")  # type: ignore[misc]
        assert ui.app.is_running


async def test_the_palette_writes_API_keys_as_everybody_does_and_each_action_on_one_line(
    shared: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(shared, monkeypatch, size=(80, 24)) as ui:
        await ui.expect_head("connected")
        await ui.press("ctrl+p")
        await ui.type("api")
        await ui.expect("Go to API keys", "In API keys: ")
        assert "In API keys: Name, description" in ui.row("Change API key")
        await ui.press("escape", "6")
        await ui.expect("16 API keys")
        await ui.press("y")
        await ui.expect("command: new API key")


async def test_the_palette_finds_a_key_by_its_name(shared: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(shared, monkeypatch) as ui:
        await ui.press("6")
        await ui.expect("status-page")
        await ui.press("1")
        await ui.expect("Data Lake")
        await ui.press("ctrl+p")
        await ui.type("status-p")
        await ui.expect("Show API key status-page")
        await ui.press(ENTER)
        await ui.expect("1 of 16")
        await ui.expect_cursor("status-page")

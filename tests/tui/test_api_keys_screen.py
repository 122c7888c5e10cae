"""The API keys screen: list, details, revocation and deletion."""

import asyncio
from datetime import timedelta

import pytest

from client.models.account import ApiKey
from tests.homes import Home
from tests.people import OUTSIDER, WEB_SHOP
from tests.tui.screens import SMALL, Ui, opened, signed_in, use_key, with_key
from tui.account import key_tables
from tui.account.api_keys import _facts_of_several

EVIL = "[/x] nightly 🌙"


def key(**members: object) -> ApiKey:
    made = {"status": "active", "createdAt": "2026-01-01T00:00:00Z", "expiresAt": "2027-11-21T10:05:00Z"}
    return ApiKey.model_validate({"id": "k", "name": "k", "lastUsedAt": None, **made, **members})


def test_a_bar_is_read_by_its_length_alone() -> None:
    for left, days, line in (
        (30, 30, "━" * 8),
        (15, 30, "━━━━····"),
        (0, 30, "·" * 8),
        (-3, 30, "·" * 8),
        (40, 30, "━" * 8),
    ):
        assert key_tables.bar(timedelta(days=left), timedelta(days=days)) == line
    assert key_tables.bar(timedelta(seconds=1), timedelta(days=731)) == "╸·······"


def test_the_axis_holds_every_active_key_and_an_unused_one_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROST_CLOCK", "2026-11-21T10:05:00Z")
    late = "2028-11-21T10:05:00Z"
    for keys, label in (
        ([], "30 days"),
        ([key(expiresAt="2026-12-21T10:05:00Z")], "30 days"),
        ([key(expiresAt="2026-12-21T10:05:01Z")], "90 days"),
        ([key()], "1 year"),
        ([key(), key(expiresAt=late)], "2 years"),
        ([key(expiresAt=late, status="revoked")], "30 days"),
    ):
        assert key_tables.axis(keys).label == label
    for record, is_unused, text in (
        (key(), True, "○ never"),
        (key(createdAt="2026-11-21T01:00:00Z"), False, "  never"),
        (key(lastUsedAt="2026-08-01T00:00:00Z"), True, "○ 112d"),
        (key(lastUsedAt="2026-11-21T10:00:00Z"), False, "  5m"),
        (key(status="revoked"), False, "  never"),
    ):
        assert (key_tables.is_unused(record), key_tables.used_text(record.wire())) == (is_unused, text)


@pytest.mark.slow
async def test_details_show_scopes_tenant_and_groups(ui: Ui) -> None:
    await ui.press("6", shows="mixed-forms")
    await ui.cursor_on("mixed-forms")
    await ui.expect("compute:read", "21 operations", "compute:instances:start", "compute:instances:start  unenforced")
    await ui.expect("Rate limit", "per minute", "Prefix", "fmk_", "Astrid Lindqvist", "In groups")
    await ui.cursor_on("compute-all")
    await ui.until(lambda: any(line.endswith("Last used   never") for line in ui.text.splitlines()), "its use")
    await ui.cursor_on("deploy-pipeline")
    await ui.expect("deployers")
    await ui.cursor_on(EVIL)  # a key of another tenant: its own groups are shown, and its scopes there
    await ui.expect("functions:*", "15 operations", "Staging")
    await ui.press("w", toast="this key belongs to Staging: use that tenant first")
    view = ui.screen.table.view
    ui.screen.do_sort("idle")
    await ui.expect("Idle ▲")
    names = [view[index].name for index in range(16)]
    assert (names[0], names[12]) == ("status-page", "old-deploy")
    assert set(names[13:]) == {EVIL, "compute-all", "newsroom-writer"}
    ui.screen.do_sort("idle")
    await ui.expect("Idle ▼")
    assert view[3].name == "old-deploy"
    await ui.filter("status:expired !newsroom !zzz", shows=("/ status:expired !newsroom !zzz", "of 16"))
    await ui.press("escape")
    assert ui.screen.copies()  # the texts for a copy do not change the scale of the bars
    ui.screen.do_sort("name")
    await ui.expect("Name ▲", "bars span 2 years")


@pytest.mark.slow
@SMALL
async def test_keys_are_revoked_and_deleted_after_a_question(demo: Home, ui: Ui) -> None:
    await ui.press("6", shows="tenant-reader")
    await ui.press("v", on="tenant-reader")
    await ui.expect("Revoke API key?", "a93f32a9", "Web Shop", "the next request with this key is denied")
    await ui.answer("enter", gone="Revoke API key?")
    secret = demo.world_key("tenant-reader")
    assert demo.request("GET", "/api/v1/tenants", key=secret).status == 200
    await ui.press("v", shows="Revoke API key?")
    await ui.answer("y", toast="Revoked API key tenant-reader")
    assert demo.request("GET", "/api/v1/tenants", key=secret).status == 401
    await ui.until(lambda: "revoked" in ui.row("tenant-reader"), "its state")
    await ui.press("v", toast="Revoke API key: the key is already revoked")
    await ui.press("o", toast="only an active key can be rotated; this one is revoked")
    await ui.press("z", toast="revoking an API key cannot be undone")
    await ui.press("space", on="quota-bot")
    await ui.press("space", on="tenant-writer")
    await ui.press("delete", shows=("Delete 2 API keys?", "quota-bot, tenant-writer", "In use", "2 of them"))
    await ui.answer("y", shows="14 API keys", toast="Deleted 2 API keys", gone="quota-bot")
    names = {one["name"] for one in (await asyncio.to_thread(demo.json, "account", "api-key", "list"))["items"]}
    assert names.isdisjoint({"quota-bot", "tenant-writer"})


async def test_a_key_that_was_never_used_is_not_in_use(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    demo.json("account", "api-key", "create", "--name", "young", "--scopes", "dns:read")
    async with opened(demo, monkeypatch, size=(80, 24)) as ui:
        await ui.press("6", shows="17 API keys")
        for name in ("young", "status-page"):
            await ui.press("space", on=name)
        await ui.press("v", shows=("Revoke 2 API keys?", "young, status-page", "1 of them"))


def test_marked_keys_with_equal_names_have_their_prefix() -> None:
    twins = [key(id=prefix, name="twin", keyPrefix=prefix) for prefix in ("fmk_a", "fmk_b")]
    other = key(id="o", name="other", keyPrefix="fmk_c")
    for marked, text in (
        ([*twins, other], "twin (fmk_a), twin (fmk_b), other"),
        ([twins[1], other], "twin (fmk_b), other"),
    ):
        assert dict(_facts_of_several(marked, [*twins, other]))["Keys"] == text


@signed_in(OUTSIDER)
@SMALL
async def test_a_user_without_a_tenant_is_not_offered_a_key(demo: Home, ui: Ui) -> None:
    await ui.expect_head(OUTSIDER)
    await ui.press("6", shows="You have no API key. A key belongs to a tenant, and you have")


@pytest.mark.slow
async def test_a_context_whose_key_is_refused_is_not_asked_to_sign_in(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo.sign_in()
    person = demo.token()
    await use_key(demo, "tenant-reader")
    async with opened(demo, monkeypatch, size=(80, 24)) as ui:
        await ui.expect_head("API key")
        await ui.expect_head("Web Shop")
        path = f"/api/v1/tenants/{WEB_SHOP}/api-keys/a93f32a9-a172-4102-8e4e-dc90253d9e30/revoke"
        assert demo.request("POST", path, token=person).status == 200
        for _ in range(2):  # the context still has the key the second time, as no user signed in
            await ui.press("r")
            await ui.expect("API key rejected", "revoked, expired", "frost config set api_key -", "y contexts")
            await ui.expect_head("API key rejected · r retry")
            await ui.press("escape", gone="frost config set api_key -")
        await ui.press("r", shows="API key rejected")
        await ui.answer("enter")
        await ui.until(lambda: ui.screen.NAME == "contexts", "the contexts")


@with_key("tenant-reader")
async def test_account_screens_need_a_user_not_an_api_key(ui: Ui) -> None:
    await ui.expect_head("API key")
    for digit, press, title in (("6", "n", "New API key"), ("7", "delete", "End all sessions")):
        await ui.press(digit, shows=("This context works with an API key", "signed-in user."))
        await ui.gone("0 API keys", "0 sessions")
        await ui.press(press, toast=f"{title}: this context works with an API key")
    await ui.press("8", shows=("Credential  API key, ends", "Scopes      organizations:read", "Aurora Labs"))
    await ui.press("delete", toast="Delete account: this context works with an API key")


@pytest.mark.slow
@SMALL
async def test_dialogs_and_the_palette_show_the_names_of_keys(ui: Ui) -> None:
    await ui.expect_head("connected")
    await ui.press("ctrl+p")
    await ui.type("api", shows=("Go to API keys", "In API keys: "))
    assert "In API keys: Change name" in ui.row("Edit API key")
    await ui.press("escape", "6", shows="16 API keys")
    await ui.press("e", on=EVIL, shows=f"Edit API key {EVIL} in Staging")
    await ui.press("escape", gone="Edit API key")
    await ui.press("1", shows="Data Lake")
    await ui.press("ctrl+p")
    await ui.type("status-p", shows="Show API key status-page")
    await ui.press("enter", shows="1 of 16", cursor="status-page")

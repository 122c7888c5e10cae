"""The activity screen on the real platform: what was done, by whom, what hangs on it; and who is told why not."""

import pytest

from tests.acceptance.people import AURORA, MEMBER, OWNER, WEB_SHOP
from tests.homes import Home
from tests.service.access import allow
from tests.tui.screens import Ui, opened
from tui.activity.screen import facts_of, label, of_entry
from tui.shell.bars import Footer
from tui.shell.command_line import candidates
from tui.state import list_store
from tui.widgets.record_table import RecordTable

ENTER = "enter"


async def activity(ui: Ui) -> Ui:
    await ui.expect_head("Web Shop")
    await ui.press("colon")
    await ui.type("activity")
    await ui.press(ENTER)
    return await ui.expect("Activity", "entries")


def rename(home: Home, name: str) -> None:
    answer = home.request("PATCH", f"/api/v1/tenants/{WEB_SHOP}", token=home.token(), body={"displayName": name})
    assert answer.status == 200, answer


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_entries_are_listed_with_who_what_and_target_and_their_facts_beside_them(
    shared: Home, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    async with opened(shared, monkeypatch, size=size) as ui:
        await activity(ui)
        await ui.expect("policy.attach", "Astrid Li", "contracto")
        await ui.press("slash")
        await ui.type("what:policy.attach contractor")
        await ui.press(ENTER)
        await ui.expect("1 of 40")
        await ui.press(ENTER)
        await ui.expect("Sam Okafor", "no longer a member", "About", "contractor access", "Attachee type", "Request id")


@pytest.mark.slow
async def test_new_entries_come_on_top_and_the_cursor_stays_on_its_own(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo.sign_in()
    async with opened(demo, monkeypatch) as ui:
        await activity(ui)
        await ui.expect("contracto")
        await ui.press("j", "j")
        screen = ui.app.frame.current
        assert screen is not None
        assert screen.record is not None
        before = screen.record["id"]
        rename(demo, "Web [/x] Shop")
        await ui.press("r")
        await ui.expect("41 entries")
        assert screen.record["id"] == before
        await ui.expect("1 newer ↑")
        await ui.press("g")
        await ui.until(lambda: "newer" not in ui.text, "no mark")
        await ui.expect("tenant.rename", "Web [/x] ", "Web Shop → Web [/x]", "Outcome", "done")


@pytest.mark.slow
async def test_a_cursor_on_the_newest_entry_follows_to_the_one_that_comes(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo.sign_in()
    async with opened(demo, monkeypatch, size=(80, 24)) as ui:
        await activity(ui)
        await ui.expect("contracto")
        rename(demo, "Followed")
        await ui.press("r")
        await ui.expect("41 entries", "tenant.rename")
        await ui.until(lambda: ui.under_cursor == "tenant.rename", "the cursor on it")
        await ui.gone("newer")


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_what_was_done_is_whole_and_others_give_way(
    shared: Home, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    async with opened(shared, monkeypatch, size=size) as ui:
        await activity(ui)
        await ui.expect("workload_identity.create", "default/", "Target")


@pytest.mark.slow
async def test_who_signs_in_instead_finds_nothing_of_the_former_persons_entries_and_no_way_on(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo.sign_in(OWNER)
    async with opened(demo, monkeypatch) as ui:
        await activity(ui)
        await ui.expect("contracto")
        demo.sign_in(MEMBER)
        await ui.press("r")
        await ui.expect("Only an owner or admin of the organization sees what was done")
        await ui.gone("contracto")

        def offered() -> set[str]:
            return {one.label for one in ui.app.frame.query_one(Footer).keys if one.enabled}

        await ui.until(lambda: not offered() & {"target", "organization"}, "no way on")


@pytest.mark.slow
async def test_an_entry_leads_to_what_it_is_about_and_a_thing_to_its_entries(
    shared: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(shared, monkeypatch) as ui:
        await activity(ui)
        await ui.press("slash")
        await ui.type("what:policy.create contractor")
        await ui.press(ENTER)
        await ui.expect("1 of 40")
        await ui.press("t")
        await ui.expect("Policies")
        await ui.until(lambda: ui.under_cursor == "contractor access", "the policy under the cursor")
        await ui.press("A")
        await ui.expect("Activity of contractor access", "2 entries", "policy.create", "policy.attach")
        await ui.press("y")
        await ui.expect("command: show entry")
        await ui.press(*["down"] * 4)
        await ui.expect("frost tenant activity --target", "policy:")
        await ui.press("escape", "escape")
        await ui.expect("Policies")
        await ui.expect_cursor("contractor access")
        await ui.press("4", "A")
        await ui.expect_toast("the activity log has no entries about this record")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("api_key.create monitoring-agent", "not one of your keys"),
        ("policy.create gone policy", "no longer there"),
        ("group.create gone group", "no longer there"),
    ],
)
async def test_what_the_place_does_not_list_is_not_gone_to_and_one_is_told_why(
    demo: Home, monkeypatch: pytest.MonkeyPatch, entry: str, words: str
) -> None:
    if "gone" in entry:  # it goes while its entry is shown
        kind, name = ("policies", "gone policy") if "policy" in entry else ("groups", "gone group")
        document = {"schemaVersion": "1", "rules": [allow("compute:*:read")]}
        body = {"name": name, **({"document": document} if kind == "policies" else {})}
        made = demo.request("POST", f"/api/v1/tenants/{WEB_SHOP}/iam/{kind}", token=demo.sign_in(OWNER), body=body)
        assert made.status == 201, made
    async with opened(demo, monkeypatch) as ui:
        await activity(ui)
        await ui.press("slash")
        await ui.type(entry)
        await ui.press(ENTER)
        await ui.expect("1 of 4")
        if "gone" in entry:
            path = f"/api/v1/tenants/{WEB_SHOP}/iam/{kind}/{made.json()['id']}"
            assert demo.request("DELETE", path, token=demo.token()).status in (200, 204)
        await ui.press("t")
        await ui.expect_toast(words)
        assert ui.app.frame.current is not None
        assert ui.app.frame.current.NAME == "activity"


async def test_the_organizations_own_entries_are_a_key_away_and_esc_leads_back(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = demo.sign_in(MEMBER)
    body = {"displayName": "Mine"}
    assert demo.request("POST", f"/api/v1/organizations/{AURORA}/tenants", token=token, body=body).status == 403
    demo.sign_in(OWNER)
    async with opened(demo, monkeypatch) as ui:
        await activity(ui)
        await ui.press("o")
        await ui.expect("Activity of Aurora Labs, outside of its tenants", "tenant.create", "✗")
        await ui.press(ENTER)
        await ui.expect("Refused", "PERMISSION_DENIED (403)", "Aurora Labs")
        await ui.press("escape", "escape")
        await ui.expect("40 entries")


@pytest.mark.slow
async def test_who_may_not_read_it_is_told_why_and_nothing_is_asked(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo.sign_in(MEMBER)
    async with opened(demo, monkeypatch) as ui:
        await ui.expect_head("Web Shop")
        await ui.press("colon")
        await ui.type("activity")
        await ui.press(ENTER)
        await ui.expect("Only an owner or admin of the organization sees what was done")
        await ui.gone("0 entries")
        await ui.press("2", "A")
        await ui.expect_toast("only an owner or admin of the organization sees its activity")


async def test_only_the_newest_are_read_until_older_ones_are_wanted(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_store, "NEWEST", 10)
    monkeypatch.setattr("client.transport.call.MAX_PAGE_SIZE", 10)
    async with opened(demo, monkeypatch) as ui:
        await ui.expect_head("Web Shop")
        await ui.press("colon")
        await ui.type("activity")
        await ui.press(ENTER)
        await ui.expect("10 entries", "the newest ones, m reads older")
        await ui.press("m")
        await ui.expect("20 entries", "the newest ones")
        await ui.press("G")
        await ui.expect("40 entries")
        table = ui.app.frame.current.query_one(RecordTable)  # type: ignore[union-attr]
        assert table.cursor == 19


async def test_tab_offers_of_the_activity_what_can_be_done_there(shared: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(shared, monkeypatch) as ui:
        await ui.expect_head("Web Shop")

        def offered() -> list[str]:
            return candidates(ui.app.workspace, "activity", ui.app.frame.action_context())

        assert offered() == ["activity", "activity.older", "activity.organization", "app.activity"]
        await activity(ui)
        await ui.expect("contracto")
        assert "activity.target" in offered()
        assert not [one for one in offered() if one.startswith(("activity-of", "organization-activity"))]
        await ui.press("o")
        await ui.expect("outside of its tenants")
        assert "organization-activity.older" in offered()


def test_an_api_key_is_called_as_everywhere_else() -> None:
    assert label("api_key") == "API key"
    assert label("apiKeyId") == "API key id"
    assert label("displayName") == "Display name"


def test_facts_are_told_as_before_and_after_and_never_as_their_spelling() -> None:
    assert facts_of({"from": "Web Shop", "to": "Web Shop 2"}) == [("Change", "Web Shop → Web Shop 2")]
    assert facts_of({"displayName": {"from": "", "to": "x"}}) == [("Display name", "empty → x")]
    assert facts_of({"scopes": {"from": ["a:read", "b:read"], "to": ["b:read", "c:write"]}}) == [
        ("Scopes", "+ c:write, − a:read")
    ]
    tags = {"from": {"env": "prod", "owner": "x", "team": "web"}, "to": {"new": "1", "team": "web", "env": "dev"}}
    assert facts_of({"tags": tags}) == [("Tags", "~ env=dev (was prod), + new=1, - owner=x")]
    assert facts_of({"tags": {"from": {"a": "1", "b": "2"}, "to": {"b": "2", "a": "1"}}}) == [("Tags", "the same")]
    assert facts_of({"status": 403, "code": "PERMISSION_DENIED"}) == [("Refused", "PERMISSION_DENIED (403)")]
    assert facts_of({"status": 403, "code": "PERMISSION_DENIED", "repeated": 17}) == [
        ("Refused", "PERMISSION_DENIED (403)"),
        ("Repeated", "17"),
    ]
    assert facts_of({"keys": [], "retireAt": None, "grants": {"a": True}}) == [
        ("Keys", "none"),
        ("Retire at", "nothing"),
        ("Grants", "a=yes"),
    ]
    assert facts_of({}) == facts_of(None) == facts_of("x") == [("", "none were written")]
    many = facts_of({f"n{number}": number for number in range(60)})
    assert len(many) == 41
    assert many[-1][1].startswith("and 20 more")


def test_an_entry_of_a_version_that_knows_more_is_told_as_far_as_it_is_understood() -> None:
    from datetime import UTC, datetime

    title, sections = of_entry({"id": "1", "operation": "moon.land", "outcome": "maybe"}, datetime.now(UTC))
    assert title == "moon.land"
    assert ("Outcome", "maybe") in sections[0][1]
    assert of_entry({"id": "1", "actor": "x", "details": [1]}, datetime.now(UTC))[0] == "1"

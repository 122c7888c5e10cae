"""The activity screen on the real platform."""

from datetime import UTC, datetime

import pytest

from client.models.tenants import Actor, Entry
from tests.acceptance.iam import Desk, allow
from tests.homes import Home
from tests.people import AURORA, MEMBER, OWNER, WEB_SHOP
from tests.tui.screens import Ui, opened, signed_in
from tui.activity.screen import facts_of, label, of_entry
from tui.shell.bars import Footer
from tui.shell.command_line import candidates
from tui.state.context_state import Limits
from tui.widgets.record_table import RecordTable


async def activity(ui: Ui) -> None:
    await ui.expect_head("Web Shop")
    await ui.command("activity", shows=("Activity", "entries"))


def rename(home: Home, name: str) -> None:
    answer = home.request("PATCH", f"/api/v1/tenants/{WEB_SHOP}", token=home.token(), body={"displayName": name})
    assert answer.status == 200, answer


async def test_entries_are_listed_with_their_details(ui: Ui) -> None:
    await activity(ui)
    await ui.expect("Astrid Lindqvist created workload identity default/not-granted-yet")
    await ui.expect("Sam Okafor attached policy contractor access to group contractors", "40 entries")
    row = "Astrid Lindqvist created 3 API keys: cluster-proxy, support-shell, database-tunnel"
    assert row in ui.row("cluster-p")
    for end in ("g", "G"):
        await ui.press(end)
        assert "…" not in ui.text.strip().rpartition("\n")[0]  # no sentence is cut
    await ui.press("g", *["j"] * 6, "enter")
    await ui.expect("Together with", "Astrid Lindqvist created API key database-tunnel")
    await ui.press("escape")
    await ui.filter("support-shell", shows="1 of 40")  # each entry while there is a filter
    await ui.expect("Astrid Lindqvist created API key support-shell", "33d")
    await ui.press("escape", shows="40 entries")
    await ui.expect("3 API keys")
    await ui.filter("what:policy.attach contractor", shows="1 of 40")
    await ui.press("enter")
    await ui.expect("Sam Okafor", "no longer a member", "Target", "contractor access", "Attachee type", "Request ID")


@pytest.mark.slow
@signed_in(OWNER)
async def test_new_entries_come_on_top_and_another_user_sees_none(demo: Home, ui: Ui) -> None:
    await activity(ui)
    await ui.expect("contracto")
    await ui.press("j", "j")
    screen = ui.screen
    before = screen.record.id
    rename(demo, "Web [/x] Shop")
    await ui.press("r", shows="41 entries")
    assert screen.record.id == before
    await ui.expect("1 newer ↑")
    await ui.press("g", gone="newer")
    await ui.expect("renamed tenant Web [/x] Shop (was Web Shop)")
    await ui.press("enter", shows=("Web Shop → Web [/x]", "Outcome", "done"))
    await ui.press("escape")
    newest = screen.record.id
    rename(demo, "Followed")
    await ui.press("r", shows="42 entries", cursor="tenant.rename", gone="newer")
    assert screen.record.id != newest
    demo.sign_in(MEMBER)
    await ui.press("r", shows="Only an owner or admin of the organization can see its", gone="contracto")

    def offered() -> set[str]:
        return {one.label for one in ui.app.frame.query_one(Footer).keys if one.enabled}

    await ui.until(lambda: not offered() & {"target", "organization"}, "no way on")
    await ui.press("2", "A", toast="only an owner or admin of the organization can see its activity")


@pytest.mark.slow
async def test_an_entry_leads_to_its_target_and_back(ui: Ui) -> None:
    await ui.expect_head("Web Shop")

    def offered() -> list[str]:
        return candidates(ui.app.workspace, "activity", ui.app.frame.action_context())

    assert offered() == ["activity", "activity.older", "activity.organization", "app.activity"]
    await activity(ui)
    await ui.expect("contracto")
    assert "activity.target" in offered()
    assert not [one for one in offered() if one.startswith(("activity-of", "organization-activity"))]
    await ui.press("o", shows="outside of its tenants")
    assert "organization-activity.older" in offered()
    await ui.press("escape")
    await ui.filter("what:policy.create contractor", shows="1 of 40")
    await ui.press("t", shows="Policies", cursor="contractor access")
    await ui.press("A", shows=("Activity of contractor access", "2 entries", "created policy", "attached policy"))
    await ui.press("y", shows="command: show entry")
    await ui.press(*["down"] * 4, shows=("frost tenant activity --target", "policy:"))
    await ui.press("escape", "escape", shows="Policies", cursor="contractor access")
    await ui.press("4", "A", toast="the activity log has no entries about this record")


@pytest.mark.slow
async def test_a_target_that_is_not_listed_is_refused(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    demo.sign_in(OWNER)
    made = {"policies": Desk(demo).policy(allow("compute:*:read"), name="gone policy")}
    made["groups"] = Desk(demo).group("gone group")
    async with opened(demo, monkeypatch) as ui:
        await activity(ui)
        await ui.filter("what:api_key.create monitoring-agent", shows="1 of 4")
        await ui.press("t", toast="not one of your API keys")
        assert ui.screen.NAME == "activity"
        for entry, kind in (("what:policy.create gone policy", "policies"), ("what:group.create gone group", "groups")):
            await ui.press("escape")  # clears the filter
            await ui.filter(entry, shows="1 of 4")
            path = f"/api/v1/tenants/{WEB_SHOP}/iam/{kind}/{made[kind]}"
            assert demo.request("DELETE", path, token=demo.token()).status in (200, 204)
            await ui.press("t", toast="deleted")
            assert ui.screen.NAME == "activity"


async def test_o_shows_the_entries_of_the_organization(shared: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    token = shared.sign_in(MEMBER)
    body = {"displayName": "Mine"}
    assert shared.request("POST", f"/api/v1/organizations/{AURORA}/tenants", token=token, body=body).status == 403
    shared.sign_in(OWNER)
    async with opened(shared, monkeypatch) as ui:
        await activity(ui)
        await ui.press(
            "o",
            shows=(
                "Activity of Aurora Labs, outside of its tenants",
                "was not allowed to create a tenant in organization Aurora Labs",
                "✗",
            ),
        )
        await ui.press("enter", shows=("Refused", "PERMISSION_DENIED (403)", "Aurora Labs"))
        await ui.press("escape", "escape", shows="40 entries")


async def test_older_entries_are_read_on_request(shared: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(shared, monkeypatch, limits=Limits(newest=10, page_size=10)) as ui:
        await ui.expect_head("Web Shop")
        await ui.command("activity", shows=("10 entries", "the newest ones, m loads more"))
        await ui.press("m", shows=("20 entries", "the newest ones"))
        await ui.press("G", shows="40 entries")
        table = ui.screen.query_one(RecordTable)
        assert table.cursor == 16  # the line with the oldest of the first 20 entries


def test_details_show_values_before_and_after() -> None:
    assert [label(name) for name in ("api_key", "apiKeyId", "displayName")] == ["API key", "API key ID", "Display name"]
    old, new = {"env": "prod", "owner": "x", "team": "web"}, {"new": "1", "team": "web", "env": "dev"}
    scopes = {"from": ["a:read", "b:read"], "to": ["b:read", "c:write"]}
    refused = {"status": 403, "code": "PERMISSION_DENIED"}
    for details, facts in (
        ({"from": "Web Shop", "to": "Web Shop 2"}, [("Change", "Web Shop → Web Shop 2")]),
        ({"displayName": {"from": "", "to": "x"}}, [("Display name", "empty → x")]),
        ({"scopes": scopes}, [("Scopes", "+ c:write, − a:read")]),
        ({"tags": {"from": old, "to": new}}, [("Tags", "~ env=dev (was prod), + new=1, - owner=x")]),
        ({"tags": {"from": {"a": "1", "b": "2"}, "to": {"b": "2", "a": "1"}}}, [("Tags", "no change")]),
        (refused, [("Refused", "PERMISSION_DENIED (403)")]),
        ({**refused, "repeated": 17}, [("Refused", "PERMISSION_DENIED (403)"), ("Repeated", "17")]),
        ({"keys": [], "retireAt": None}, [("Keys", "none"), ("Retire at", "nothing")]),
        ({"grants": {"a": True}}, [("Grants", "a=yes")]),
        *(({}, [("", "no details")]), (None, [("", "no details")]), ("x", [("", "no details")])),
    ):
        assert facts_of(details) == facts
    many = facts_of({f"n{number}": number for number in range(60)})
    assert len(many) == 41
    assert many[-1][1].startswith("and 20 more")
    now = datetime.now(UTC)
    entry = Entry(id="1", at=now, actor=Actor(kind="x"), operation="moon.land", outcome="maybe")
    title, sections = of_entry(entry, now)
    assert title == "x moon.land"
    assert ("Outcome", "maybe") in sections[0][1]

"""The groups screen on the real platform, with previews of each change."""

import json

import pytest

from client.connection import Connection
from tests.acceptance.iam import Desk, text
from tests.homes import Home
from tests.people import NEWSROOM, WEB_SHOP
from tests.service.access import KEYS
from tests.tui.editing import hung
from tests.tui.screens import Ui, opened

ON_CALL = "3b041641-1788-44f2-a60d-f25453fe2e85"
EVIL = "[/x][@click=app.exit]\x1b]52;c;aGk=\x07 ops"
READ = {"name": "look", "access": "allow", "operations": ["dns:*:read"], "targets": ["*"]}


@pytest.mark.slow
async def test_a_group_gets_members_and_a_policy_with_previews(demo: Home, ui: Ui) -> None:
    await ui.press("3", shows=("3 groups", "deployers"))
    await ui.press("n", shows="New group")
    await ui.enter("night watch", shows="4 groups", cursor="night watch", toast="Created group night watch")
    await ui.press("m", shows=("Add members to night watch", "mixed-forms", "media/image-resizer"))
    await ui.type("api tenant-", shows=("tenant-reader", "tenant-writer"))
    await ui.press("tab", "tab", "enter", shows=("Add 2 members?", "nothing gained, nothing lost", "Web Shop"))
    await ui.agree(toast="Added tenant-reader (API key), tenant-writer (API key) to night watch", shows="Members  2")
    await ui.press("a", shows=("Attach a policy to night watch", "from the office"))
    await ui.enter("look at")
    await ui.expect("Attach policy?", "look at compute", "night watch (group)", "2 keys and identities: −26 lost")
    await ui.heard()
    assert ui.focus == "cancel"  # the first policy takes permissions away, so Cancel has the focus
    await ui.agree(toast="Attached look at compute to night watch (group)", shows="Policies  1")
    await ui.press("z", shows="Policies  0", toast="Undone: detached look at compute from night watch (group)")
    group = next(one for one in Desk(demo).items("group", "list") if one["name"] == "night watch")
    assert (group["memberCount"], group["policyCount"]) == (2, 0)


@pytest.mark.slow
async def test_groups_and_policies_are_renamed_and_a_group_is_deleted(demo: Home, ui: Ui) -> None:
    await ui.press("3", shows="on call")
    await ui.press("e", on="contractors", shows="Rename or describe group")
    await ui.replace("day watch", toast="Renamed group contractors to day watch")
    await ui.press("e", on="day watch", shows="Rename or describe group")
    await ui.press("tab")
    await ui.enter("by day", toast="Described group day watch")
    await ui.press("z", toast="Undone: group day watch has its former description again", gone="by day")
    await ui.press("delete", on="on call")
    await ui.expect("Delete group?", ON_CALL, "2 memberships, 1 attachment, permanently", "Web Shop")
    await ui.answer("enter", shows="on call", gone="Delete group?")
    await ui.press("delete", shows="Delete group?")
    await ui.agree(toast="Deleted group on call", shows="2 groups")
    assert ON_CALL not in {one["id"] for one in Desk(demo).items("group", "list")}
    await ui.policy("from the office")
    await ui.press("N", shows="Rename or describe policy")
    await ui.replace("from the desk", toast="Renamed policy from the office to from the desk")
    await ui.press("z", toast="Undone: policy from the desk is named from the office again", cursor="from the office")
    await ui.press("N", shows="Rename or describe policy")
    Desk(demo).done("policy", "update", "from the office", "--description", "For nobody")
    await ui.replace("from home", shows=("was saved by Astrid Lindqvist", "from home", "Version 4"))
    await ui.press("enter", cursor="from home")


@pytest.mark.slow
async def test_removing_members_shows_what_they_lose(demo: Home, ui: Ui) -> None:
    await ui.press("3", shows="deployers")
    await ui.press("enter", on="deployers", shows=("Members of deployers", "3 members", "expired", "workload identity"))
    await ui.press("g", "space", "space", "delete")
    await ui.expect("Remove 2 members?", "gained", "deploy-pipeline and 1 more: last policy removed")
    await ui.press("escape", shows="2 marked")
    await ui.press("escape")
    await ui.press("w", on="old-deploy", shows=("expired: no access", "× expired"), gone="● allowed")
    await ui.press("escape", shows="3 members")
    await ui.press("delete", on="old-deploy", shows=("Remove 1 member?", "Status", "expired"), gone="Then")
    await ui.press("escape", gone="Remove 1 member?")
    await ui.press("delete", on="shop/checkout", shows=("Remove 1 member?", "−", "lost", "− compute:instances:create"))
    await ui.heard()
    assert ui.focus == "cancel"
    await ui.agree(shows="2 members")
    await ui.press("z", shows="3 members")


@pytest.mark.slow
async def test_a_question_names_the_tenant_of_its_group_after_a_switch(demo: Home, ui: Ui) -> None:
    await ui.press("3", shows="on call")
    with hung(demo):
        await ui.press("delete", on="on call")
        await ui.app.workspace.use_tenant(NEWSROOM)
    await ui.expect("Delete group?", "Newsroom", "Web Shop")
    await ui.agree(toast="Deleted group on call")
    assert ON_CALL not in {one["id"] for one in Desk(demo).items("group", "list", "--tenant", WEB_SHOP)}


@pytest.mark.slow
async def test_an_undo_continues_after_the_members_that_it_has_removed(demo: Home, ui: Ui) -> None:
    desk = Desk(demo)
    await ui.press("3", shows="contractors")
    await ui.press("m", on="contractors", shows=("Add members to contractors", "tenant-reader"))
    await ui.type("api tenant-", shows=("tenant-reader", "tenant-writer"))
    await ui.press("tab", "tab", "enter", shows="Add 2 members?")
    await ui.agree(toast="Added tenant-reader (API key), tenant-writer (API key) to contractors", shows="Members  3")
    others = desk.members("contractors") - {("api_key", KEYS["tenant-reader"]), ("api_key", KEYS["tenant-writer"])}
    desk.done("group", "member", "remove", "contractors", "--type", "api_key", "--id", KEYS["tenant-writer"])
    await ui.press("z", toast="not found")
    assert desk.members("contractors") == others
    desk.add("contractors", "api_key", KEYS["tenant-writer"])
    await ui.press("z", toast="Undone: removed tenant-reader")
    assert desk.members("contractors") == others


@pytest.mark.slow
async def test_the_access_of_a_member_names_group_policy_and_rule(ui: Ui) -> None:
    await ui.press("3", shows="deployers")
    await ui.press("x", shows=("Actions", "Detach a policy from the group", "frost iam group member list 142c8364"))
    await ui.press("escape", "y", shows=("Copy", "command: delete group"), gone=WEB_SHOP)
    await ui.press("escape")
    await ui.command("groups.open deployers", shows=("Members of deployers", "deploy-pipeline"))
    await ui.cursor_on("deploy-pipeline")
    await ui.expect("In groups", "active")
    member, texts = ui.screen.record, ui.screen.copies()
    assert (member.member_type, texts["ID"], json.loads(texts["JSON"])) == ("api_key", member.member_id, member.wire())
    await ui.press("w", shows=("Access of deploy-pipeline", "◐ conditional", "● allowed"))
    await ui.press("slash")
    await ui.type("instances:delete", shows=("keep-production", "via group deployers", "frn:resourceTag/env"))
    await ui.press("enter", "o", shows=("7 policies", "3 rules"), cursor="deployments")
    await ui.press("left_square_bracket", shows="Access of deploy-pipeline")


@pytest.mark.slow
async def test_a_form_keeps_its_input_over_a_newer_version(demo: Home, ui: Ui) -> None:
    await ui.press("3", shows="on call")
    await ui.press("e", on="on call", shows="Rename or describe group")
    Desk(demo).done("group", "update", ON_CALL, "--description", "changed elsewhere")
    await ui.replace("on duty", shows=("and changed", "on duty", "changed elsewhere", "Your input is kept"))
    await ui.press("enter", cursor="on duty")
    group = Desk(demo).done("group", "get", ON_CALL)
    assert (group["name"], group["description"]) == ("on duty", "changed elsewhere")


@pytest.mark.slow
async def test_names_with_markup_are_shown_as_text(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = EVIL.replace("\x1b", "").replace("\x07", "")
    demo.start()
    Desk(demo).group(evil, evil)
    Desk(demo).done("policy", "create", "--name", evil, "--description", evil, "--document", text(READ))
    async with opened(demo, monkeypatch) as ui:
        await ui.press("3", shows="[/x][@click")
        await ui.cursor_on(evil)
        for key, title in (("m", "Add members to [/x]"), ("a", "Attach a policy to [/x]"), ("delete", "Delete group?")):
            await ui.press(key, shows=title)
            await ui.press("escape", gone=title)
        await ui.press("o", shows="Members of [/x]")
        await ui.press("2")
        await ui.press("v", on=evil, shows=("Versions of [/x]", "1 version", "create"))
        await ui.press("enter", toast="This is the only version")
        assert ui.app.is_running


@pytest.mark.slow
async def test_forms_keep_the_input_without_a_response(demo: Home, monkeypatch: pytest.MonkeyPatch, ui: Ui) -> None:
    forms = (
        ("3", "on call", "n", "New group", "night watch"),
        ("3", "on call", "e", "Rename or describe group", "on duty"),
        ("1", "Data Lake", "e", "Rename tenant", "Data Ocean"),
        ("1", "Data Lake", "n", "Create a tenant", "Night Shift"),
    )
    await ui.press("3", shows="on call")
    with monkeypatch.context() as broken:
        broken.setattr(Connection, "start", lambda _: False)
        demo.kill_platform()
        for screen, record, key, title, name in forms:
            await ui.press(screen, shows=record)
            await ui.press(key, on=record, shows=title)
            await ui.replace(name, shows=(title, name, "platform is not running"))
            await ui.press("escape", gone=title)

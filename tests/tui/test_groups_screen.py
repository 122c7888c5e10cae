"""The groups place on the real platform: what a change gives or takes is seen before it is made."""

import asyncio

import pytest

from tests.acceptance.iam import Desk, text
from tests.acceptance.people import WEB_SHOP
from tests.homes import Home
from tests.tui.screens import opened
from tests.tui.test_frame import Line
from tui.launch import Launch

ENTER = "enter"
ON_CALL = "3b041641-1788-44f2-a60d-f25453fe2e85"
EVIL = "[/x][@click=app.exit]\x1b]52;c;aGk=\x07 ops"
READ = {"name": "look", "access": "allow", "operations": ["dns:*:read"], "targets": ["*"]}


async def asked(work: object, *words: str) -> object:
    return await asyncio.to_thread(work, *words)  # type: ignore[arg-type]


@pytest.mark.slow
async def test_a_group_is_made_gets_two_keys_and_a_policy_and_each_effect_is_seen_before(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(demo, monkeypatch) as ui:
        await ui.press("3")
        await ui.expect("3 groups", "deployers")
        await ui.press("n")
        await ui.expect("New group")
        await ui.type("night watch")
        await ui.press(ENTER)
        await ui.expect("4 groups")
        await ui.expect_cursor("night watch")
        await ui.press("m")
        await ui.expect("Add members to night watch", "mixed-forms", "media/image-resizer")
        await ui.type("api tenant-")
        await ui.expect("tenant-reader", "tenant-writer")
        await ui.press("tab", "tab", ENTER)
        await ui.expect("Add 2 members?", "nothing gained, nothing lost", "Web Shop")
        await ui.agree()
        await ui.expect_toast("Added tenant-reader (API key), tenant-writer (API key) to night watch")
        await ui.expect("Members  2")
        await ui.press("a")
        await ui.expect("Attach a policy to night watch", "from the office")
        await ui.type("look at")
        await ui.press(ENTER)
        await ui.expect("Attach policy?", "look at compute", "night watch (group)", "2 keys and identities: −26 lost")
        await ui.heard()
        assert ui.app.focused is not None
        assert ui.app.focused.id == "no"  # the first policy takes away: No is where Enter falls
        await ui.agree()
        await ui.expect_toast("Attached look at compute to night watch (group)")
        await ui.expect("Policies  1")
        await ui.press("z")
        await ui.expect_toast("Undone: detached look at compute from night watch (group)")
        await ui.expect("Policies  0")
    group = next(one for one in Desk(demo).items("group", "list") if one["name"] == "night watch")
    assert (group["memberCount"], group["policyCount"]) == (2, 0)


@pytest.mark.slow
async def test_members_are_removed_by_marks_and_what_they_lose_stands_in_the_question(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(demo, monkeypatch) as ui:
        await ui.press("3")
        await ui.expect("deployers")
        await ui.cursor_on("deployers")
        await ui.press(ENTER)
        await ui.expect("Members of deployers", "3 members", "expired", "workload identity")
        await ui.press("g", "space", "space", "delete")
        await ui.expect("Remove 2 members?", "gained", "deploy-pipeline and 1 more: no policy left")
        await ui.press("escape")
        await ui.expect("2 marked")
        await ui.press("escape")
        await ui.cursor_on("old-deploy")
        await ui.press("delete")
        await ui.expect("Remove 1 member?", "State", "expired")
        await ui.gone("Note")
        await ui.press("escape")
        await ui.until(lambda: "Remove 1 member?" not in ui.text, "the question gone")
        await ui.cursor_on("shop/checkout")
        await ui.press("delete")
        await ui.expect("Remove 1 member?", "−", "lost", "− compute:instances:create")
        await ui.heard()
        assert ui.app.focused is not None
        assert ui.app.focused.id == "no"
        await ui.agree()
        await ui.expect("2 members")
        await ui.press("z")
        await ui.expect("3 members")


@pytest.mark.slow
async def test_what_a_member_may_do_is_shown_with_group_policy_and_rule(
    shared: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(shared, monkeypatch) as ui:
        await ui.press("3")
        await ui.expect("deployers")
        await ui.press("colon")
        await ui.type("groups.open deployers")
        await ui.press(ENTER)
        await ui.expect("Members of deployers", "deploy-pipeline")
        await ui.cursor_on("deploy-pipeline")
        await ui.expect("In groups", "active")
        await ui.press("w")
        await ui.expect("What deploy-pipeline may do", "◐ conditional", "● allowed")
        await ui.press("slash")
        await ui.type("instances:delete")
        await ui.expect("keep-production", "via group deployers", "frn:resourceTag/env")
        await ui.press(ENTER, "o")
        await ui.expect("7 policies", "3 rules")
        await ui.expect_cursor("deployments")
        await ui.press("left_square_bracket")
        await ui.expect("What deploy-pipeline may do")


@pytest.mark.slow
async def test_deleting_a_group_names_it_its_tenant_and_what_is_lost_and_no_is_the_default(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(demo, monkeypatch) as ui:
        await ui.press("3")
        await ui.expect("on call")
        await ui.cursor_on("on call")
        await ui.press("delete")
        await ui.expect("Delete group?", ON_CALL, "2 memberships, 1 attachment, permanently", "Web Shop")
        await ui.heard()
        await ui.press(ENTER)
        await ui.until(lambda: "Delete group?" not in ui.text, "the question gone")
        await ui.expect("on call")
        await ui.press("delete")
        await ui.expect("Delete group?")
        await ui.agree()
        await ui.expect_toast("Deleted group on call")
        await ui.expect("2 groups")
    assert ON_CALL not in {one["id"] for one in Desk(demo).items("group", "list")}


@pytest.mark.slow
async def test_a_group_changed_meanwhile_is_said_and_what_was_typed_stays(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(demo, monkeypatch) as ui:
        await ui.press("3")
        await ui.expect("on call")
        await ui.cursor_on("on call")
        await ui.press("e")
        await ui.expect("Edit group")
        await asked(Desk(demo).done, "group", "update", ON_CALL, "--description", "changed elsewhere")
        await ui.press("ctrl+a", "ctrl+k")
        await ui.type("on duty")
        await ui.press(ENTER)
        await ui.expect("and changed description", "on duty", "changed elsewhere", "Your input is kept")
        await ui.press(ENTER)
        await ui.until(lambda: ui.under_cursor == "on duty", "the new name")
    group = Desk(demo).done("group", "get", ON_CALL)
    assert (group["name"], group["description"]) == ("on duty", "changed elsewhere")


@pytest.mark.slow
async def test_a_name_that_is_taken_is_said_in_the_form(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(demo, monkeypatch) as ui:
        await ui.press("3")
        await ui.expect("on call")
        await ui.press("n")
        await ui.expect("New group")
        await ui.type("on call")
        await ui.press(ENTER)
        await ui.expect("New group", "another group of this tenant has this name")
        assert ui.app.screen.query_one("#field-name").value == "on call"  # type: ignore[attr-defined]


@pytest.mark.slow
async def test_after_a_switch_nothing_of_the_former_tenant_is_left(
    shared: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(shared, monkeypatch) as ui:
        await ui.press("3")
        await ui.expect("deployers")
        await ui.press("o")
        await ui.expect("Members of deployers")
        await ui.switch("newsroom")
        await ui.gone("deployers")
        await ui.expect("editors", "1 group")
        await ui.press("minus")
        await ui.expect("deployers", "3 groups")
        await ui.gone("editors")


@pytest.mark.slow
async def test_a_failure_keeps_the_rows_and_says_how_to_go_on(demo_slow: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line(demo_slow.path / "line.sock", demo_slow.socket)
    demo_slow.start()
    await line.open()
    await asked(demo_slow.frost, "login", "--context", "far", "--endpoint", f"unix:{line.path}")
    await asked(demo_slow.frost, "config", "use-context", "far")
    async with opened(demo_slow, monkeypatch) as ui:
        await ui.press("3")
        await ui.expect("deployers")
        await line.cut()
        await ui.press("r")
        await ui.expect("not refreshed, r to retry", "deployers")
        await line.open()
        await ui.press("r")
        await ui.until(lambda: "not refreshed" not in ui.text, "fresh rows")
    await line.cut()


@pytest.mark.slow
async def test_names_full_of_markup_and_escapes_stand_in_every_part_as_they_are(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = EVIL.replace("\x1b", "").replace("\x07", "")
    demo.start()
    group = Desk(demo).group(evil, evil)
    Desk(demo).done("policy", "create", "--name", evil, "--description", evil, "--document", text(READ))
    async with opened(demo, monkeypatch) as ui:
        await ui.press("3")
        await ui.expect("[/x][@click")
        await ui.cursor_on(evil)
        for key, words in (("m", "Add members to [/x]"), ("a", "Attach a policy to [/x]"), ("delete", "Delete group?")):
            await ui.press(key)
            await ui.expect(words)
            await ui.press("escape")
            await ui.until(lambda words=words: words not in ui.text, "the dialog gone")  # type: ignore[misc]
        await ui.press("o")
        await ui.expect("Members of [/x]")
        await ui.press("2")
        await ui.cursor_on(evil)
        await ui.press("v")
        await ui.expect("Versions of [/x]", "1 version", "create")
        await ui.press(ENTER)
        await ui.expect_toast("This is the only version")
        assert ui.app.is_running
    assert group


@pytest.mark.slow
async def test_read_only_keeps_the_keys_and_says_why(shared: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(shared, monkeypatch, launch=Launch(read_only=True)) as ui:
        await ui.press("3")
        await ui.expect("deployers", "n new")
        for key, title in (("n", "New group"), ("e", "Rename or describe group"), ("m", "Add members")):
            await ui.press(key)
            await ui.expect_toast(f"{title}: frost was started with --read-only")
        await ui.press(ENTER)
        await ui.expect("Members of deployers")
        await ui.press("delete")
        await ui.expect_toast("Remove from the group: frost was started with --read-only")


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_groups_members_and_the_question_fit(
    shared: Home, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    async with opened(shared, monkeypatch, size=size) as ui:
        await ui.press("3")
        await ui.expect("deployers", "Members", "Policies", "o members")
        await ui.press("delete")
        await ui.expect("Delete group?", "Effect", "− compute:instances:create", "y Delete · n or Esc No", "Delete  ")
        await ui.press("escape")
        await ui.press("o")
        await ui.expect("Members of deployers", "workload identity", "w access")
        await ui.press("w")
        await ui.expect("What old-deploy may do", "compute:instances:attach-interface" if size[0] > 100 else "allowed")


async def test_every_action_of_a_group_shows_its_command(shared: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(shared, monkeypatch) as ui:
        await ui.press("3")
        await ui.expect("deployers")
        await ui.press("x")
        await ui.expect("Actions", "Detach a policy from the group")
        await ui.expect("frost iam group member list 142c8364")
        await ui.press("escape", "y")
        await ui.expect("Copy", "command: delete group")
        await ui.gone(WEB_SHOP)

"""The shell of the screens: navigation, palette, undo, and keys in bursts or in pieces."""

import asyncio

import pytest
from textual.widgets import OptionList
from textual.widgets._toast import Toast

from client.errors import FrostError
from client.models.tenants import Tenant
from client.tables.columns import json_of
from tests.acceptance.iam import Desk
from tests.homes import Home
from tests.people import NEWSROOM
from tests.terminal import screens
from tests.tui.editing import hung
from tests.tui.screens import SMALL, Ui
from tui.shell import actions, routes
from tui.shell.bars import Footer
from tui.shell.palette import Palette, _line, entries, ranked
from tui.shell.routes import UndoAvailable, UndoCleared
from tui.widgets.dialog import Dialog

pytestmark = pytest.mark.slow


async def members(ui: Ui) -> None:
    await ui.press("3", shows="deployers")
    await ui.press("enter", on="deployers", shows=("Members of deployers", "3 members"))


async def test_escape_goes_back_view_by_view(ui: Ui) -> None:
    await members(ui)
    await ui.press("w", on="deploy-pipeline", shows=("Access of deploy-pipeline", "compute:instances:delete"))
    await ui.press("w", on="compute:instances:create", shows=("Who may compute:instances:create on *", "shop/checkout"))
    await ui.press("w", on="shop/checkout", shows=("Access of shop/checkout", "compute:instances:create"))
    await ui.press("g", "w", shows="Who may ", gone="Who may compute:instances:create on")
    await ui.press("escape", shows="Access of shop/checkout")
    await ui.press("escape", shows="Who may compute:instances:create on *", cursor="shop/checkout")
    await ui.press("escape", shows="Access of deploy-pipeline", cursor="compute:instances:create")
    await ui.press("escape", shows="Members of deployers", cursor="deploy-pipeline")
    await ui.press("escape", shows="3 groups")
    await ui.press("escape", "escape", shows="3 groups")


async def test_a_view_from_the_history_keeps_its_way_back_and_no_other_tenant(ui: Ui) -> None:
    await members(ui)
    await ui.press("w", shows="Access of ")
    await ui.press("4", shows=("Catalogue", "operations"))
    await ui.press("left_square_bracket", shows="Access of ")
    await ui.press("escape", shows="Members of deployers")
    await ui.press("left_square_bracket", shows="Access of ")
    await ui.pilot.press("escape", "escape")  # two quick keys go two levels back
    await ui.expect("3 groups")
    await members(ui)
    await ui.press("2", shows="7 policies")
    await ui.switch("newsroom")
    await ui.press("left_square_bracket", shows=("1 group", "editors"), gone="deployers")
    await ui.press("minus", head="Web Shop")


async def test_a_switch_drops_the_rows_of_the_former_tenant(ui: Ui) -> None:
    await ui.expect_head("Web Shop")
    before = {}
    for name in ("policies", "quotas", "default-tags", "activity"):
        await ui.app.frame.navigate(name, "")
        await ui.until(lambda: bool(ui.screen.records()), f"the records of {name}")
        before[name] = [json_of(row) for row in ui.screen.records()]
    await ui.switch("Data Lake")
    for name, rows in before.items():
        await ui.app.frame.navigate(name, "")
        records = [json_of(row) for row in ui.screen.records()]
        assert records != rows, name
        assert not {row["id"] for row in rows if "id" in row} & {row.get("id") for row in records}, name
    await ui.switch("Web Shop")


async def test_actions_of_other_screens_are_offered_and_run_there(ui: Ui) -> None:
    await ui.expect("Data Lake")
    await ui.press("ctrl+p", shows="Palette")
    await ui.type("zzzqqq", shows="No matches")
    await ui.press("down", "enter", shows=("Palette", "No matches"))
    await ui.press(*["backspace"] * 6)
    await ui.enter("go to con", shows=("Endpoint", "Credential"))
    await ui.press("1", shows="Data Lake")
    titles = [entry.title for entry in entries(ui.app.frame)]
    for route in routes.ROUTES:
        assert {action.title for action in actions.of_scope(route.name)} <= set(titles)
    assert titles.index("New group") > titles.index("Create tenant")
    assert titles.count("Create tenant") == 1
    await ui.press("ctrl+p", shows="Palette")
    await ui.type("new group", shows="In groups")
    await ui.press("enter", shows=("New group", "Description", "3 Groups"))
    await ui.press("escape", shows="3 groups")


@SMALL
async def test_a_long_title_stays_on_one_line(ui: Ui) -> None:
    await ui.expect("Data Lake")
    await ui.press("ctrl+p", shows="Palette")
    await ui.type("limit for the organization", shows="Request a new limit for the organization  In quotas")
    palette = ui.app.screen
    assert isinstance(palette, Palette)
    assert palette.query_one(OptionList).virtual_size.height == len(palette.matches)


async def test_a_long_name_is_found_by_its_end(monkeypatch: pytest.MonkeyPatch, ui: Ui) -> None:
    await ui.expect("Data Lake")
    name = "Analytics of the north-eastern region, nightly jobs zanzibar"
    await ui.until(lambda: ui.app.workspace.tenants_state == "fresh", "the tenants")
    first = ui.app.workspace.tenants[0].wire()
    ui.app.workspace.tenants.append(Tenant.model_validate({**first, "displayName": name}))
    (entry, letters), *_ = ranked(entries(ui.app.frame, "zanzibar"), "zanzibar")
    assert (entry.title, len(letters)) == (f"Use tenant {name}", len("zanzibar"))
    line = _line(entry, letters, 40).plain
    assert line.startswith("     Use tenant Analytics of the north-eastern region, ni…")
    assert "zanzibar" not in line
    assert not ui.app.frame.action_context().browser
    monkeypatch.setattr(type(ui.app), "is_web", True)
    assert ui.app.frame.action_context().browser


DEPLOYMENTS = "de1b1471-320a-48ea-b7a7-88d106762832"


async def attach(ui: Ui) -> None:
    """Attach a policy to a group, which can be undone."""
    await ui.policy("deployments")
    await ui.press("a", shows=("Attach deployments to", "contractors"))
    await ui.enter("contractors", shows="Attach policy?")
    await ui.agree(toast="Attached deployments to contractors (group) · z to undo")


async def test_an_offer_to_undo_ends_with_the_next_change(demo: Home, ui: Ui) -> None:
    await attach(ui)
    await ui.press("delete", shows="Delete policy?")
    await ui.press("escape", gone="Delete policy?")
    await ui.press("z", toast="Undone: detached deployments from contractors (group)")
    await ui.until(lambda: not any("to undo" in toast for toast in ui.toasts), "no offer that has ended")
    await attach(ui)
    ui.app.frame.post_message(UndoCleared("deleting a group"))
    await ui.until(lambda: not ui.toasts, "no message")
    await ui.press("v", shows=("Versions of deployments", "► 3"))
    await ui.press("G", "b", shows="Roll back to version 1?")
    await ui.agree(shows="► 4")
    await ui.press("z", toast="Undo: rolling back a version cannot be undone")
    attachments = Desk(demo).items("policy", "attachments", DEPLOYMENTS)
    assert "contractors" in {one["attacheeName"] for one in attachments}
    await ui.press("3", shows="deployers")
    await ui.press("n", shows="New group")
    await ui.enter("night", cursor="night")
    await ui.press("z", toast="creating a group cannot be undone")


async def test_an_offer_to_undo_ends_with_its_tenant_and_its_user(demo: Home, ui: Ui) -> None:
    await attach(ui)
    await ui.switch("newsroom")
    await ui.press("z", toast="Undo: nothing to undo")
    await ui.switch("web shop")
    await ui.policy("look at compute")
    await ui.press("a", shows="Attach look at compute to")
    await ui.enter("contractors", shows="Attach policy?")
    await ui.agree(toast="z to undo")
    assert (await asyncio.to_thread(demo.frost, "login", "--as", "member@aurora.example")).code == 0
    await ui.press("r", head="member@aurora.example · session")
    await ui.press("z", toast="Undo: nothing to undo")


async def test_a_named_record_is_not_looked_up_in_another_tenant(demo: Home, ui: Ui) -> None:
    Desk(demo).done("group", "create", "--name", "editors", "--description", "")
    await ui.expect("Staging")
    with hung(demo):
        await ui.command("groups.open editors", shows="Loading …")
        await ui.app.workspace.use_tenant(NEWSROOM)
    await ui.expect_toast("Not done: the tenant has changed")
    await ui.expect("1 group", "editors")
    await ui.gone("Members of")


@pytest.mark.parametrize("fails", [True, False])
async def test_an_undo_that_ends_late_leaves_a_newer_offer(ui: Ui, fails: bool) -> None:
    frame, end = ui.app.frame, asyncio.Event()

    async def slow() -> None:
        await end.wait()
        if fails:
            raise FrostError("the undo conflicts", code="CONFLICT")

    async def quick() -> None:
        pass

    await ui.expect("Staging")
    frame.post_message(UndoAvailable("Changed first", slow, "changed first"))
    await ui.expect_toast("Changed first · z to undo")
    await ui.press("z")
    await ui.until(lambda: frame.undoable is None, "the undo")
    newer = UndoAvailable("Changed second", quick, "changed second")
    frame.post_message(newer)
    await ui.expect_toast("Changed second · z to undo")
    end.set()
    await ui.expect_toast("the undo conflicts" if fails else "Undone: changed first")
    assert frame.undoable is newer
    assert frame._offer == "Changed second · z to undo"
    await ui.press("z", toast="Undone: changed second")
    await ui.press("z", toast="Undo: nothing to undo")


async def test_an_undo_that_fails_is_not_offered_again_after_a_change_or_in_another_tenant(ui: Ui) -> None:
    frame, ends = ui.app.frame, asyncio.Event()

    async def fail() -> None:
        await ends.wait()
        raise FrostError("the undo conflicts", code="CONFLICT")

    async def undo_late() -> None:
        ends.clear()
        frame.post_message(UndoAvailable("Changed it", fail, "changed it"))
        await ui.expect_toast("Changed it · z to undo")
        await ui.press("z")
        await ui.until(lambda: frame.undoable is None, "the undo")

    await ui.expect("Staging")
    await undo_late()
    ends.set()
    await ui.expect_toast("the undo conflicts")
    assert frame.undoable is not None  # a failed undo can be repeated
    await undo_late()
    frame.post_message(UndoCleared("deleting a group"))
    await ui.until(lambda: frame.lasting == "deleting a group", "the newer change")
    ends.set()
    await ui.expect_toast("the undo conflicts")
    await ui.press("z", toast="Undo: deleting a group cannot be undone")
    await undo_late()
    await ui.switch("newsroom")
    ends.set()
    await ui.expect_toast("the undo conflicts")
    await ui.press("z", toast="Undo: nothing to undo")
    await ui.switch("web shop")


@SMALL
async def test_messages_go_with_the_next_action_and_over_help(ui: Ui) -> None:
    await ui.expect("Staging")
    await ui.press("z", toast="Undo: nothing to undo")
    ui.app.frame.toast("Staging is ready")
    await ui.until(lambda: len(ui.app.screen.query(Toast)) == 2, "both messages")
    await ui.pilot.pause()
    hidden = (ui.screen.table.region, ui.app.frame.query_one(Footer).region)
    assert not any(toast.region.overlaps(part) for toast in ui.app.screen.query(Toast) for part in hidden)
    await ui.press("s")
    await ui.until(lambda: ui.toasts == ["Staging is ready"], "the newest alone")
    ui.app.frame.toast("The platform said no", "error")
    await ui.press("ctrl+p")
    await ui.until(lambda: ui.toasts == ["The platform said no"], "only what failed over a dialog")
    await ui.press("escape", "?", shows="Help")
    await ui.until(lambda: not ui.toasts, "no message")


BURSTS = [
    (b"/newsroom", "Tenants  / newsroom"),
    (b"/dat\x15stag", "Tenants  / stag"),
    (b"2/resized", "Policies  / resized"),
    (b"1:policies\r/media", "Policies  / media"),
    (b"1:groups\r:policies\r/look", "Policies  / look"),
    (b"1\x14newsroom\r", "Borealis Media › Newsroom"),
]


def test_letters_do_not_overtake_the_key_before_them(demo: Home) -> None:
    with screens(demo) as program:
        program.wait_for("Data Lake")
        for burst, shown in BURSTS:
            program.write(burst)
            program.wait_for(shown)
            program.press("escape", "escape")


@pytest.mark.slow
def test_a_letter_in_two_pieces_is_read(demo: Home) -> None:
    with screens(demo) as program:
        program.wait_for("Data Lake")
        program.press("/")
        program.wait_for("text, !exclude")
        first, second = "é".encode()[:1], "é".encode()[1:]
        program.write(first)
        program.until_quiet(0.5, 2)
        program.write(second)
        program.wait_for("/ é")
        program.press("x")
        program.wait_for("/ éx")


QUESTIONS = (
    ("policies", "delete", ("Web Shop",)),
    ("groups", "delete", ("Web Shop",)),
    ("api-keys", "v", ("Web Shop",)),
    ("api-keys", "delete", ("Web Shop",)),
    ("sessions", "delete", ("owner@aurora.example", "ends all sessions now")),
    ("contexts", "o", ("local", "the session ends")),
    ("account", "delete", ("owner@aurora.example",)),
)
"""Screen, key, and what the question must name besides the record: the tenant and the effect."""


async def test_a_question_names_its_effect_and_enter_does_nothing(ui: Ui) -> None:
    await ui.expect_head("session")
    for name, key, words in QUESTIONS:
        await ui.app.frame.navigate(name, "")
        await ui.until(lambda name=name: ui.screen.record is not None, f"rows of {name}")
        screen = ui.app.frame.current
        record, count = str(json_of(screen.record).get(screen.KIND.name_key, "")), len(screen.records())
        await ui.press(key)
        await ui.until(lambda: isinstance(ui.app.screen, Dialog), "the question")
        question = ui.app.screen
        await ui.expect("Effect", *words, *([record[:20]] if name in ("policies", "groups", "api-keys") else []))
        await ui.answer("enter")
        await ui.pilot.pause(0.2)
        assert len(screen.records()) == count
        if ui.app.screen is question:  # it requests that a name is typed
            await ui.press("escape")
        await ui.see(top=ui.app.frame)


async def test_a_screen_that_is_left_while_it_opens_has_its_stored_order(ui: Ui) -> None:
    await ui.expect_head("connected")
    ui.app.workspace.state.sort["policies"] = ["name", True]
    ui.app.frame.go("policies")
    while not ui.app.frame.query("#screen-policies"):  # noqa: ASYNC110  (it ends within the mount)
        await asyncio.sleep(0)
    ui.app.frame.go("tenants")
    await ui.until(lambda: ui.screen.NAME == "tenants" and ui.screen.display, "the other screen")
    ui.app.frame.go("policies")
    await ui.until(lambda: ui.screen.NAME == "policies", "the screen")
    assert ui.screen.sort_state() == ["name", True]

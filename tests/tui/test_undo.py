"""What `z` takes back: only the last change, only where it was made, and it says what that did."""

import asyncio

import pytest

from tests.acceptance.iam import Desk
from tests.homes import Home
from tests.tui.screens import Ui, opened
from tui.shell.routes import UndoCleared

pytestmark = pytest.mark.slow

ENTER = "enter"


async def attached(ui: Ui) -> None:
    """Attach a policy to a group, which can be taken back."""
    await ui.policy("deployments")
    await ui.press("a")
    await ui.expect("Attach deployments to", "contractors")
    await ui.type("contractors")
    await ui.press(ENTER)
    await ui.expect("Attach policy?")
    await ui.agree()
    await ui.expect_toast("Attached deployments to contractors (group) · z to undo")


async def test_a_change_that_stays_ends_the_offer_to_take_back_the_one_before(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(demo, monkeypatch) as ui:
        await attached(ui)
        await ui.press("v")
        await ui.expect("Versions of deployments", "► 3")
        await ui.press("G", "b")
        await ui.expect("Roll back to version 1?")
        await ui.agree()
        await ui.expect("► 4")
        await ui.press("z")
        await ui.expect_toast("Undo: rolling back a version cannot be undone")
    names = {one["attacheeName"] for one in Desk(demo).items("policy", "attachments", policy_of(demo))}
    assert "contractors" in names


def policy_of(home: Home) -> str:
    return str(next(one["id"] for one in Desk(home).items("policy", "list") if one["name"] == "deployments"))


async def test_a_question_answered_with_no_leaves_the_offer_and_taking_back_says_what_it_did(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(demo, monkeypatch) as ui:
        await attached(ui)
        await ui.press("delete")
        await ui.expect("Delete policy?")
        await ui.press("escape")
        await ui.until(lambda: "Delete policy?" not in ui.text, "the question gone")
        await ui.press("z")
        await ui.expect_toast("Undone: detached deployments from contractors (group)")
        await ui.until(lambda: not any("to undo" in toast for toast in ui.toasts), "no offer that is over")


async def test_the_offer_to_take_back_goes_with_the_next_change(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(demo, monkeypatch) as ui:
        await attached(ui)
        ui.app.frame.post_message(UndoCleared("deleting a group"))
        await ui.until(lambda: not ui.toasts, "the offer gone")


async def test_what_was_refused_goes_with_the_next_action_and_nothing_stands_on_the_help(
    shared: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(shared, monkeypatch, size=(80, 24)) as ui:
        await ui.expect("Staging")
        await ui.press("z")
        await ui.expect_toast("Undo: nothing to undo")
        ui.app.frame.toast("Staging is ready")
        await ui.press("s")
        await ui.until(lambda: ui.toasts == ["Staging is ready"], "the newest alone")
        ui.app.frame.toast("The platform said no", "error")
        await ui.press("ctrl+p")
        await ui.until(lambda: ui.toasts == ["The platform said no"], "only what failed over a dialog")
        await ui.press("escape", "?")
        await ui.expect("Help")
        await ui.until(lambda: not ui.toasts, "no message")


async def test_what_is_made_in_a_form_stays(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(demo, monkeypatch) as ui:
        await attached(ui)
        await ui.press("3")
        await ui.expect("deployers")
        await ui.press("n")
        await ui.expect("New group")
        await ui.type("night")
        await ui.press(ENTER)
        await ui.until(lambda: ui.under_cursor == "night", "the new one")
        await ui.press("z")
        await ui.expect_toast("creating a group cannot be undone")


async def test_the_offer_ends_with_the_tenant_it_was_made_in(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(demo, monkeypatch) as ui:
        await attached(ui)
        await ui.switch("newsroom")
        await ui.press("z")
        await ui.expect_toast("Undo: nothing to undo")


async def test_the_offer_ends_with_the_person_who_made_the_change(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(demo, monkeypatch) as ui:
        await attached(ui)
        assert (await asyncio.to_thread(demo.frost, "login", "--as", "member@aurora.example")).code == 0
        await ui.press("r")
        await ui.expect_head("member@aurora.example · session")
        await ui.press("z")
        await ui.expect_toast("Undo: nothing to undo")

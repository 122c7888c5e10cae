"""Undo: the last change only, in its tenant and for its user."""

import asyncio

import pytest

from tests.acceptance.iam import Desk
from tests.homes import Home
from tests.tui.screens import SMALL, Ui
from tui.shell.routes import UndoCleared

pytestmark = pytest.mark.slow

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


@SMALL
async def test_messages_go_with_the_next_action_and_over_help(ui: Ui) -> None:
    await ui.expect("Staging")
    await ui.press("z", toast="Undo: nothing to undo")
    ui.app.frame.toast("Staging is ready")
    await ui.press("s")
    await ui.until(lambda: ui.toasts == ["Staging is ready"], "the newest alone")
    ui.app.frame.toast("The platform said no", "error")
    await ui.press("ctrl+p")
    await ui.until(lambda: ui.toasts == ["The platform said no"], "only what failed over a dialog")
    await ui.press("escape", "?", shows="Help")
    await ui.until(lambda: not ui.toasts, "no message")

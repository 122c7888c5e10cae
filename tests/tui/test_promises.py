"""Every screen names its tenant, and every question its effect."""

import pytest

from tests.tui.screens import SMALL, Ui
from tui.shell import routes
from tui.widgets.dialog import Dialog


async def open_screen(ui: Ui, name: str) -> None:
    await ui.app.frame.navigate(name, "")
    await ui.until(lambda: ui.screen.record is not None, f"rows of {name}")


@SMALL
async def test_every_screen_names_context_tenant_and_credential(ui: Ui) -> None:
    await ui.expect_head("session")
    for name in routes.NAMES:
        await ui.app.frame.navigate(name, "")
        for words in ("local", "Aurora Labs", "Web Shop", "owner@aurora.example", "session"):
            assert words in ui.head, name


@pytest.mark.slow
async def test_a_switch_drops_the_rows_of_the_former_tenant(ui: Ui) -> None:
    of_a_tenant = ("policies", "groups", "quotas", "default-tags", "activity")
    await ui.expect_head("Web Shop")
    before = {}
    for name in of_a_tenant:
        await open_screen(ui, name)
        rows = ui.screen.records()
        before[name] = [dict(row) for row in rows]
    await ui.switch("Data Lake")
    for name in of_a_tenant:
        await ui.app.frame.navigate(name, "")
        shown = ui.app.frame.current
        assert shown.tenant_id == ui.app.workspace.tenant_id
        assert [dict(row) for row in shown.records()] != before[name], name
        if name in ("policies", "groups", "activity"):
            assert not {row["id"] for row in before[name]} & {row["id"] for row in shown.records()}, name
    await ui.switch("Web Shop")


# screen, way there, key; and what the question must name: the thing, the tenant, the effect
QUESTIONS = {
    "policies.delete": ("policies", "delete", ("Web Shop",)),
    "groups.delete": ("groups", "delete", ("Web Shop",)),
    "api-keys.revoke": ("api-keys", "v", ("Web Shop",)),
    "api-keys.delete": ("api-keys", "delete", ("Web Shop",)),
    "sessions.end_all": ("sessions", "delete", ("owner@aurora.example", "ends all sessions now")),
    "contexts.sign_out": ("contexts", "o", ("local", "the session ends")),
    "account.delete": ("account", "delete", ("owner@aurora.example",)),
}


@pytest.mark.parametrize("action", QUESTIONS)
async def test_a_question_names_its_effect_and_enter_does_nothing(action: str, ui: Ui) -> None:
    name, key, named = QUESTIONS[action]
    await ui.expect_head("session")
    await open_screen(ui, name)
    shown = ui.app.frame.current
    called = str(shown.record.get(shown.KIND.name_key, ""))
    before = len(shown.records())
    await ui.press(key)
    await ui.until(lambda: isinstance(ui.app.screen, Dialog), "the question")
    question = ui.app.screen
    await ui.expect("Effect", *named)
    if name in ("policies", "groups", "api-keys"):
        await ui.expect(called[:20])
    await ui.answer("enter")
    await ui.pilot.pause(0.2)
    assert len(shown.records()) == before
    if ui.app.screen is question:  # one that wants a name typed stays
        await ui.press("escape")

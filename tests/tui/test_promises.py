"""Every screen names its tenant, and every question its effect."""

import pytest

from client.tables.columns import json_of
from tests.tui.screens import SMALL, Ui
from tui.shell import routes
from tui.widgets.dialog import Dialog


async def open_screen(ui: Ui, name: str) -> None:
    await ui.app.frame.navigate(name, "")
    await ui.until(lambda: ui.screen.record is not None, f"rows of {name}")


@pytest.mark.slow
@SMALL
async def test_every_screen_names_context_tenant_and_credential(ui: Ui) -> None:
    await ui.expect_head("session")
    for name in routes.NAMES:
        await ui.app.frame.navigate(name, "")
        for words in ("local", "Aurora Labs", "Web Shop", "owner@aurora.example", "session"):
            assert words in ui.head, name


@pytest.mark.slow
async def test_a_question_names_its_effect_and_enter_does_nothing(ui: Ui) -> None:
    await ui.expect_head("session")
    for name, key, words in QUESTIONS.values():
        await open_screen(ui, name)
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


@pytest.mark.slow
async def test_a_switch_drops_the_rows_of_the_former_tenant(ui: Ui) -> None:
    await ui.expect_head("Web Shop")
    before = {}
    for name in ("policies", "groups", "quotas", "default-tags", "activity"):
        await open_screen(ui, name)
        before[name] = [json_of(row) for row in ui.screen.records()]
    await ui.switch("Data Lake")
    for name, rows in before.items():
        await ui.app.frame.navigate(name, "")
        screen = ui.app.frame.current
        assert screen.tenant_id == ui.app.workspace.tenant_id
        assert [json_of(row) for row in screen.records()] != rows, name
        if name in ("policies", "groups", "activity"):
            assert not {row["id"] for row in rows} & {row["id"] for row in map(json_of, screen.records())}, name
    await ui.switch("Web Shop")


# screen, key, and the required parts of the question besides the record: tenant and effect
QUESTIONS = {
    "policies.delete": ("policies", "delete", ("Web Shop",)),
    "groups.delete": ("groups", "delete", ("Web Shop",)),
    "api-keys.revoke": ("api-keys", "v", ("Web Shop",)),
    "api-keys.delete": ("api-keys", "delete", ("Web Shop",)),
    "sessions.end_all": ("sessions", "delete", ("owner@aurora.example", "ends all sessions now")),
    "contexts.sign_out": ("contexts", "o", ("local", "the session ends")),
    "account.delete": ("account", "delete", ("owner@aurora.example",)),
}

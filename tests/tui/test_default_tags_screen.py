"""The default tags screen: the set, its draft and previews."""

import json
from contextlib import closing

import pytest
from textual.widgets import Button

from tests.homes import Home
from tests.people import ADMIN, NEWSROOM, OWNER, WEB_SHOP
from tests.tui.relay import Relay
from tests.tui.screens import Ui, opened
from tui.launch import Launch
from tui.shell import actions
from tui.state import drafts


async def at_tags(ui: Ui) -> Ui:
    """The default tags of Web Shop."""
    await ui.expect_head("Web Shop")
    await ui.command("default-tags")
    return await ui.expect("4/10 tags", "Version 1 of")


@pytest.mark.slow
async def test_every_edit_changes_the_draft_only_and_is_undone(shared: Home, ui: Ui) -> None:
    await at_tags(ui)
    before = shared.json("tenant", "default-tags", "get")
    await ui.press("n", shows=("New tag in Web Shop", "0/64 bytes", "4/10 tags · Enter add"))
    await ui.type("stage")
    await ui.press("tab")
    await ui.type("pre/prod", shows="8/255 bytes")
    await ui.press("enter", shows=("+ stage", "5/10 tags", "Not saved:  + 1 added", "w save", "D discard"))
    assert "owner@aurora.example" in ui.row("  owner  "), "a value cut for a less important column"
    await ui.press("enter", on="env", shows=("Edit env", "3/64 bytes", "5/10 tags · Enter change"))
    assert str(ui.app.screen.query_one("#save", Button).label) == "Change"
    await ui.press(*["backspace"] * 4)
    await ui.enter("dev", shows=("~ env", "was prod", "~ 1 changed"))
    await ui.press("delete", on="team", shows=("− team", "removed", "4/10 tags", "+ 1 added  ~ 1 changed  − 1 removed"))
    await ui.press("e", toast="removed from the draft: restore the tag first")
    await ui.press("delete", gone="− team")
    await ui.press("z", "z", shows="~ env")
    command = actions.BY_ID["default-tags.save"].command(ui.app.frame.action_context())
    assert command.startswith("frost tenant default-tags set --tag cost-center=eu.team:42 --tag env=dev")
    await ui.press("z", gone="~ env")
    await ui.press("z")
    await ui.until(lambda: "Not saved" not in ui.text and "4/10 tags" in ui.text, "the set as it is stored")
    assert shared.json("tenant", "default-tags", "get") == before

    for number in range(6):
        ui.app.frame.perform("default-tags.add", f"k{number}=v")
    await ui.expect("10/10 tags", "+ 6 added")
    await ui.press("n", toast="at most 10 default tags: remove one first")
    await ui.press("g", *["j"] * 2, "space", "space", "space", "delete", shows="7/10 tags")
    await ui.press("D", gone="Not saved")
    await ui.press("z", shows=("7/10 tags", "Not saved"))
    await ui.press("D")


@pytest.mark.slow
async def test_a_draft_outlives_screen_tenant_and_program(shared: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(shared, monkeypatch) as ui:
        await at_tags(ui)
        ui.app.frame.perform("default-tags.add", "stage=kept")
        await ui.expect("+ stage")
        await ui.press("2", "1")
        await ui.press("t", on="Staging", shows="1/10 tags", head="Staging", gone="Not saved")
        await ui.press("minus", shows=("+ stage", "Not saved"), head="Web Shop")
    async with opened(shared, monkeypatch) as ui:
        await ui.expect_head("Web Shop")
        await ui.command("default-tags", shows=("+ stage", "5/10 tags"), toast="D to discard")
        await ui.press("D", gone="Not saved")
    assert not list((shared.path / ".cli" / "drafts").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("launch", [Launch(tenant=NEWSROOM)])
async def test_a_member_sees_the_set_and_may_not_change_it(ui: Ui) -> None:
    await ui.expect_head("Newsroom")
    await ui.command("default-tags", shows=("desk", "news", "2/10 tags"))
    changes = {"n": "New tag", "enter": "Edit tag", "delete": "Remove tag", "a": "Apply to existing resources"}
    for key, title in changes.items():
        await ui.press(key, toast=f"{title}: only an owner or admin")
    await ui.press("p", toast="Preview apply: only an owner or admin", gone="Not saved")
    await ui.press("v", shows=("history", "► 1"))


@pytest.mark.slow
async def test_a_preview_counts_by_type_key_and_reason(shared: Home, ui: Ui) -> None:
    await at_tags(ui)
    await ui.press("p")
    await ui.expect("Apply preview in Web Shop", "would change", "for the stored tags", "Missing:  cost-center")
    preview = shared.json("tenant", "default-tags", "apply", "--preview")
    await ui.expect(f"{preview['summary']['updated']:,} would change", "managed service")
    assert {row.resource_type: row.counts.wire() for row in ui.screen.records()} == preview["byType"]
    await ui.press("f", shows="Failures and skips in Web Shop")
    await ui.filter("what:skipped why:boot", shows="boot volume")
    await ui.press("escape", "escape", "escape", shows="4/10 tags")
    ui.app.frame.perform("default-tags.add", "brand-new=1")
    await ui.press("p", shows=("for the unsaved draft", "brand-new"))
    await ui.press("a", toast="unsaved changes: save them first")
    await ui.press("escape", "D", gone="Not saved")


@pytest.mark.slow
async def test_a_draft_is_not_restored_before_the_user_is_known(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    demo.sign_in(ADMIN)
    with closing(Relay(demo)) as relay:
        relay.held = "/api/v1/me"
        async with opened(demo, monkeypatch, launch=Launch(tenant=WEB_SHOP)) as ui:
            workspace = ui.app.workspace
            workspace._memory.who = OWNER  # the user of the last run
            path = drafts.path_of(workspace.environ, workspace.endpoint, WEB_SHOP, drafts.ABOUT, OWNER)
            text = json.dumps({"base": {}, "tags": {"owners": "draft"}})
            assert drafts.keep(path, drafts.Draft(text, at="2026-11-21T10:00:00Z", who=OWNER)) == ""
            ui.app.frame.go("default-tags")
            await ui.until(lambda: workspace.collections.get("default tags", WEB_SHOP).known, "the stored tags")
            await ui.expect("cost-center")
            assert "owners" not in ui.text
            relay.release.set()
            await ui.expect_head(ADMIN)
            await ui.expect("4/10 tags")
            assert "owners" not in ui.text

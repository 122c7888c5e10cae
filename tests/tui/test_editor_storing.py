"""Storing a draft during conflicts and without a response."""

from typing import Any

import pytest

from client.api import policies as policy_calls
from client.connection import Connection
from tests.homes import Home
from tests.tui.editing import Edit, Editing, document, editing, hung, policies, rule, stored
from tui.state.context_state import Limits

pytestmark = pytest.mark.slow

READ = "compute:instances:read"


async def test_a_save_without_a_platform_keeps_the_draft(
    demo: Home, monkeypatch: pytest.MonkeyPatch, edit: Edit
) -> None:
    it = await edit()
    mine = document(rule(READ, name="mine"))
    await it.evaluate(mine)
    await it.press("ctrl+s", shows="Effect on *")
    with monkeypatch.context() as broken:
        broken.setattr(Connection, "start", lambda _: False)
        demo.kill_platform()
        await it.press("enter", shows="not saved, ^s to retry: ")
    assert it.text == mine
    assert "mine" in next((demo.path / ".cli" / "drafts").glob("*.json")).read_text()


async def test_a_save_over_their_name_shows_it_and_keeps_their_description(demo: Home, edit: Edit) -> None:
    it = await edit()
    await it.change_elsewhere(name="their name", description="their words")
    await it.evaluate(document(rule(READ, name="mine")))
    await it.press("ctrl+s", shows="Effect on *")
    await it.press("tab", "ctrl+u", *"mine", shows=("Change of name", "− deployments", "+ mine"))
    await it.press("enter", shows="Newer version: 4")
    await it.press("o", shows=("Save their name on version 4", "Change of name", "− their name", "+ mine"))
    await it.gone("In description")
    await it.press("enter", shows="Policy  mine  version 5")
    assert (await stored(it.ui, "mine")).description == "their words"


async def test_an_unanswered_save_can_be_tried_again(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    limits, text = Limits(save_seconds=1.0), document(rule(READ, name="slow"))
    async with editing(demo, monkeypatch, policy=None, text=text, limits=limits) as it:
        await it.press("ctrl+s", shows=("Save a new policy", "Effect on *"))
        await it.press(*"kept", "space", *"name")
        with hung(demo):
            await it.press("enter", shows=("Policy  kept name", "saving …"))
            await it.press("ctrl+s", toast="Save: save in progress")
            await it.expect("not saved, ^s to retry: no response within 1 s")
            limits.effect_seconds = 0.5
            await it.press("ctrl+s", shows=("Save a new policy", "kept name", "unknown: no response within"))
            await it.press("escape")
        assert it.text == text
        limits.save_seconds = limits.effect_seconds = 10.0
        await it.press("ctrl+s", shows="Effect on *")
        await it.press("enter", shows="Policy  kept name  version 1", gone="could not be saved")


async def test_text_typed_during_a_save_keeps_the_editor_open(demo: Home, edit: Edit) -> None:
    it = await edit()
    await it.evaluate(document(rule(READ, name="first")))
    await it.press("escape", "q", shows="Unsaved changes")
    await it.press("s", shows="Effect on *")
    later = document(rule(READ, name="second"))
    with hung(demo):
        await it.press("enter", shows="saving …")
        await it.write(later)
    await it.expect("version 4", "unsaved")
    await it.ui.see(top=it.editor)
    assert it.text == later
    await it.press("q", shows="Unsaved changes")


async def store_unanswered(it: Editing, name: str) -> str:
    """Store the new policy as a save whose response was lost; return its id."""
    client = await it.ui.app.workspace.client()
    key = it.editor.document.idempotency_key
    created = await client.ask(policy_calls.create(it.editor.tenant_id, name, "", it.text, idempotency_key=key))
    return str(created.id)


async def save_as(it: Editing, name: str, **outcome: Any) -> None:
    await it.press("ctrl+s", shows=("Save a new policy", "Effect on *"))
    await it.press(*name, "enter", **outcome)


async def test_a_save_without_a_response_is_not_stored_twice(demo: Home, edit: Edit) -> None:
    first = document(rule(READ, name="first"))
    it = await edit(policy=None, text=first)
    policy_id = await store_unanswered(it, "arrived")
    await save_as(it, "arrived", shows="Policy  arrived  version 1")
    assert [one.id for one in await policies(it.ui) if one.name == "arrived"] == [policy_id]
    await it.editor.leave(keep=False)

    it = await edit(policy=None, text=first)
    await store_unanswered(it, "changed")
    await it.evaluate(document(rule(READ, name="second")))
    await save_as(it, "changed", shows=("Save changed on version 1", "Your earlier request was stored"))
    await it.press("enter", shows="Policy  changed  version 2")
    (changed,) = [one for one in await policies(it.ui) if one.name == "changed"]
    assert changed.document["rules"][0]["name"] == "second"
    await it.editor.leave(keep=False)

    it = await edit(policy=None, text=first)
    client = await it.ui.app.workspace.client()
    await client.ask(policy_calls.delete(it.editor.tenant_id, await store_unanswered(it, "deleted")))
    await save_as(it, "deleted", shows="the policy was stored and then deleted; save to create it again")
    await it.press("enter", shows="Policy  deleted  version 1")

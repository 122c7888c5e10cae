"""Completing, narrowing, saving, leaving and resuming, on the real platform."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.api import analysis
from client.models.account import Me
from tests.conftest import signed_in
from tests.homes import Home
from tests.tui.editing import Edit, Editing, document, policies, push, rule, stored
from tests.tui.screens import SMALL
from tui.shell.routes import PrincipalLoaded
from tui.state import drafts

pytestmark = pytest.mark.slow

READ = "compute:instances:read"


@pytest.fixture(scope="module")
def viewer(demo_platform: Path) -> Iterator[Home]:
    """The demo world for a user who reads compute and nothing else."""
    with signed_in(demo_platform, "viewer@aurora.example") as home:
        yield home


async def test_operations_and_fields_are_completed_and_brackets_indented(edit: Edit) -> None:
    it = await edit(policy=None, text=document(rule("x")))
    it.editor.pane.show_line(3, it.editor.pane.document.get_line(3).index('"x"') + 2)
    await it.press("backspace", *"compu", shows="compute: ")
    await it.press("enter", shows="compute:instances:")
    await it.press(*"instances", shows="compute:instances: ")
    await it.press("tab", *"rea", shows="compute:instances:read ")
    await it.press("tab")
    assert '"operations": ["compute:instances:read"]' in it.text
    assert len(it.text.splitlines()) == 6
    await it.expect("✓ ALLOWED")
    it.editor.pane.show_line(3, it.editor.pane.document.get_line(3).index("allow"))
    await it.press("f2", shows="denies; takes precedence over allow")
    await it.press("escape")
    assert not it.editor.popup.is_open
    assert it.editor.focused is it.editor.pane

    await it.press("f3", "ctrl+u", *"storage:obj", shows="storage:objects: ")
    await it.press("enter", *"rea", "enter")
    await it.until(lambda: it.editor.form.values["operation"] == "storage:objects:read", "the completed operation")
    await it.press("down", "down", *"api")
    await it.press("enter")
    assert it.editor.form.values["principalType"] == "api_key"
    await it.press("escape")
    assert it.editor.focused is it.editor.pane

    await it.write("{}")
    it.editor.pane.show_line(0, 1)
    await it.press("enter")
    assert it.text == "{\n  \n}"
    await it.press("left_square_bracket", "enter", "right_square_bracket")
    assert it.text == "{\n  [\n  ]\n}"
    for _ in range(4):
        await it.press("ctrl+z")
    assert it.text == "{}"


async def test_saving_shows_the_difference_and_stores_a_version(demo: Home, edit: Edit) -> None:
    it = await edit()
    await it.press("ctrl+s", top=it.editor)  # nothing was changed
    await it.evaluate(it.text.replace('"storage:objects:*",', '"storage:objects:read",'))
    await it.press("ctrl+s")
    await it.expect("Save deployments on version 3", "lost", "− storage:objects:", '+         "storage:objects:read"')
    await it.press("escape", top=it.editor)
    assert (await stored(it.ui, "deployments")).version == 3
    await it.press("ctrl+s", shows="Effect on *")
    await it.press("enter", shows=("version 4", "saved"))
    policy = await stored(it.ui, "deployments")
    assert (policy.version, policy.description) == (4, it.editor.document.description)
    assert "storage:objects:read" in policy.document["rules"][0]["operations"]
    assert not list((demo.path / ".cli" / "drafts").glob("*.json"))
    await it.expect("same as v4")


OFFICE = ', "constraints": {"ipInRange": {"frn:sourceIp": ["192.0.2.0/24"]}}'
NARROWER = OFFICE.replace("/24", "/25")


async def test_a_save_shows_changed_conditions(demo: Home, edit: Edit) -> None:
    it = await edit(policy=None, text=document(rule("dns:*", more=OFFICE)))
    await it.press("ctrl+s", shows=("~12 new conditional", "~ dns:", "new, conditional"), gone="no operations gained")
    await it.ui.enter("zones", shows="version 1")
    await it.evaluate(document(rule("dns:*", more=NARROWER)))
    await it.press("ctrl+s", shows=("Save zones on version 1", "~12 conditional changes", "changed conditions"))
    await it.gone("the same operations as before")
    await it.press("escape")
    await it.evaluate(document(rule("dns:zones:read")))
    await it.press("ctrl+s", shows=("+1 gained, ~11 conditional lost", "+ dns:zones:read  was conditional"))
    await it.expect("lost, was conditional")
    await it.press("escape")


async def test_a_new_policy_needs_a_name_only(demo: Home, edit: Edit) -> None:
    it = await edit(policy=None)
    await it.expect("(unnamed)", "new", "✓ ALLOWED")
    await it.press("ctrl+s", shows=("Save a new policy", "+ compute:"))
    await it.press("enter", shows="a name is required")
    await it.press("d", gone="a name is required")
    await it.press(*"raft", "escape", shows="Policy  draft  new")
    await it.press("ctrl+s", shows="Save a new policy")
    await it.press(*"nightly", "enter", shows="Policy  nightly  version 1")
    assert any(one.name == "nightly" for one in await policies(it.ui))
    await it.press("ctrl+g", top=it.ui.app.frame)
    assert it.editor.document.saved is not None


async def test_a_version_stored_by_another_user_is_replaced_on_request_only(demo: Home, edit: Edit) -> None:
    it = await edit()
    changed = document(rule("network:*:read", name="theirs"))
    await it.change_elsewhere(document_text=changed, description="of the others")
    mine = document(rule("storage:*:read", name="mine"))
    await it.evaluate(mine)
    await it.press("ctrl+s", shows="Effect on *")
    await it.press("enter", shows=("Newer version: 4", "by ", "document"))
    await it.ui.answer("d", shows=("Changes in version 4", "Change of description", "+ of the others"))
    await it.press("pagedown", shows='"name": "theirs"')
    await it.press("escape", shows="Save my changes on top")
    await it.press("escape")
    assert it.text == mine
    assert (await stored(it.ui, "deployments")).version == 4
    await it.press("ctrl+s", shows="Effect on *")
    await it.press("enter", shows="Newer version: 4")
    await it.ui.answer("o")
    await it.expect("Save deployments on version 4", "Effect on keys and identities", "deploy-pipeline", "Effect on *")
    await it.press(*["pagedown"] * 3, shows='−       "name": "theirs"')
    await it.press("enter", shows="version 5")
    after = await stored(it.ui, "deployments")
    assert (after.document["rules"][0]["name"], after.description) == ("mine", "of the others")


async def test_a_draft_beyond_its_author_is_refused_and_narrowed(viewer: Home, edit: Edit) -> None:
    text = document(rule("compute:instances:*", name="all of it"), rule("compute:instances:delete", name="again"))
    it = await edit(policy=None, text=text)
    await it.expect("× grants more than you have")
    refusal = ("× The draft grants more than you have (", "). Saving will be refused")
    await it.press("ctrl+s", shows=("Save a new policy", *refusal))
    await it.press(*"too much", "enter")
    await it.expect("Save a new policy", "Not saved: ", "compute:instances:", "by rule 1 all of it", "Esc, then f9")
    await it.expect("too much")
    await it.press("escape", shows=("× The draft would allow", "you do not have this permission"))
    assert it.text == text
    assert not any(one.name == "too much" for one in await policies(it.ui))
    shown = it.editor.panel.counterexample
    await it.press("t")
    await it.until(lambda: it.editor.form.values["operation"] == shown.operation, "the example in the form")
    await it.expect("✓ ALLOWED")
    await it.press("f9", shows=("Fix:", "rule 1", "left to fix"))
    await it.press("1")
    await it.until(lambda: it.text != text, "the narrowed text")
    await it.expect("× DENIED")
    await it.answered()
    assert all(one.operation != shown.operation for one in it.editor.evaluation.counterexamples)
    assert it.editor.evaluation.any_target.effective < 20
    await it.press("f9", shows="operations you have")
    keep = next(line for line in it.ui.text.splitlines() if "operations you have" in line)
    await it.press(keep.split("Limit")[0].split()[-1])
    await it.answered()
    for _ in range(4):
        if it.editor.evaluation.check.answer == "within":
            break
        await it.press("f9", shows="Fix:")
        await it.press("enter")
        await it.answered()
    await it.expect("✓ within your permissions")
    it.editor.set_focus(it.editor.pane)
    for _ in range(8):
        await it.press("ctrl+z")
    assert it.text == text


async def test_a_limited_rule_grants_no_operation_of_the_future(viewer: Home, edit: Edit) -> None:
    it = await edit(policy=None, text=document(rule("compute:*:list compute:*")))
    await it.expect("× grants more than you have")
    await it.press("f9", shows="to the 21 operations you have")
    await it.press("down", shows="then within your permissions")
    await it.press("2")
    await it.answered()
    await it.expect("✓ within your permissions")
    assert '"compute:instance-types:read"' in it.text
    assert it.editor.evaluation.any_target.effective == 21


@SMALL
async def test_fixes_are_explained_and_end_with_their_user(viewer: Home, edit: Edit) -> None:
    it = await edit(policy=None, text=document(rule("compute:instances:*")))
    await it.ask(operation="compute:instances:create")
    await it.expect("Author × grants more than you have  Request ✓ ALLOWED")
    await it.press("f9", shows=("Fix:", "Keeps the other operations of the rule", "left to fix"))
    workspace = it.ui.app.workspace
    workspace.me = Me.model_validate({**workspace.me.wire(), "id": "another"})
    it.editor.post_message(PrincipalLoaded())
    await it.ui.expect_toast("Not applied: the user has changed")
    await it.ui.see(top=it.editor)


async def test_a_save_beyond_its_author_names_the_principals(viewer: Home, edit: Edit) -> None:
    it = await edit()
    await it.write(document(rule(READ, name="mine")), shows="✓ within your permissions")
    it.editor.go("author")
    await it.expect("✓ The draft grants nothing beyond your")
    await it.gone("can be saved")
    await it.press("ctrl+s", shows=("Save deployments on version 3", "Effect on keys and identities"))
    await it.press("enter", shows=("Not saved: ", "more permissions than you have", "API key", "deploy-pipeline"))
    await it.expect("Ask the author", "a user who has")
    assert (await stored(it.ui, "deployments")).version == 3
    await it.press("escape", top=it.editor)


async def test_layout_is_no_difference_and_affected_principals_are_named(edit: Edit) -> None:
    it = await edit()
    changed = json.loads(it.text.replace("roll-out", "rolled out"))
    rules = [dict(reversed(one.items())) for one in changed["rules"]]
    await it.evaluate(json.dumps({**changed, "rules": rules}))
    it.editor.perform("editor.changes")
    await it.expect("Difference in text", '−       "name": "roll-out"', '+       "name": "rolled out"')
    assert len([line for line in it.ui.text.splitlines() if " −  " in line or " +  " in line]) == 2
    await it.press("escape", top=it.editor)
    await it.evaluate(document(rule(READ, name="less")))
    change = {"policyId": it.editor.document.id, "documentText": it.text}
    client = await it.ui.app.workspace.client()
    answer = await client.ask(analysis.preview(it.editor.tenant_id, "updatePolicy", **change))
    losing = [one.name for one in answer.principals if one.lost_count]
    assert losing
    await it.press("ctrl+s", shows=("Effect on keys and identities", *losing))
    assert it.ui.text.index("Effect on keys and identities") < it.ui.text.index("Effect on *")


async def test_a_draft_is_offered_with_its_version(demo: Home, edit: Edit) -> None:
    it = await edit()
    ui = it.ui
    typed = it.text.replace("roll-out", "roll out slowly")
    await it.write(typed)
    await it.press("escape", "q", shows=("Unsaved changes", "Close and keep the draft"))
    await it.press("escape", top=it.editor)
    await it.press("q", shows="Unsaved changes")
    await it.press("k", toast="Draft kept: e to resume", top=ui.app.frame)
    await it.change_elsewhere(description="changed since")
    await push(ui, await stored(ui, "deployments"))
    await ui.expect("Unsaved draft of", "Based on version 3", "Esc close editor")
    await ui.press("escape", top=ui.app.frame)  # decides nothing
    again = await push(ui, await stored(ui, "deployments"))
    await ui.expect("Unsaved draft of", "Based on version 3")
    await ui.press("r")
    await ui.until(lambda: again.pane.text == typed and again.document.version == 3, "the draft and its version")
    await ui.expect("rule 1 roll out slowly")
    assert again.document.idempotency_key == it.editor.document.idempotency_key
    await ui.press("ctrl+s", shows="Save deployments on version 3")
    await ui.press("enter", shows=("Newer version: 4", "description"))


@pytest.mark.parametrize("size", [(120, 50)])
async def test_the_actions_have_names_and_formatting_refuses_an_ambiguous_text(edit: Edit) -> None:
    it = await edit(policy=None, text=document(rule(READ, name="a")))
    await it.press("f1", shows=("Remove excess permissions", "the draft is within your own", "Open in $EDITOR", "f4 e"))
    await it.press("escape", "f10", shows=("New from template", "Remove excess permissions"))
    await it.press("escape", "ctrl+p", *"format", shows="Format the text")
    await it.press("escape", "f7")
    assert it.text.splitlines()[3:6] == ["    {", '      "name": "a",', '      "access": "allow",']
    await it.expect("allowed by rule 1 a")
    await it.evaluate('{"schemaVersion": "1", "schemaVersion": "1"}')
    await it.press("f7")
    assert it.text == '{"schemaVersion": "1", "schemaVersion": "1"}'
    await it.evaluate('{"rules": [], "raules": 1}')
    assert it.editor.evaluation.problems
    await it.press("f7")
    assert it.text == '{\n  "rules": [],\n  "raules": 1\n}\n'


async def test_a_draft_is_offered_to_its_author_only(demo: Home, edit: Edit) -> None:
    it = await edit(policy=None)
    ui = it.ui
    await it.write(document(rule(READ, name="owners")))
    await it.ask(operation="", target="frn:compute:*:*:instances/web-1")
    await it.press("escape", "q", "k", top=ui.app.frame)
    workspace = ui.app.workspace
    assert workspace.me is not None
    owner = workspace.me
    workspace.me = Me.model_validate({**owner.wire(), "email": "member@aurora.example"})
    other = await push(ui, None)
    await other.offer_draft()  # shows no question
    assert ui.app.screen is other
    other.pane.set_text(document(rule(READ, name="members")))
    await other.leave(keep=True)
    await ui.see(top=ui.app.frame)
    workspace.me = owner
    again = await push(ui, None)
    await ui.expect("Unsaved draft of", "Based on a new policy")
    await ui.press("r")
    await ui.until(lambda: "owners" in again.pane.text, "the owner's draft")
    resumed = await Editing(ui, again).evaluate(document(rule(READ, name="owner")))
    assert (again.form.values["operation"], again.form.values["target"]) == ("", "frn:compute:*:*:instances/web-1"), (
        resumed
    )
    await again.leave(keep=False)
    await ui.see(top=ui.app.frame)

    # The files of an earlier release do not have the author in their names.
    earlier = drafts.path_of(workspace.environ, workspace.endpoint, workspace.tenant_id, "", "")
    drafts.keep(earlier, drafts.Draft(document(rule(READ, name="earlier")), who="viewer@aurora.example"))
    other = await push(ui, None)
    await other.offer_draft()
    assert ui.app.screen is other
    await other.leave(keep=False)
    drafts.keep(earlier, drafts.Draft(document(rule(READ, name="earlier")), who=workspace.who))
    again = await push(ui, None)
    await ui.expect("Unsaved draft of")
    await ui.press("r")
    await ui.until(lambda: "earlier" in again.pane.text, "the draft")
    assert not earlier.exists()


async def test_the_editor_stays_open_if_the_draft_cannot_be_written(demo: Home, edit: Edit) -> None:
    it = await edit()
    folder = demo.path / ".cli" / "drafts"
    folder.write_text("no folder")
    try:
        typed = it.text.replace("roll-out", "roll out slowly")
        await it.write(typed, toast=f"Draft not kept: cannot write to {folder}: ")
        await it.press("escape", "q", shows="Unsaved changes")
        await it.press("k", toast=("Draft not kept: cannot write to", "Save the policy, or free space"), top=it.editor)
        assert it.text == typed
    finally:
        folder.unlink()
    await it.press("q", shows="Unsaved changes")
    await it.press("k", toast="Draft kept: e to resume", top=it.ui.app.frame)
    stored_draft = drafts.load(it.editor.autosave.path)
    assert stored_draft is not None
    assert stored_draft.text == typed


async def test_an_automatic_save_does_not_write_a_discarded_draft(demo: Home, edit: Edit) -> None:
    it = await edit()
    await it.write(it.text.replace("roll-out", "roll out slowly"))
    autosave = it.editor.autosave
    with autosave._files._lock:  # the deletion waits
        leaving = asyncio.create_task(it.editor.leave(keep=False))
        await asyncio.sleep(0)
        saving = asyncio.create_task(autosave.update())  # as the timer does
        await asyncio.sleep(0)
    await asyncio.gather(leaving, saving)
    assert not autosave.path.exists()
    await it.ui.see(top=it.ui.app.frame)


async def test_a_draft_is_not_replaced_before_the_user_decides(
    demo: Home, monkeypatch: pytest.MonkeyPatch, edit: Edit
) -> None:
    it = await edit()
    base, typed = it.text, it.text.replace("roll-out", "roll out slowly")
    await it.write(typed)
    await it.press("escape", "q", shows="Unsaved changes")
    await it.press("k", toast="Draft kept: e to resume", top=it.ui.app.frame)
    path, load, loading = it.editor.autosave.path, drafts.load, threading.Event()

    def slow(target: Path) -> drafts.Draft | None:
        loading.wait(60)
        return load(target)

    def text_on_disk() -> str:
        draft = load(path)
        return draft.text if draft is not None else ""

    monkeypatch.setattr(drafts, "load", slow)
    policy = await stored(it.ui, "deployments")
    early = Editing(it.ui, await push(it.ui, policy))
    await it.press("escape", "q", top=it.ui.app.frame)  # before the draft is loaded
    assert text_on_disk() == typed

    early = Editing(it.ui, await push(it.ui, policy))
    for text in (document(rule(READ, name="typed early")), base):
        await early.write(text)
        early.editor._autosave()  # as the timer does
        await early.editor.autosave.update()
        assert text_on_disk() == typed
    loading.set()
    await early.expect("Unsaved draft of")
    await early.editor.autosave.update()
    await early.press("escape", top=it.ui.app.frame)
    assert text_on_disk() == typed

    loading.clear()
    early = Editing(it.ui, await push(it.ui, policy))
    await early.write(document(rule(READ, name="typed early")))
    loading.set()
    await early.expect("Unsaved draft of")
    await early.press("d", top=early.editor)
    await early.until(lambda: "typed early" in text_on_disk(), "the text typed before the question")


async def test_a_read_only_session_saves_nothing_and_keeps_the_drafts(demo: Home, edit: Edit) -> None:
    def files() -> dict[str, bytes]:
        return {one.name: one.read_bytes() for one in (demo.path / ".cli" / "drafts").iterdir()}

    it = await edit()
    typed = it.text.replace("roll-out", "writer")
    await it.write(typed)
    await it.editor.leave(keep=True)
    it.ui.app.workspace.read_only = "the context local is read-only"
    before = files()
    assert before
    reader = await push(it.ui, await stored(it.ui, "deployments"))
    await reader.offer_draft()
    assert it.ui.app.screen is reader
    reader.pane.set_text(typed.replace("writer", "reader"))
    await it.ui.expect("allowed by rule 1 reader")
    await it.press("ctrl+s", toast="Save: the context local is read-only", top=reader)
    await it.press("escape", "q", shows=("Unsaved changes", "Discard changes"))
    assert "keep the draft" not in it.ui.text
    await it.press("escape", top=reader)
    await reader.leave(keep=False)
    await it.ui.see(top=it.ui.app.frame)
    assert files() == before

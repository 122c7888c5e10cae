"""Completing, narrowing, saving, leaving and resuming, on the real platform."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.api import analysis
from client.api import policies as policy_calls
from tests.conftest import opened as home_of
from tests.homes import Home
from tests.tui.editing import Edit, document, editing, policies, push, rule, stored
from tests.tui.screens import BOTH_SIZES
from tui.state import drafts

pytestmark = pytest.mark.slow

READ = "compute:instances:read"


@pytest.fixture
def viewer(demo_platform: Path) -> Iterator[Home]:
    """The demo world, signed in as somebody who reads compute and nothing else."""
    home = home_of(demo_platform, FROST_PLATFORM_PROVISIONING_PACE="600")
    assert home.frost("login", "--as", "viewer@aurora.example").code == 0
    yield home
    home.remove()


async def test_operations_are_completed_part_by_part(edit: Edit) -> None:
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


async def test_fields_are_completed_and_the_request_follows(edit: Edit) -> None:
    it = await edit()
    await it.press("f3", "ctrl+u", *"storage:obj", shows="storage:objects: ")
    await it.press("enter", *"rea", "enter")
    await it.until(lambda: it.editor.form.values["operation"] == "storage:objects:read", "the completed operation")
    await it.press("down", "down", *"api")
    await it.press("enter")
    assert it.editor.form.values["principalType"] == "api_key"
    await it.press("escape")
    assert it.editor.focused is it.editor.pane


async def test_indentation_follows_the_brackets_and_is_undone(edit: Edit) -> None:
    it = await edit(policy=None, text="{}")
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
    await it.press("ctrl+s")
    await it.until(lambda: it.ui.app.screen is it.editor, "the editor on top")  # nothing was changed
    await it.evaluate(it.text.replace('"storage:objects:*",', '"storage:objects:read",'))
    await it.press("ctrl+s")
    await it.expect("Save deployments on version 3", "lost", "− storage:objects:", '+         "storage:objects:read"')
    await it.press("escape", top=it.editor)
    assert (await stored(it.ui, "deployments"))["version"] == 3
    await it.press("ctrl+s", shows="Effect on *")
    await it.press("enter", shows=("version 4", "saved"))
    policy = await stored(it.ui, "deployments")
    assert policy["version"] == 4
    assert "storage:objects:read" in policy["document"]["rules"][0]["operations"]
    assert policy["description"] == it.editor.document.description
    assert not list((demo.path / ".cli" / "drafts").glob("*.json"))
    await it.expect("same as v4")


OFFICE = ', "constraints": {"ipInRange": {"frn:sourceIp": ["192.0.2.0/24"]}}'
NARROWER = OFFICE.replace("/24", "/25")


@BOTH_SIZES
async def test_a_save_shows_changed_conditions(demo: Home, edit: Edit) -> None:
    it = await edit(policy=None, text=document(rule("dns:*", more=OFFICE)))
    await it.press("ctrl+s", shows=("~12 new conditional", "~ dns:", "new, conditional"))
    await it.ui.gone("no operations gained")
    await it.ui.enter("zones", shows="version 1")
    await it.evaluate(document(rule("dns:*", more=NARROWER)))
    await it.press("ctrl+s", shows=("Save zones on version 1", "~12 conditional changes", "changed conditions"))
    await it.ui.gone("the same operations as before")
    await it.press("escape")
    await it.evaluate(document(rule("dns:zones:read")))
    await it.press("ctrl+s")
    await it.expect("+1 gained, ~11 conditional lost", "+ dns:zones:read  was conditional")
    await it.expect("lost, was conditional")
    await it.press("escape")


async def test_a_new_policy_needs_a_name_only(demo: Home, edit: Edit) -> None:
    it = await edit(policy=None)
    await it.expect("(unnamed)", "new", "✓ ALLOWED")
    await it.press("ctrl+s", shows=("Save a new policy", "+ compute:"))
    await it.press("enter", shows="a name is required")
    await it.press(*"nightly", "enter", shows="Policy  nightly  version 1")
    assert any(one["name"] == "nightly" for one in await policies(it.ui))
    await it.press("ctrl+g", top=it.ui.app.frame)
    assert it.editor.document.saved is not None


async def test_a_version_stored_meanwhile_is_replaced_on_request_only(demo: Home, edit: Edit) -> None:
    it = await edit()
    theirs = document(rule("network:*:read", name="theirs"))
    await it.meanwhile(document_text=theirs)
    mine = document(rule("storage:*:read", name="mine"))
    await it.evaluate(mine)
    await it.press("ctrl+s", shows="Effect on *")
    await it.press("enter", shows=("Newer version: 4", "by ", "document"))
    await it.ui.answer("d", shows=("Changes in version 4", '"name": "theirs"'))
    await it.press("escape", shows="Save my changes on top")
    await it.press("escape")
    assert it.text == mine
    assert (await stored(it.ui, "deployments"))["version"] == 4
    await it.press("ctrl+s", shows="Effect on *")
    await it.press("enter", shows="Newer version: 4")
    await it.ui.answer("o")
    await it.expect("Save deployments on version 4", "Effect on keys and identities", "deploy-pipeline", "Effect on *")
    await it.press(*["pagedown"] * 3, shows='−       "name": "theirs"')
    await it.press("enter", shows="version 5")
    assert (await stored(it.ui, "deployments"))["document"]["rules"][0]["name"] == "mine"


async def test_a_draft_beyond_its_author_is_refused_and_narrowed(viewer: Home, edit: Edit) -> None:
    text = document(rule("compute:instances:*", name="all of it"), rule("compute:instances:delete", name="again"))
    it = await edit(policy=None, text=text)
    await it.expect("× grants more than you have")
    await it.press("ctrl+s", shows=("Save a new policy", "× It grants more than you have: ", "Saving will be refused"))
    await it.press(*"too much", "enter")
    await it.expect("Save a new policy", "Not saved: ", "compute:instances:", "by rule 1 all of it", "Esc, then f9")
    await it.expect("too much")
    await it.press("escape", shows=("× The draft would allow", "you do not have this permission"))
    assert it.text == text
    assert not any(one["name"] == "too much" for one in await policies(it.ui))
    shown = it.editor.panel.counterexample
    await it.press("t")
    await it.until(lambda: it.editor.form.values["operation"] == shown["operation"], "the example in the form")
    await it.expect("✓ ALLOWED")
    await it.press("f9", shows=("Fix:", "rule 1", "left to fix"))
    await it.press("1")
    await it.until(lambda: it.text != text, "the narrowed text")
    await it.expect("× DENIED")
    await it.answered()
    assert all(one["operation"] != shown["operation"] for one in it.editor.evaluation.counterexamples)
    assert it.editor.evaluation.any_target["effective"] < 20
    await it.press("f9", shows="operations you have")
    keep = next(line for line in it.ui.text.splitlines() if "operations you have" in line)
    await it.press(keep.split("Limit")[0].split()[-1])
    await it.answered()
    for _ in range(4):
        if (it.editor.evaluation.check or {}).get("answer") == "within":
            break
        await it.press("f9", shows="Fix:")
        await it.press("enter")
        await it.answered()
    await it.expect("✓ within your permissions")
    it.editor.set_focus(it.editor.pane)
    for _ in range(8):
        await it.press("ctrl+z")
    assert it.text == text


async def test_a_save_beyond_its_author_names_the_principals(
    demo_platform: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = home_of(demo_platform, FROST_PLATFORM_PROVISIONING_PACE="600")
    try:
        assert home.frost("login", "--as", "viewer@aurora.example").code == 0
        async with editing(home, monkeypatch) as it:
            await it.write(document(rule(READ, name="mine")), shows="✓ within your permissions")
            it.editor.go("author")
            await it.expect("✓ The draft grants nothing beyond your")
            await it.ui.gone("can be saved")
            await it.press("ctrl+s", shows=("Save deployments on version 3", "Effect on keys and identities"))
            await it.press("enter")
            await it.expect(
                "Not saved: ",
                "more permissions than you have",
                "API key",
                "deploy-pipeline",
                "Ask the author",
                "a user who has",
            )
            assert (await stored(it.ui, "deployments"))["version"] == 3
            await it.press("escape", top=it.editor)
    finally:
        home.remove()


async def test_affected_principals_are_named_before_a_save(edit: Edit) -> None:
    it = await edit()
    client = await it.ui.app.workspace.client()
    await it.evaluate(document(rule(READ, name="less")))
    change = {"policyId": it.editor.document.id, "documentText": it.text}
    answer = await client.ask(analysis.preview(it.editor.tenant_id, "updatePolicy", **change))
    losing = [one for one in answer["principals"] if one["lostCount"]]
    assert losing
    await it.press("ctrl+s")
    await it.expect("Effect on keys and identities", *(str(one["name"]) for one in losing))
    assert it.ui.text.index("Effect on keys and identities") < it.ui.text.index("Effect on *")


async def test_layout_is_no_difference(edit: Edit) -> None:
    it = await edit()
    changed = json.loads(it.text.replace("roll-out", "rolled out"))
    turned = [dict(reversed(one.items())) for one in changed["rules"]]
    await it.evaluate(json.dumps({**changed, "rules": turned}))
    it.editor.perform("editor.changes")
    await it.expect("Difference in text", '−       "name": "roll-out"', '+       "name": "rolled out"')
    marked = [line for line in it.ui.text.splitlines() if " −  " in line or " +  " in line]
    assert len(marked) == 2


async def test_a_kept_draft_is_offered_with_its_version(demo: Home, edit: Edit) -> None:
    it = await edit()
    typed = it.text.replace("roll-out", "roll out slowly")
    await it.write(typed)
    await it.press("escape", "q", shows=("Unsaved changes", "Close and keep the draft"))
    await it.press("escape", top=it.editor)
    await it.press("q", shows="Unsaved changes")
    await it.press("k", toast="Draft kept: e to resume", top=it.ui.app.frame)
    policy = await stored(it.ui, "deployments")
    client = await it.ui.app.workspace.client()
    await client.ask(policy_calls.update(it.editor.tenant_id, policy["id"], description="changed meanwhile"))
    again = await push(it.ui, await stored(it.ui, "deployments"))
    await it.ui.expect("Unsaved draft of", "Based on version 3", "Esc close editor")
    await it.ui.press("escape")  # decides nothing
    await it.ui.until(lambda: it.ui.app.screen is it.ui.app.frame, "the frame")
    again = await push(it.ui, await stored(it.ui, "deployments"))
    await it.ui.expect("Unsaved draft of", "Based on version 3")
    await it.ui.press("g")
    await it.ui.until(lambda: again.pane.text == typed, "the draft")
    await it.ui.until(lambda: again.document.version == 3, "the version it began with")
    assert again.document.idempotency_key == it.editor.document.idempotency_key
    await it.ui.press("ctrl+s", shows="Save deployments on version 3")
    await it.ui.press("enter", shows=("Newer version: 4", "description"))


@pytest.mark.parametrize("policy", ["deployments", None])
async def test_escape_never_closes_the_editor(policy: str | None, edit: Edit) -> None:
    it = await edit(policy=policy)
    for _ in range(4):
        await it.press("escape")
        assert it.ui.app.screen is it.editor
    await it.ui.expect_toast("^g or q closes the editor")
    await it.press("q", top=it.ui.app.frame)


async def test_a_draft_is_offered_to_its_author_only(demo: Home, edit: Edit) -> None:
    it = await edit(policy=None)
    await it.write(document(rule(READ, name="owners")))
    await it.press("escape", "q", "k", top=it.ui.app.frame)
    workspace = it.ui.app.workspace
    assert workspace.me is not None
    owner, workspace.me = workspace.me, {**workspace.me, "email": "member@aurora.example"}
    other = await push(it.ui, None)
    await other.offer_draft()  # would ask
    assert it.ui.app.screen is other
    other.pane.set_text(document(rule(READ, name="members")))
    await other.leave(keep=True)
    await it.ui.until(lambda: it.ui.app.screen is it.ui.app.frame, "the frame")
    workspace.me = owner
    again = await push(it.ui, None)
    await it.ui.expect("Unsaved draft of", "Based on a new policy")
    await it.ui.press("g")
    await it.ui.until(lambda: "owners" in again.pane.text, "the owner's draft")


async def test_a_draft_of_an_earlier_release_is_offered_to_its_author(demo: Home, edit: Edit) -> None:
    it = await edit(policy=None)
    workspace = it.ui.app.workspace
    await it.editor.leave(keep=False)
    earlier = drafts.path_of(workspace.environ, workspace.endpoint, workspace.tenant_id, "", "")
    drafts.keep(earlier, drafts.Kept(document(rule(READ, name="earlier")), who="viewer@aurora.example"))
    other = await push(it.ui, None)
    await other.offer_draft()
    assert it.ui.app.screen is other
    await other.leave(keep=False)
    drafts.keep(earlier, drafts.Kept(document(rule(READ, name="earlier")), who=workspace.who))
    again = await push(it.ui, None)
    await it.ui.expect("Unsaved draft of")
    await it.ui.press("g")
    await it.ui.until(lambda: "earlier" in again.pane.text, "the draft")
    assert not earlier.exists()


async def test_a_read_only_session_keeps_offers_and_deletes_no_draft(demo: Home, edit: Edit) -> None:
    it = await edit()
    typed = it.text.replace("roll-out", "writer")
    await it.write(typed)
    await it.editor.leave(keep=True)
    it.ui.app.workspace.read_only = "frost was started with --read-only"
    files = {one.name: one.read_bytes() for one in (demo.path / ".cli" / "drafts").iterdir()}
    assert files
    reader = await push(it.ui, await stored(it.ui, "deployments"))
    await reader.offer_draft()
    assert it.ui.app.screen is reader
    reader.pane.set_text(typed.replace("writer", "reader"))
    await it.ui.press("escape", "q", shows=("Unsaved changes", "Discard changes"))
    assert "keep the draft" not in it.ui.text
    await it.ui.press("escape", top=reader)
    await reader.leave(keep=False)
    await it.ui.until(lambda: it.ui.app.screen is it.ui.app.frame, "the frame")
    assert {one.name: one.read_bytes() for one in (demo.path / ".cli" / "drafts").iterdir()} == files


async def test_formatting_refuses_an_ambiguous_text(edit: Edit) -> None:
    it = await edit(policy=None, text=document(rule(READ, name="a")))
    await it.press("f7")
    assert it.text.splitlines()[3:6] == ["    {", '      "name": "a",', '      "access": "allow",']
    await it.expect("allowed by rule 1 a")
    await it.evaluate('{"schemaVersion": "1", "schemaVersion": "1"}')
    await it.press("f7")
    assert it.text == '{"schemaVersion": "1", "schemaVersion": "1"}'
    await it.evaluate('{"rules": [], "raules": 1}')
    assert it.editor.evaluation.problems
    await it.press("f7")
    assert it.text == '{\n  "rules": [],\n  "raules": 1\n}\n'


@pytest.mark.parametrize("size", [(120, 50)])
async def test_help_menu_and_palette_name_the_actions(edit: Edit) -> None:
    it = await edit()
    await it.press("f1", shows=("Remove excess permissions", "the draft is within your own", "Open in $EDITOR", "f4 e"))
    await it.press("escape", "f10", shows=("New from template", "Remove excess permissions"))
    await it.press("escape", "ctrl+p", *"format", shows="Format the text")
    await it.press("escape")


async def test_a_read_only_context_evaluates_and_does_not_save(edit: Edit) -> None:
    it = await edit()
    it.ui.app.workspace.read_only = "the context local is read-only"
    await it.write(it.text.replace("roll-out", "changed"), shows="allowed by rule 1 changed")
    await it.press("ctrl+s", toast="Save: the context local is read-only", top=it.editor)

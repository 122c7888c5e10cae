"""Keys in the policy editor."""

from dataclasses import replace

import pytest
from textual.widgets._toast import Toast

from client.models.analysis import AuthorCheck, Counterexample, RequestFacts
from tests.tui.editing import Edit, document, rule
from tests.tui.screens import SMALL
from tui.iam.editor import lists
from tui.iam.editor.panel import VIEWS
from tui.iam.editor.request_form import FieldInput

READ = "compute:instances:read"
DIALOGS = {
    "s": "Save a new policy",
    "m": "New from template",
    "c": "Gained and lost",
    "colon": "Palette",
    "x": "Actions",
    "question_mark": "Help",
}
"""Keys of the editor that open a dialog over a new policy, and a text of each."""


@pytest.mark.slow
async def test_keys_of_the_text_edit_it_and_another_key_leaves(edit: Edit) -> None:
    it = await edit()
    for columns in (120, 80, 140, 120):
        await it.ui.pilot.resize_terminal(columns, 24 if columns != 120 else 36)
        edge = columns - 1
        await it.until(lambda edge=edge: len(it.ui.row("Policy  deployments")) == edge, f"a line of {edge} cells")
        assert it.ui.row("Policy  deployments").endswith(" saved")
    it.editor.pane.show_line(0, 0)
    await it.press("f2", shows="no completions here")
    assert not it.ui.toasts
    await it.press("down", gone="no completions")
    it.editor.pane.show_line(4, len('      "name": "roll'))
    await it.press("ctrl+w", top=it.editor)
    assert it.at == '      "name": "-out",'
    await it.press("ctrl+z")
    await it.press("ctrl+end")
    assert it.editor.pane.cursor_location == it.editor.pane.document.end
    await it.press("ctrl+home")
    assert it.editor.pane.cursor_location == (0, 0)
    await it.press("f3", "down", "down", *"w")
    await it.until(lambda: it.editor.popup.is_open, "the choices")
    await it.press("down")
    assert not it.editor.popup.is_open
    assert it.editor.focused is it.editor.query_one("#field-region")
    assert it.editor.form.values["principalType"] == "w"
    await it.press("ctrl+t", toast="This policy belongs to Web Shop: close the editor first (^g)", top=it.editor)
    await it.ui.pilot.pause()
    await it.press("ctrl+p", *"zzzz", shows="No matches")
    await it.press("escape")
    await it.press("ctrl+g", top=it.ui.app.frame)


@pytest.mark.slow
async def test_tab_goes_through_the_fields_and_space_toggles(edit: Edit) -> None:
    it = await edit()
    await it.expect("api_key, workload_identity, user", "off · Space toggles")
    fields = [field.id for field in it.editor.query(FieldInput)]
    await it.press("f3")
    seen = []
    while isinstance(it.editor.focused, FieldInput):
        seen.append(it.editor.focused.id)
        await it.press("tab")
    assert seen == fields
    assert it.editor.focused is it.editor.panel
    await it.press("shift+tab")
    assert it.editor.focused.id == fields[-1]
    await it.press("f3", *["down"] * 8, "space", shows="✓ ALLOWED  with author limit")
    assert it.editor.form.values["asAuthor"] == "on"
    await it.press("space", gone="with author limit")
    assert it.editor.form.values["asAuthor"] == "off"


@pytest.mark.slow
async def test_enter_returns_to_the_text_from_every_view_and_after_every_dialog(edit: Edit) -> None:
    it = await edit(policy=None)
    assert it.editor.evaluation.any_target.services, "lines to choose"
    before = it.text
    for view in VIEWS:
        it.editor.show_view(view)
        for keys in (["escape"], ["escape", "escape"], ["f3", "escape", "escape"]):
            await it.press(*keys)
            assert it.editor.focused is None, (view, keys)
            await it.press("enter")
            assert it.editor.focused is it.editor.pane, (view, keys)
        # The cursor of the panel moves with the first key. Without a line to open, Enter returns to the text.
        await it.press("escape", "down", "up")
        assert it.editor.focused is it.editor.panel
        await it.press("escape", "enter")
        assert it.editor.focused is it.editor.pane
    for view in ("problems", "rules"):
        it.editor.show_view(view)
        await it.press("escape", "j", "enter")
        assert it.editor.focused is it.editor.pane, view
    it.editor.show_view("coverage")
    await it.press("escape", "j", "enter", shows="Gained and lost")
    await it.press("escape", top=it.editor)
    await it.press("enter")
    assert it.editor.focused is it.editor.pane
    for key, words in DIALOGS.items():
        await it.press("escape", key, shows=words)
        await it.ui.heard()
        await it.press("escape", top=it.editor)
        await it.press("enter")
        assert it.editor.focused is it.editor.pane, key
    assert it.text == before


@pytest.mark.slow
@SMALL
async def test_at_80_by_24_enter_returns_to_the_text_from_every_view(edit: Edit) -> None:
    it = await edit(policy=None)
    for view in VIEWS:
        it.editor.go(view)
        await it.press("escape", "enter")
        assert (it.editor.view, it.editor.focused) == ("text", it.editor.pane), view
    it.editor.go("problems")
    await it.press("enter")
    assert (it.editor.view, it.editor.focused) == ("text", it.editor.pane)
    it.editor.go("coverage")
    await it.press("enter", shows="Gained and lost")
    await it.press("escape", top=it.editor)
    await it.press("enter")
    assert (it.editor.view, it.editor.focused) == ("text", it.editor.pane)


@pytest.mark.slow
async def test_the_palette_of_the_editor_opens_screens_and_records(edit: Edit) -> None:
    it = await edit()
    frame = it.ui.app.frame
    await it.until(lambda: frame.workspace.tenants_state == "fresh", "the tenants")
    await it.press("ctrl+p", *"lake", shows=("Use tenant Data Lake", "Closes the editor: Aurora Labs"))
    await it.press("escape", top=it.editor)
    await it.press("x")
    await it.press("ctrl+p", *"groups", shows="Go to groups")
    await it.press("enter", shows="Unsaved changes")
    await it.press("escape", top=it.editor)
    await it.ui.pilot.pause()
    assert frame.current.NAME == "tenants"
    await it.press("ctrl+p", *"groups", shows="Go to groups")
    await it.press("enter", shows="Unsaved changes")
    await it.press("d", top=frame, shows="deployers")
    assert frame.current.NAME == "groups"


@pytest.mark.parametrize("key", ["tab", "f2"])
async def test_a_text_that_is_read_only_is_not_completed(edit: Edit, key: str) -> None:
    it = await edit(policy=None, text='{"rules": [{"operations": ["comp"]}]}')
    before = it.text
    it.editor.pane.read_only = True
    it.editor.pane.show_line(0, before.index('comp"') + 4)
    await it.press(key)
    await it.ui.pilot.pause()
    assert not it.editor.popup.is_open
    await it.press("enter")
    assert it.text == before


async def test_tab_in_a_string_completes_and_never_indents(edit: Edit) -> None:
    it = await edit(policy=None, text='{"rules": [{"operations": ["comp"]}]}')
    before = it.text
    it.editor.pane.show_line(0, before.index('comp"') + 4)
    await it.press("tab")  # before a list was opened
    assert it.text == before
    await it.until(lambda: it.editor.popup.is_open, "the completions")
    await it.press("tab")
    assert it.text == before.replace("comp", "compute:")
    await it.write('{"name": "open')  # a string without its end
    it.editor.pane.show_line(0, 14)
    await it.press("tab", shows="no completions here")
    assert it.text == '{"name": "open'
    for text, column in (('{"a": ""}', 7), ('{"a": "\\""}', 9)):
        await it.write(text)
        it.editor.pane.show_line(0, column)
        await it.press("tab")
        assert it.text == text
    await it.press("escape")
    for column in (0, 1, 6, len(text)):  # outside of a string
        await it.write('{"a": "b"}')
        it.editor.pane.show_line(0, column)
        it.editor.set_focus(it.editor.pane)
        await it.press("tab")
        assert it.text.replace(" ", "") == '{"a":"b"}' != it.text.replace(": ", ":"), column


@pytest.mark.slow
@SMALL
async def test_at_80_by_24_letters_are_keys_until_a_view_is_entered(edit: Edit) -> None:
    it = await edit()
    before = it.text
    await it.press("escape")
    seen = []
    for _ in range(6):
        seen.append(it.editor.view)
        await it.press("l")
    assert seen == ["text", "request", "rules", "coverage", "author", "problems"]
    assert it.editor.view == "text"
    for keys in (["l"], ["l", "l"], ["h"], ["l", "enter"]):
        await it.press(*keys, "escape")
        assert it.editor.view == "text"
    await it.press("escape", toast="^g or q closes the editor")
    await it.press("question_mark", shows="Help")
    await it.press("escape", "l", "h")
    await it.press("escape", *"vvvvv")
    assert (it.editor.view, it.text) == ("problems", before)
    await it.press(*"vv", "h")
    assert (it.editor.view, it.text) == ("text", before)
    await it.press("enter", "x")
    assert it.text == f"x{before}"
    await it.press("escape", "l", "enter")
    assert isinstance(it.editor.focused, FieldInput)


@SMALL
async def test_at_80_by_24_suggestions_are_in_full_and_no_message_covers_the_verdict(edit: Edit) -> None:
    it = await edit()
    it.editor.toast("something was done")
    await it.until(lambda: it.editor.query(Toast), "a message")
    await it.ui.pilot.pause()
    strip = it.editor.query_one("#strip")
    assert strip.region.height == 2
    assert not any(toast.region.overlaps(strip.region) for toast in it.editor.query(Toast))
    it.ui.app.clear_notifications()
    await it.evaluate(document(rule("compute:placement-groups:raed", name="reads")), shows="did you mean")
    lines = " ".join(line.strip() for line in it.ui.text.splitlines()[-5:-1])
    suggestions = it.editor.evaluation.problems[0].suggestions
    assert f"did you mean {' or '.join(suggestions)}?" in lines

    await it.ui.pilot.resize_terminal(80, 60)
    await it.expect("f1 help  ^g close")
    it.editor.toast("something else was done")
    await it.press("f1", shows=("^g q", "^w ^u ^k", "f2 ^Space"))
    assert not it.ui.toasts  # the help does not show the message of the editor again


async def test_only_typing_opens_completions_and_a_quote_is_typed_over_the_closing_one(edit: Edit) -> None:
    it = await edit(policy=None, text='["", "b"]')
    it.editor.pane.show_line(0, 2)
    await it.press("a", "quotation_mark")
    assert it.text == '["a", "b"]'
    assert it.editor.pane.cursor_location == (0, 4)
    it.editor.pane.show_line(0, 6)
    await it.press("quotation_mark")
    assert it.text == '["a", ""b"]'

    await it.write('{"rules": [{"operations": ["compute:*"]}]}')
    popup = it.editor.popup
    it.editor.pane.show_line(0, len('{"rules": [{"operations": ["compute:'))
    await it.press("f7", shows='"compute:*"')
    await it.ui.pilot.pause(2 * lists.COMPLETION_SECONDS)
    assert not popup.is_open
    (star,) = [(row, line.index("*")) for row, line in enumerate(it.text.split("\n")) if "*" in line]
    it.editor.pane.show_line(*star)
    await it.press("i")
    await it.until(lambda: popup.is_open, "the completions")
    await it.ui.pilot.resize_terminal(80, 24)
    await it.until(lambda: not popup.is_open, "a screen without completions")


@pytest.mark.slow
async def test_the_request_before_a_counterexample_is_restored(edit: Edit) -> None:
    it = await edit()
    await it.ask(operation=READ, sourceIp="203.0.113.7")
    await it.answered()
    example = Counterexample(operation="dns:zones:read", facts=RequestFacts(region="eu-central-1"))
    for toast, operation, address in (
        ("Request set to the counterexample · f5 to restore your request", "dns:zones:read", ""),
        ("Request restored", READ, "203.0.113.7"),
    ):
        check = AuthorCheck(answer="beyond", counterexamples=(example,))
        it.editor.evaluation = replace(it.editor.evaluation, check=check)
        it.editor.perform("editor.example")
        await it.ui.expect_toast(toast)
        assert (it.editor.form.values["operation"], it.editor.form.values["sourceIp"]) == (operation, address)

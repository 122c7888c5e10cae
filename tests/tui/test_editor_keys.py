"""Keys in the policy editor."""

from dataclasses import replace

import pytest
from textual.widgets._toast import Toast

from tests.tui.editing import Edit, document, rule
from tests.tui.screens import SMALL
from tui.iam.editor.request_form import FieldInput

READ = "compute:instances:read"


async def test_ctrl_w_deletes_a_word_of_the_text_and_another_key_leaves(edit: Edit) -> None:
    it = await edit()
    it.editor.pane.show_line(4, len('      "name": "roll'))
    await it.press("ctrl+w")
    assert it.at == '      "name": "-out",'
    await it.until(lambda: it.ui.app.screen is it.editor, "the editor on top")
    await it.press("ctrl+z")
    await it.press("ctrl+g", top=it.ui.app.frame)


@pytest.mark.parametrize("size", [(80, 60)])
async def test_footer_and_help_name_the_key_to_leave(edit: Edit) -> None:
    it = await edit()
    await it.expect("f1 help  ^g leave")
    await it.press("f1", shows=("^g q", "^w ^u ^k"))


async def test_the_tenant_switch_is_refused_and_an_empty_palette_says_so(edit: Edit) -> None:
    it = await edit()
    await it.press("ctrl+t", toast="This policy belongs to Web Shop: leave the editor first (^g)", top=it.editor)
    await it.ui.pilot.pause()
    await it.press("ctrl+p", *"zzzz", shows="No matches")


@pytest.mark.slow
async def test_tab_goes_through_the_fields_and_leaves_the_form(edit: Edit) -> None:
    it = await edit()
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


async def test_down_goes_to_the_next_field_after_the_choices(edit: Edit) -> None:
    it = await edit()
    await it.press("f3", "down", "down", *"w")
    await it.until(lambda: it.editor.popup.is_open, "the choices")
    await it.press("down")
    assert not it.editor.popup.is_open
    assert it.editor.focused is it.editor.query_one("#field-region")
    assert it.editor.form.values["principalType"] == "w"


@pytest.mark.slow
async def test_empty_fields_show_what_they_take_and_space_toggles(edit: Edit) -> None:
    it = await edit()
    await it.expect("api_key, workload_identity, user", "no · Space: yes/no")
    await it.press("f3", *["down"] * 8, "space", shows="✓ ALLOWED  as author")
    assert it.editor.form.values["asAuthor"] == "yes"
    await it.press("space")
    assert it.editor.form.values["asAuthor"] == "no"
    await it.gone("as author")


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
    assert seen == ["rules", "coverage", "author", "problems", "text", "request"]
    assert it.editor.view == "rules"
    await it.press("h", "h")
    assert it.editor.view == "text"
    await it.press("question_mark", shows="Help")
    await it.press("escape", "l", "h")
    await it.press("escape", *"vvvvv")
    assert (it.editor.view, it.text) == ("request", before)
    await it.press(*"vvvvvv", "h")
    assert (it.editor.view, it.text) == ("text", before)
    await it.press("enter", "x")
    assert it.text == f"x{before}"
    await it.press("escape", "l", "l", "enter")
    assert isinstance(it.editor.focused, FieldInput)


async def test_the_save_state_stays_at_the_edge_at_every_size(edit: Edit) -> None:
    it = await edit()
    for columns in (120, 80, 140):
        await it.ui.pilot.resize_terminal(columns, 24)
        await it.until(
            lambda columns=columns: len(it.ui.row("Policy  deployments")) == columns - 1,
            f"the end of a line of {columns} cells",
        )
        assert it.ui.row("Policy  deployments").endswith(" saved")


@SMALL
async def test_suggestions_are_shown_in_full_at_80_by_24(edit: Edit) -> None:
    it = await edit(policy=None, text=document(rule(READ)))
    await it.evaluate(document(rule("compute:placement-groups:raed", name="reads")), shows="did you mean")
    said = " ".join(line.strip() for line in it.ui.text.splitlines()[-5:-1])
    meant = it.editor.evaluation.problems[0]["suggestions"]
    assert f"did you mean {' or '.join(meant)}?" in said


@SMALL
async def test_at_80_by_24_a_message_does_not_cover_the_verdict(edit: Edit) -> None:
    it = await edit()
    it.editor.toast("something was done")
    await it.until(lambda: it.editor.query(Toast), "a message")
    await it.ui.pilot.pause()
    strip = it.editor.query_one("#strip")
    assert strip.region.height == 2
    assert not any(toast.region.overlaps(strip.region) for toast in it.editor.query(Toast))


async def test_a_quote_is_typed_over_the_closing_one(edit: Edit) -> None:
    it = await edit(policy=None, text='["", "b"]')
    it.editor.pane.show_line(0, 2)
    await it.press("a", "quotation_mark")
    assert it.text == '["a", "b"]'
    assert it.editor.pane.cursor_location == (0, 4)
    it.editor.pane.show_line(0, 6)
    await it.press("quotation_mark")
    assert it.text == '["a", ""b"]'


async def test_no_completions_is_shown_until_the_next_key(edit: Edit) -> None:
    it = await edit()
    it.editor.pane.show_line(0, 0)
    await it.press("f2", shows="no completions here")
    assert not it.ui.toasts
    await it.press("down", gone="no completions")


@pytest.mark.slow
async def test_the_request_before_a_counterexample_is_restored(edit: Edit) -> None:
    it = await edit()
    await it.ask(operation=READ, sourceIp="203.0.113.7")
    await it.answered()
    shown = {"operation": "dns:zones:read", "target": "*", "facts": {"region": "eu-central-1"}, "ruleIndex": 0}
    it.editor.evaluation = replace(it.editor.evaluation, check={"answer": "beyond", "counterexamples": [shown]})
    it.editor.perform("editor.example")
    await it.ui.expect_toast("Request set to the counterexample: f5 restores yours")
    assert it.editor.form.values["operation"] == "dns:zones:read"
    assert it.editor.form.values["sourceIp"] == ""
    it.editor.evaluation = replace(it.editor.evaluation, check={"answer": "beyond", "counterexamples": [shown]})
    it.editor.perform("editor.example")
    await it.ui.expect_toast("Request restored")
    assert it.editor.form.values["operation"] == READ
    assert it.editor.form.values["sourceIp"] == "203.0.113.7"

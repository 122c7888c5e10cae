"""Handlers of the editor's actions. See tui/iam/editor/actions.py."""

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from client.api import analysis
from client.errors import FrostError
from client.models import strict_json
from tui.iam.editor import actions, counterexample_fixes, document, external, panel, request, save
from tui.iam.editor.request_form import FieldInput
from tui.iam.editor.review import Review
from tui.iam.editor.save import Editor
from tui.shell import keymap
from tui.widgets.menu import Entry, Menu


async def do_save(editor: Editor) -> None:
    await save.save(editor)


def do_view(editor: Editor) -> None:
    """Show the next view: on a narrow screen of all views, otherwise of the panel's.

    On a narrow screen, text and request get the focus only on Enter, so that the next letter is still a key.
    """
    if editor.narrow:
        editor.action_look(1)
    else:
        at = panel.VIEWS.index(editor.panel_name)
        editor.show_view(panel.VIEWS[(at + 1) % len(panel.VIEWS)])


def do_request(editor: Editor) -> None:
    editor.go("request")


def do_complete(editor: Editor) -> None:
    if isinstance(editor.focused, FieldInput):
        editor.offering.in_field((editor.focused.id or "").removeprefix("field-"), editor.focused)
    else:
        editor.go("text")
        editor.offering.in_text()


def do_problem(editor: Editor) -> None:
    """Go to the next problem after the cursor, or the first. Without problems, go through warnings."""
    problems = editor.found.problems or editor.found.warnings
    places = sorted((int(one["line"]) - 1, int(one["column"]) - 1) for one in problems)
    here = editor.pane.cursor_location
    editor.go("text")
    editor.pane.show_line(*next((place for place in places if place > here), places[0]))


def do_example(editor: Editor) -> None:
    """Put the counterexample into the request or, if already done, restore the former request."""
    example = editor.example
    if example is None:
        return
    tried = request.write(example["operation"], example["target"], example.get("facts") or {})
    values = {field.name: editor.form.values.get(field.name, "") for field in request.FIELDS}
    if values == tried and editor.former:
        editor.form.put(editor.former)
        editor.former = {}
        editor.toast("The former request is back")
        return
    # Do not replace the user's own request with an earlier counterexample.
    if values != editor.shown:
        editor.former = values
    editor.shown = tried
    editor.form.put(tried)
    key = editor.keys.label("editor.example")
    editor.toast("The request is the counterexample's now" + (f": {key} again brings yours back" if key else ""))


async def do_narrow(editor: Editor) -> None:
    """Offer changes that remove the chosen counterexample, each verified by the platform."""
    example, text = editor.example, editor.pane.text
    if example is None:
        return
    held: counterexample_fixes.Held = {}
    person = str((editor.workspace.me or {}).get("id", ""))
    if person:
        answer = await editor.workspace.ask(analysis.access(editor.tenant_id, "user", person))
        held = counterexample_fixes.held_of(answer)
    names = editor.offering.catalogue.names
    found = await asyncio.to_thread(lambda: list(counterexample_fixes.ways(text, example, names, held)))
    proved: list[tuple[counterexample_fixes.Narrowing, str]] = []
    for way in found:
        try:
            better = await _proved(editor, way, example, names)
        except FrostError as error:
            if not error.status:
                raise
            continue
        if better is not None:
            proved.append(better)
    if not proved:
        editor.toast("Nothing would be left of the document: write a rule that you hold first", "warning")
        return
    entries = [Entry(str(at), way.title, str(at + 1), note) for at, (way, note) in enumerate(proved)]
    chosen = await editor.app.push_screen_wait(Menu(f"Narrow: {example['operation']}", entries))
    if chosen is None:
        return
    if editor.pane.text != text:
        editor.toast("The text was changed meanwhile; nothing was done", "warning")
        return
    editor.pane.put(proved[int(chosen)][0].text)
    undo = "ctrl+z"
    editor.toast(f"{proved[int(chosen)][0].title}: done; {keymap.key_text(undo)} in the text takes it back")


MOST_RULES = 20
"""Maximum simulations per change. Each can remove the operation from one more rule."""


async def _proved(
    editor: Editor, way: counterexample_fixes.Narrowing, example: Any, names: Sequence[str]
) -> tuple[counterexample_fixes.Narrowing, str] | None:
    """Extend a change until the draft denies the example. Return it with the author check's result.

    Return None if the example is still allowed, or if no rule would remain.
    """
    operation, tenant = str(example["operation"]), editor.tenant_id
    tried = request.read(request.write(operation, str(example["target"]), example.get("facts") or {}))
    if not example.get("future"):
        for _ in range(MOST_RULES):
            text = way.text
            verdict = await editor.workspace.ask(analysis.simulate(tenant, text, operation, tried.target, tried.facts))
            if verdict["decision"] == "denied":
                break
            # Another rule allows the operation too.
            rule = verdict["decidingRule"]
            if rule is None:
                return None
            index = int(rule["index"])
            less = await asyncio.to_thread(counterexample_fixes.taken_out, text, index, operation, names)
            if less is None:
                return None
            way = counterexample_fixes.Narrowing(way.title, less)
        else:
            return None
    text = way.text
    check = await editor.workspace.ask(analysis.check(tenant, text))
    count = len(check.get("counterexamples") or ())
    if check["answer"] == "within":
        return way, "Then the draft is within what you hold"
    more = f"{count} counterexample{'s' if count != 1 else ''} more" if count else "still undecided"
    return way, f"Then there {'is' if count == 1 else 'are'} {more}" if count else f"Then it is {more}"


def do_external(editor: Editor) -> None:
    row = editor.pane.cursor_location[0]
    editor.keeping.now()
    outcome = external.edit(editor.app, editor.workspace.environ, editor.pane.text, row + 1)
    if outcome.text is not None:
        editor.pane.put(outcome.text)
    if outcome.words:
        editor.toast(outcome.words, "warning")
    editor.go("text")


def do_format(editor: Editor) -> None:
    """Format the text, unless it is not strict JSON."""
    try:
        text = document.text_of(strict_json.loads(editor.pane.text))
    except strict_json.StrictJsonError as error:
        editor.toast(f"Format: line {error.line}, column {error.column}: {error.reason}", "warning")
        return
    if text == editor.pane.text:
        editor.toast("It is laid out so already")
    editor.pane.put(text)


async def do_template(editor: Editor) -> None:
    """Replace the text and the request with a template."""
    entries = [Entry(one.name, one.title, one.name[0], one.note) for one in document.TEMPLATES]
    chosen = await editor.app.push_screen_wait(Menu("Begin with", entries))
    template = next((one for one in document.TEMPLATES if one.name == chosen), None)
    if template is not None:
        editor.pane.put(template.text)
        editor.form.put(request.beginning(template.text, editor.catalogue))


async def do_changes(editor: Editor) -> None:
    """Show the operations gained and lost, and the difference in text."""
    text, policy = editor.pane.text, editor.draft.policy
    effect = await save.effect_of(editor, text, policy)
    title = f"Against version {editor.draft.version}" if policy is not None else "What the draft gives"
    editor.app.push_screen(Review(title, *save.texts(policy, text), effect, None, most=len(editor.catalogue)))


async def do_menu(editor: Editor) -> None:
    """Show every action with its key, its equivalent command, and why it is disabled."""
    context = editor.action_context()
    entries = [
        Entry(
            action.id,
            action.title,
            _letter(editor.keys, action.id),
            action.command(context) or action.help,
            action.disabled_reason(context),
        )
        for action in actions.ACTIONS
        if action.id != "editor.menu"
    ]
    chosen = await editor.app.push_screen_wait(Menu("Actions", entries, foot="Enter or its key runs it · Esc leaves"))
    if chosen is not None:
        editor.perform(chosen)


def _letter(keys: keymap.Keys, action_id: str) -> str:
    return next((key for key in keys.of(action_id) if len(key) == 1), "")


def do_help(editor: Editor) -> None:
    from tui.shell.help import Help, Line

    context = editor.action_context()
    sheet = [
        Line(
            "Policy editor",
            " ".join(map(keymap.key_text, editor.keys.of(action.id))),
            action.title,
            action.disabled_reason(context) or action.help,
        )
        for action in actions.ACTIONS
    ]
    sheet += [
        Line("In the text", keys, title, words)
        for keys, title, words in (
            ("^z ^y", "Undo, redo", ""),
            ("Tab", "Indent", "Takes the first choice where choices are shown"),
            ("Esc", "To the panel", "There letters are keys, and q closes the editor; Tab goes round"),
            ("^c ^x ^v", "Copy, cut, paste", ""),
            ("^a ^e", "Begin and end of the line", ""),
            ("^← ^→", "A word back, a word on", ""),
            ("^w ^u ^k", "Delete the word before, the line up to here, the rest of the line", ""),
        )
    ]
    sheet += [
        Line("In the panel", keys, title, words)
        for keys, title, words in (
            ("↑ ↓ j k", "Move", ""),
            (
                "← → h l",
                "The view before, the view after",
                "On a narrow screen text and request are looked at first; Enter goes into them",
            ),
            ("⏎", "Open", "A rule or problem in the text; a service's operations"),
        )
    ]
    editor.app.push_screen(Help(sheet))


async def do_palette(editor: Editor) -> None:
    from tui.shell.palette import Entry as Line
    from tui.shell.palette import Palette

    def entries(typed: str) -> Iterator[Line]:
        context = editor.action_context()
        for action in actions.ACTIONS:
            if action.id != "editor.palette":
                reason = action.disabled_reason(context)
                run = partial(editor.perform, action.id)
                yield Line(action.title, editor.keys.label(action.id), reason or action.help, run, not reason)

    chosen = await editor.app.push_screen_wait(Palette(entries))
    if chosen is not None:
        chosen.run()


async def do_close(editor: Editor) -> None:
    """Close the editor. If there are unsaved changes, ask the user first."""
    if not editor.draft.changed(editor.pane.text):
        editor.leave(keep=False)
        return
    can = next(action for action in actions.ACTIONS if action.id == "editor.save").disabled_reason(
        editor.action_context()
    )
    keep = Entry("keep", "Leave and keep the draft", "k", "It is offered when this policy is opened again")
    entries = [
        Entry("save", "Save …", "s", "Shows what changes first", can),
        *([keep] if editor.keeping.keeps else ()),
        Entry("drop", "Discard changes", "", "Deletes what you typed since"),
    ]
    chosen = await editor.app.push_screen_wait(Menu("Not saved", entries, foot="Esc goes on editing"))
    if chosen == "save":
        if await save.save(editor):
            editor.leave(keep=False)
    elif chosen is not None:
        editor.leave(keep=chosen == "keep")
        if chosen == "keep":
            route = "policies.edit" if editor.draft.id else "policies.create"
            key = editor.keys.label(route)
            editor.toast("The draft is kept" + (f": {key} offers it again" if key else ""))

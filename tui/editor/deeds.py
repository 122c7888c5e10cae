"""What the editor's actions do, each as `do_<last part of its id>`; their table is tui/editor/actions.py."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from client.errors import FrostError
from client.models import strict_json
from tui import keymaps
from tui.editor import actions, external, layout, narrowing, request, saving, templates, views
from tui.editor.form import FieldInput
from tui.editor.review import Review
from tui.widgets.menu import Entry, Menu

if TYPE_CHECKING:
    from tui.editor.screen import PolicyEditor


async def do_save(editor: "PolicyEditor") -> None:
    await saving.save(editor)


def do_view(editor: "PolicyEditor") -> None:
    """Show the next view: on a narrow screen of all, beside the text of those in the panel.

    On a narrow screen nothing is typed into text and request before Enter: the next letter is meant as a key, too.
    """
    if editor.narrow:
        editor.action_look(1)
    else:
        at = views.VIEWS.index(editor.panel_name)
        editor.show_view(views.VIEWS[(at + 1) % len(views.VIEWS)])


def do_request(editor: "PolicyEditor") -> None:
    editor.go("request")


def do_complete(editor: "PolicyEditor") -> None:
    """What can stand at the cursor, asked for."""
    if isinstance(editor.focused, FieldInput):
        editor.offering.in_field((editor.focused.id or "").removeprefix("field-"), editor.focused)
    else:
        editor.go("text")
        editor.offering.in_text()


def do_problem(editor: "PolicyEditor") -> None:
    """The next line at fault below the cursor, else the first one."""
    problems = editor.found.problems or editor.found.warnings
    places = sorted((int(one["line"]) - 1, int(one["column"]) - 1) for one in problems)
    here = editor.pane.cursor_location
    editor.go("text")
    editor.pane.show_line(*next((place for place in places if place > here), places[0]))


def do_example(editor: "PolicyEditor") -> None:
    """Try what the counterexample shows; where that is tried already, bring the former request back."""
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
    # From one counterexample to the next the request of one's own stays the former one.
    if values != editor.shown:
        editor.former = values
    editor.shown = tried
    editor.form.put(tried)
    key = editor.keys.label("editor.example")
    editor.toast("The request is the counterexample's now" + (f": {key} again brings yours back" if key else ""))


async def do_narrow(editor: "PolicyEditor") -> None:
    """Offer the ways to take the chosen counterexample out of the draft, each proved by the platform first."""
    example, text = editor.example, editor.pane.text
    if example is None:
        return
    held: narrowing.Held = {}
    person = str((editor.workspace.me or {}).get("id", ""))
    if person:
        answer = await editor.workspace.ask(lambda client: client.trials.access(editor.tenant_id, "user", person))
        held = narrowing.held_of(answer)
    names = editor.offering.catalogue.names
    found = await asyncio.to_thread(lambda: list(narrowing.ways(text, example, names, held)))
    proved: list[tuple[narrowing.Narrowing, str]] = []
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
    editor.toast(f"{proved[int(chosen)][0].title}: done; {keymaps.shown(undo)} in the text takes it back")


MOST_RULES = 20
"""Rules an operation is taken out of in one go at most."""


async def _proved(
    editor: "PolicyEditor", way: narrowing.Narrowing, example: Any, names: Sequence[str]
) -> tuple[narrowing.Narrowing, str] | None:
    """A way after which the example is no longer allowed, with what the author check says then; None if it is not."""
    operation, tenant = str(example["operation"]), editor.tenant_id
    tried = request.read(request.write(operation, str(example["target"]), example.get("facts") or {}))
    if not example.get("future"):
        for _ in range(MOST_RULES):
            text = way.text
            verdict = await editor.workspace.ask(
                lambda client, text=text: client.trials.simulate(  # type: ignore[misc]
                    tenant, text, operation, tried.target, tried.facts
                )
            )
            if verdict["decision"] == "denied":
                break
            # Another rule grants it as well.
            index = int(verdict["decidingRule"]["index"])
            less = await asyncio.to_thread(narrowing.taken_out, text, index, operation, names)
            if less is None:
                return None
            way = narrowing.Narrowing(way.title, less)
        else:
            return None
    text = way.text
    check = await editor.workspace.ask(lambda client: client.trials.check(tenant, text))
    count = len(check.get("counterexamples") or ())
    if check["answer"] == "within":
        return way, "Then the draft is within what you hold"
    more = f"{count} counterexample{'s' if count != 1 else ''} more" if count else "still undecided"
    return way, f"Then there {'is' if count == 1 else 'are'} {more}" if count else f"Then it is {more}"


def do_external(editor: "PolicyEditor") -> None:
    """The same text in the person's own editor."""
    row = editor.pane.cursor_location[0]
    editor.keeping.now()
    outcome = external.edit(editor.app, editor.workspace.environ, editor.pane.text, row + 1)
    if outcome.text is not None:
        editor.pane.put(outcome.text)
    if outcome.words:
        editor.toast(outcome.words, "warning")
    editor.go("text")


def do_format(editor: "PolicyEditor") -> None:
    """Lay the text out anew; refused where it cannot be read without a doubt."""
    try:
        text = layout.text_of(strict_json.loads(editor.pane.text))
    except strict_json.StrictJsonError as error:
        editor.toast(f"Format: line {error.line}, column {error.column}: {error.reason}", "warning")
        return
    if text == editor.pane.text:
        editor.toast("It is laid out so already")
    editor.pane.put(text)


async def do_template(editor: "PolicyEditor") -> None:
    """Begin with a template."""
    entries = [Entry(one.name, one.title, one.name[0], one.note) for one in templates.TEMPLATES]
    chosen = await editor.app.push_screen_wait(Menu("Begin with", entries))
    template = next((one for one in templates.TEMPLATES if one.name == chosen), None)
    if template is not None:
        editor.pane.put(template.text)
        editor.form.put(request.beginning(template.text, editor.catalogue))


async def do_changes(editor: "PolicyEditor") -> None:
    """What the draft gives and takes, by name, and the difference in text."""
    text, policy = editor.pane.text, editor.draft.policy
    effect = await saving.effect_of(editor, text, policy)
    title = f"Against version {editor.draft.version}" if policy is not None else "What the draft gives"
    editor.app.push_screen(Review(title, *saving.texts(policy, text), effect, None, most=len(editor.catalogue)))


async def do_menu(editor: "PolicyEditor") -> None:
    """Every action with its key, its equal command, and why it cannot be done."""
    situation = editor.situation()
    entries = [
        Entry(
            action.id,
            action.title,
            _letter(editor.keys, action.id),
            action.command(situation) or action.help,
            action.reason(situation),
        )
        for action in actions.ACTIONS
        if action.id != "editor.menu"
    ]
    chosen = await editor.app.push_screen_wait(Menu("Actions", entries, foot="Enter or its key runs it · Esc leaves"))
    if chosen is not None:
        editor.perform(chosen)


def _letter(keys: keymaps.Keys, action_id: str) -> str:
    return next((key for key in keys.of(action_id) if len(key) == 1), "")


def do_help(editor: "PolicyEditor") -> None:
    from tui.screens.help import Help, Line

    situation = editor.situation()
    sheet = [
        Line(
            "Policy editor",
            " ".join(map(keymaps.shown, editor.keys.of(action.id))),
            action.title,
            action.reason(situation) or action.help,
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


async def do_palette(editor: "PolicyEditor") -> None:
    from tui.editor.palette import EditorPalette

    chosen = await editor.app.push_screen_wait(EditorPalette(editor))
    if chosen is not None:
        chosen.run()


async def do_close(editor: "PolicyEditor") -> None:
    """Leave; what is not stored is asked about."""
    if not editor.draft.changed(editor.pane.text):
        editor.leave(keep=False)
        return
    can = next(action for action in actions.ACTIONS if action.id == "editor.save").reason(editor.situation())
    keep = Entry("keep", "Leave and keep the draft", "k", "It is offered when this policy is opened again")
    entries = [
        Entry("save", "Save …", "s", "Shows what changes first", can),
        *([keep] if editor.keeping.keeps else ()),
        Entry("drop", "Discard changes", "", "Deletes what you typed since"),
    ]
    chosen = await editor.app.push_screen_wait(Menu("Not saved", entries, foot="Esc goes on editing"))
    if chosen == "save":
        if await saving.save(editor):
            editor.leave(keep=False)
    elif chosen is not None:
        editor.leave(keep=chosen == "keep")
        if chosen == "keep":
            door = "policies.edit" if editor.draft.id else "policies.create"
            key = editor.keys.label(door)
            editor.toast("The draft is kept" + (f": {key} offers it again" if key else ""))

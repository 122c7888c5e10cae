"""Handlers of the editor's actions. See tui/iam/editor/actions.py."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from inspect import isawaitable
from typing import Any, Protocol

from textual.app import App
from textual.widget import Widget

from client.models import strict_json
from client.models.iam import CatalogueOperation
from tui.iam.editor import actions, counterexample_fixes, panel, request
from tui.iam.editor import document as formatter
from tui.iam.editor.autosave import DraftAutosave
from tui.iam.editor.document import TEMPLATES, Document
from tui.iam.editor.evaluation import Evaluation
from tui.iam.editor.lists import CompletionController
from tui.iam.editor.panel import Panel
from tui.iam.editor.request_form import FieldInput, RequestForm
from tui.iam.editor.review import Review, compared_texts
from tui.iam.editor.save import SaveFlow
from tui.iam.editor.text_pane import PolicyText
from tui.shell import keymap
from tui.shell.action import ActionContext
from tui.shell.navigator import Navigator
from tui.state.notices import Severity
from tui.state.workspace import Workspace
from tui.terminal import external_editor
from tui.widgets.picker import Entry, Menu


class Editor(Protocol):
    """The editor as the handlers use it. Implemented by `PolicyEditor` (tui/iam/editor/screen.py)."""

    workspace: Workspace
    keys: keymap.Keys
    tenant_id: str
    document: Document
    catalogue: list[CatalogueOperation]
    evaluation: Evaluation
    pane: PolicyText
    form: RequestForm
    panel: Panel
    panel_view: str
    completion: CompletionController
    autosave: DraftAutosave
    save_flow: SaveFlow
    user_values: Mapping[str, str]
    example_values: Mapping[str, str]
    fix_menu: Menu | None

    @property
    def app(self) -> App[Any]: ...

    @property
    def focused(self) -> Widget | None: ...

    @property
    def narrow(self) -> bool: ...

    @property
    def principal_id(self) -> str: ...

    def action_look(self, by: int) -> None: ...

    def go(self, view: str) -> None: ...

    def show_view(self, view: str) -> None: ...

    def action_context(self) -> ActionContext: ...

    def toast(self, message: str, severity: Severity = "information") -> None: ...

    def perform(self, action_id: str) -> None: ...

    async def leave(self, *, keep: bool) -> bool: ...


async def do_save(editor: Editor) -> None:
    await editor.save_flow.save()


def do_view(editor: Editor) -> None:
    """Show the next view: on a narrow screen of all views, otherwise of the panel's.

    On a narrow screen, text and request get the focus only on Enter, so that the next letter is still a key.
    """
    if editor.narrow:
        editor.action_look(1)
    else:
        at = panel.VIEWS.index(editor.panel_view)
        editor.show_view(panel.VIEWS[(at + 1) % len(panel.VIEWS)])


def do_request(editor: Editor) -> None:
    editor.go("request")


def do_complete(editor: Editor) -> None:
    if isinstance(editor.focused, FieldInput):
        editor.completion.complete_field((editor.focused.id or "").removeprefix("field-"), editor.focused)
    else:
        editor.go("text")
        editor.completion.complete_text(editor.document.text)


def do_problem(editor: Editor) -> None:
    """Go to the next problem after the cursor, or the first. Without problems, go through warnings."""
    problems = editor.evaluation.problems or editor.evaluation.warnings
    places = sorted((problem.line - 1, problem.column - 1) for problem in problems)
    here = editor.pane.cursor_location
    editor.go("text")
    editor.pane.show_line(*next((place for place in places if place > here), places[0]))


def do_example(editor: Editor) -> None:
    """Put the counterexample into the request or, if already done, restore the former request."""
    example = editor.panel.counterexample
    if example is None:
        return
    example_values = request.field_values(example.operation, example.target, example.facts)
    values = {field.name: editor.form.values.get(field.name, "") for field in request.FIELDS}
    if values == example_values and editor.user_values:
        editor.form.set_values(editor.user_values)
        editor.user_values = {}
        editor.toast("Request restored")
        return
    # Do not replace the user's own request with an earlier counterexample.
    if values != editor.example_values:
        editor.user_values = values
    editor.example_values = example_values
    editor.form.set_values(example_values)
    key = editor.keys.label("editor.example")
    editor.toast("Request set to the counterexample" + (f" · {key} to restore your request" if key else ""))


async def do_narrow(editor: Editor) -> None:
    """Offer changes that remove the chosen counterexample, each verified by the platform."""
    example, text = editor.panel.counterexample, editor.document.text
    if example is None:
        return
    principal_id = editor.principal_id
    names = editor.completion.catalogue.names
    fixes = await counterexample_fixes.verified_fixes(
        editor.workspace.ask, editor.tenant_id, text, example, names, principal_id
    )
    if editor.principal_id != principal_id:
        return  # the counterexample was for another user
    if not fixes:
        editor.toast("No rule would remain. Add a rule within your own permissions first", "warning")
        return
    entries = [Entry(str(at), fix.title, str(at + 1), fix.note) for at, fix in enumerate(fixes)]
    editor.fix_menu = Menu(f"Fix: {example.operation}", entries)
    choice = await editor.app.push_screen_wait(editor.fix_menu)
    editor.fix_menu = None
    if editor.principal_id != principal_id:
        editor.toast("Not applied: the user has changed", "warning")
        return
    if choice is None:
        return
    if editor.pane.text != text:
        editor.toast("Not applied: the text has changed", "warning")
        return
    fix = fixes[int(choice)]
    editor.pane.set_text(fix.text)
    undo = undo_key(editor.keys)
    editor.toast(f"Applied: {fix.title}" + (f" · {undo} in the text to undo" if undo else ""))


def undo_key(keys: keymap.Keys) -> str:
    """Return the key that undoes a change in the text; empty if actions of the editor have taken its keys."""
    taken = {key for action in actions.ACTIONS for key in keys.of(action.id)}
    return next((keymap.key_text(key) for key in PolicyText.UNDO_KEYS if key not in taken), "")


async def do_external(editor: Editor) -> None:
    row = editor.pane.cursor_location[0]
    await editor.autosave.save()
    outcome = external_editor.edit(editor.app, editor.workspace.environ, editor.document.text, row + 1)
    if outcome.text is not None:
        editor.pane.set_text(outcome.text)
    if outcome.message:
        editor.toast(outcome.message, "warning")
    editor.go("text")


def do_format(editor: Editor) -> None:
    """Format the text, unless it is not strict JSON."""
    try:
        text = formatter.text_of(strict_json.loads(editor.document.text))
    except strict_json.StrictJsonError as error:
        editor.toast(f"Format: line {error.line}, column {error.column}: {error.reason}", "warning")
        return
    if text == editor.document.text:
        editor.toast("Already formatted")
    editor.pane.set_text(text)


async def do_template(editor: Editor) -> None:
    """Replace the text and the request with a template."""
    entries = [Entry(one.name, one.title, one.name[0], one.note) for one in TEMPLATES]
    choice = await editor.app.push_screen_wait(Menu("New from template", entries))
    template = next((one for one in TEMPLATES if one.name == choice), None)
    if template is not None:
        editor.pane.set_text(template.text)
        editor.form.set_values(request.initial_values(template.text, editor.catalogue))


async def do_changes(editor: Editor) -> None:
    """Show the operations gained and lost, and the difference in text."""
    text, policy = editor.document.text, editor.document.policy
    effect = await editor.save_flow.effect(text, policy)
    title = "Gained and lost" + (f" since version {editor.document.version}" if policy is not None else "")
    editor.app.push_screen(Review(title, *compared_texts(policy, text), effect, None, most=len(editor.catalogue)))


async def do_menu(editor: Editor) -> None:
    """Show every action with its key, its equivalent command, and why it is disabled."""
    context = editor.action_context()
    entries = [
        Entry(
            action.id,
            action.title,
            _letter(editor.keys, action.id) or editor.keys.label(action.id),
            action.command_line(context) or action.help,
            action.disabled_reason(context),
            editor.keys.of(action.id),
        )
        for action in actions.ACTIONS
        if action.id != "editor.menu"
    ]
    choice = await editor.app.push_screen_wait(Menu("Actions", entries, foot="Enter or its key: run · Esc close"))
    if choice is not None:
        editor.perform(choice)


def _letter(keys: keymap.Keys, action_id: str) -> str:
    return next((key for key in keys.of(action_id) if len(key) == 1), "")


def do_help(editor: Editor) -> None:
    from tui.shell.palette import Help, Line

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
        Line("In the text", keys, title, note)
        for keys, title, note in (
            (" ".join(filter(None, (undo_key(editor.keys), "^y"))), "Undo, redo", ""),
            ("Tab", "Indent", "In a string, shows completions; accepts the first one if they are shown"),
            ("Esc", "Leave the text", "Letters are then keys, and q closes the editor; Enter returns to the text"),
            ("^c ^x ^v", "Copy, cut, paste", ""),
            ("^a ^e", "Start and end of the line", ""),
            ("^Home ^End", "Start and end of the text", ""),
            ("^← ^→", "Previous word, next word", ""),
            ("^w ^u ^k", "Delete the previous word, to the start or the end of the line", ""),
        )
    ]
    sheet += [
        Line("In the panel", keys, title, note)
        for keys, title, note in (
            ("↑ ↓ j k", "Move", ""),
            (
                "← → h l",
                "Previous view, next view",
                "On a narrow screen, Enter focuses the text or the request, and Esc shows the text",
            ),
            ("⏎", "Open", "A rule or problem in the text; a service's operations. Without a line to open, the text"),
        )
    ]
    editor.app.push_screen(Help(sheet))


async def do_palette(editor: Editor) -> None:
    from tui.shell.palette import Entry as Line
    from tui.shell.palette import Palette, destinations

    frame = next(screen for screen in editor.app.screen_stack if isinstance(screen, Navigator))

    def entries(typed: str) -> Iterator[Line]:
        """Yield the actions of the editor, then screens and records, for which the editor closes."""
        context = editor.action_context()
        for action in actions.ACTIONS:
            if action.id != "editor.palette":
                reason = action.disabled_reason(context)
                run = partial(editor.perform, action.id)
                yield Line(action.title, editor.keys.label(action.id), reason or action.help, run, not reason)
        for one in destinations(frame, typed):
            text = f"Closes the editor{': ' if one.text else ''}{one.text}"
            yield one._replace(key="", text=text, run=partial(_leave_for, editor, one.run))

    choice = await editor.app.push_screen_wait(Palette(entries))
    if choice is not None and isawaitable(opening := choice.run()):
        await opening


async def _leave_for(editor: Editor, open_destination: Callable[[], Any]) -> None:
    """Close the editor, then open a screen or record, unless the user keeps editing."""
    await do_close(editor)
    if editor.autosave.is_closed:
        open_destination()


async def do_close(editor: Editor) -> None:
    """Close the editor. With unsaved changes, ask the user first."""
    document = editor.document
    if not document.is_changed:
        await editor.leave(keep=False)
        return
    save_reason = actions.BY_ID["editor.save"].disabled_reason(editor.action_context())
    keep = Entry("keep", "Close and keep the draft", "k", "Offers the draft when you open this policy again")
    entries = [
        Entry("save", "Save …", "s", "Shows the changes first", save_reason),
        *([keep] if editor.autosave.is_enabled else ()),
        Entry("drop", "Discard changes", "d", "Deletes your unsaved changes"),
    ]
    choice = await editor.app.push_screen_wait(
        Menu("Unsaved changes", entries, foot="Enter or its key: choose · Esc keep editing")
    )
    if choice == "save":
        is_saved = await editor.save_flow.save()
        if is_saved and not editor.document.is_changed:  # the user may have typed during the save
            await editor.leave(keep=False)
    elif choice == "drop":
        await editor.leave(keep=False)
    elif choice == "keep" and await editor.leave(keep=True):
        key = editor.keys.label("policies.edit" if document.id else "policies.create")
        editor.toast("Draft kept" + (f": {key} to resume" if key else ""))

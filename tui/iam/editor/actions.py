"""The actions of the policy editor, for its bindings, footer, help, menu and palette.

Printable keys work everywhere except in the text and the fields; the other keys work there too.
`ActionContext.record` is the state of the draft, from `PolicyEditor.context`.
"""

from collections.abc import Mapping

from tui.shell.action import Action, ActionContext, line

EDITOR = "editor"


def _unsaved(context: ActionContext) -> str:
    draft = context.record or {}
    if context.read_only:
        return context.read_only
    if draft.get("saving"):
        return "it is being saved"
    if draft.get("unreadable"):
        return str(draft["unreadable"])
    return "" if draft.get("changed") else "nothing was changed"


def _readable(context: ActionContext) -> str:
    return str((context.record or {}).get("unreadable") or "")


def _problems(context: ActionContext) -> str:
    return "" if (context.record or {}).get("problems") else "nothing is wrong with the text"


def _examples(context: ActionContext) -> str:
    draft = context.record or {}
    if draft.get("at_fault"):
        return f"first mend line {draft['at_fault']}"
    if draft.get("examples"):
        return ""
    return "the draft stays within what you hold" if draft.get("checked") else "the author check has not answered"


def _command(context: ActionContext) -> str:
    draft = context.record or {}
    if draft.get("id"):
        return line("iam", "policy", "update", str(draft["id"]), "--document", "@FILE")
    return line("iam", "policy", "create", "--name", str(draft.get("name") or "NAME"), "--document", "@FILE")


def _simulate(context: ActionContext) -> str:
    tried = (context.record or {}).get("tried")
    return line("iam", "simulate", "--document", "@FILE", *tried) if tried else ""


ACTIONS: tuple[Action, ...] = (
    Action(
        "editor.save",
        "Save",
        handler="tui.iam.editor.action_handlers:do_save",
        keys=("ctrl+s", "s"),
        footer_label="save",
        guard=_unsaved,
        command=_command,
        help="Shows what changes, in text and in effect, before it is stored",
        opens_dialog=True,
        writes=True,
    ),
    Action(
        "editor.view",
        "Next view",
        handler="tui.iam.editor.action_handlers:do_view",
        keys=("f6", "v"),
        footer_label="view",
        command=_simulate,
        help="Rules, coverage, author check, problems; on a narrow screen text and request as well",
    ),
    Action(
        "editor.request",
        "Request",
        handler="tui.iam.editor.action_handlers:do_request",
        keys=("f3", "r"),
        footer_label="request",
        help="What the draft is tried on",
    ),
    Action(
        "editor.complete",
        "Complete",
        handler="tui.iam.editor.action_handlers:do_complete",
        keys=("f2", "ctrl+@"),
        footer_label="complete",
        help="What can stand at the cursor; Enter or Tab takes it",
    ),
    Action(
        "editor.problem",
        "Next problem",
        handler="tui.iam.editor.action_handlers:do_problem",
        keys=("f8", "n"),
        footer_label="problem",
        guard=_problems,
        help="To the next line at fault",
    ),
    Action(
        "editor.narrow",
        "Narrow the draft",
        handler="tui.iam.editor.action_handlers:do_narrow",
        keys=("f9", "w"),
        footer_label="narrow",
        guard=_examples,
        command=lambda s: line("iam", "policy", "check", "--document", "@FILE"),
        help="Takes out of the draft what the chosen counterexample shows you do not hold; undo brings it back",
        opens_dialog=True,
    ),
    Action(
        "editor.example",
        "Try the counterexample",
        handler="tui.iam.editor.action_handlers:do_example",
        keys=("f5", "t"),
        guard=_examples,
        help="Puts the chosen counterexample into the request; once more brings the former request back",
    ),
    Action(
        "editor.external",
        "Open in $EDITOR",
        handler="tui.iam.editor.action_handlers:do_external",
        keys=("f4", "e"),
        footer_label="$EDITOR",
        guard=lambda s: "a browser is no terminal that could be handed to an editor" if s.browser else "",
        help="The same text in the editor of your own; what it leaves comes back here",
    ),
    Action(
        "editor.format",
        "Format",
        handler="tui.iam.editor.action_handlers:do_format",
        keys=("f7", "f"),
        help="Lays the text out anew; its meaning stays",
    ),
    Action(
        "editor.template",
        "Begin with a template",
        handler="tui.iam.editor.action_handlers:do_template",
        keys=("m",),
        help="Replaces the text",
        opens_dialog=True,
    ),
    Action(
        "editor.changes",
        "Gained and lost",
        handler="tui.iam.editor.action_handlers:do_changes",
        keys=("c",),
        guard=_readable,
        help="Operations the draft gives and takes",
    ),
    Action(
        "editor.palette",
        "Palette",
        handler="tui.iam.editor.action_handlers:do_palette",
        keys=("ctrl+p", ":"),
        help="Everything that can be done, by name",
        opens_dialog=True,
    ),
    Action(
        "editor.menu",
        "Actions",
        handler="tui.iam.editor.action_handlers:do_menu",
        keys=("f10", "x"),
        footer_label="actions",
        help="What can be done here",
        opens_dialog=True,
    ),
    Action(
        "editor.help",
        "Help",
        handler="tui.iam.editor.action_handlers:do_help",
        keys=("f1", "?"),
        footer_label="help",
        opens_dialog=True,
    ),
    Action(
        "editor.close",
        "Leave",
        handler="tui.iam.editor.action_handlers:do_close",
        keys=("ctrl+g", "q"),
        footer_label="leave",
        help="Asks when something is not saved",
        opens_dialog=True,
    ),
)

BY_ID: Mapping[str, Action] = {action.id: action for action in ACTIONS}

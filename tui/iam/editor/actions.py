"""The actions of the policy editor, for its bindings, footer, help, menu and palette.

Printable keys work everywhere except in the text and the fields; the other keys work there too.
`ActionContext.record` is the state of the draft, from `PolicyEditor.context`.
"""

from collections.abc import Mapping

from tui.shell.action import Action, ActionContext, line

EDITOR = "editor"


def _unsaved(context: ActionContext) -> str:
    draft = context.fields
    if context.read_only:
        return context.read_only
    if draft.get("saving"):
        return "save in progress"
    if draft.get("unreadable"):
        return str(draft["unreadable"])
    return "" if draft.get("changed") else "no changes"


def _readable(context: ActionContext) -> str:
    return str(context.fields.get("unreadable") or "")


def _problems(context: ActionContext) -> str:
    return "" if context.fields.get("problems") else "no problems"


def _examples(context: ActionContext) -> str:
    draft = context.fields
    if draft.get("at_fault"):
        return f"fix line {draft['at_fault']}"
    if draft.get("examples"):
        return ""
    return "the draft is within your own permissions" if draft.get("checked") else "waiting for the author check"


def _command(context: ActionContext) -> str:
    draft = context.fields
    if draft.get("id"):
        return line("iam", "policy", "update", str(draft["id"]), "--document", "@FILE")
    return line("iam", "policy", "create", "--name", str(draft.get("name") or "NAME"), "--document", "@FILE")


def _simulate(context: ActionContext) -> str:
    tried = context.fields.get("tried")
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
        help="Shows the changes in text and in effect first",
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
        help="Rules, coverage, author check, problems; on a narrow screen also text and request",
    ),
    Action(
        "editor.request",
        "Request",
        handler="tui.iam.editor.action_handlers:do_request",
        keys=("f3", "r"),
        footer_label="request",
        help="Edit the request that the draft is tested with",
    ),
    Action(
        "editor.complete",
        "Complete",
        handler="tui.iam.editor.action_handlers:do_complete",
        keys=("f2", "ctrl+@"),
        footer_label="complete",
        help="Show completions at the cursor; Enter or Tab accepts",
    ),
    Action(
        "editor.problem",
        "Next problem",
        handler="tui.iam.editor.action_handlers:do_problem",
        keys=("f8", "n"),
        footer_label="problem",
        guard=_problems,
        help="Go to the next line with a problem",
    ),
    Action(
        "editor.narrow",
        "Remove excess permissions",
        handler="tui.iam.editor.action_handlers:do_narrow",
        keys=("f9", "w"),
        footer_label="narrow",
        guard=_examples,
        command=lambda s: line("iam", "policy", "check", "--document", "@FILE"),
        help="Remove permissions that you cannot grant, by the selected counterexample; can be undone",
        opens_dialog=True,
    ),
    Action(
        "editor.example",
        "Test the counterexample",
        handler="tui.iam.editor.action_handlers:do_example",
        keys=("f5", "t"),
        guard=_examples,
        help="Set the request to the selected counterexample; press again to restore your request",
    ),
    Action(
        "editor.external",
        "Open in $EDITOR",
        handler="tui.iam.editor.action_handlers:do_external",
        keys=("f4", "e"),
        footer_label="$EDITOR",
        guard=lambda s: "not available in a browser" if s.browser else "",
        help="Edit the text in your own editor",
    ),
    Action(
        "editor.format",
        "Format",
        handler="tui.iam.editor.action_handlers:do_format",
        keys=("f7", "f"),
        help="Format the text without changing its meaning",
    ),
    Action(
        "editor.template",
        "New from template",
        handler="tui.iam.editor.action_handlers:do_template",
        keys=("m",),
        help="Replace the text with a template",
        opens_dialog=True,
    ),
    Action(
        "editor.changes",
        "Gained and lost",
        handler="tui.iam.editor.action_handlers:do_changes",
        keys=("c",),
        guard=_readable,
        help="Operations that the draft adds and removes",
    ),
    Action(
        "editor.palette",
        "Palette",
        handler="tui.iam.editor.action_handlers:do_palette",
        keys=("ctrl+p", ":"),
        help="Find and run any action",
        opens_dialog=True,
    ),
    Action(
        "editor.menu",
        "Actions",
        handler="tui.iam.editor.action_handlers:do_menu",
        keys=("f10", "x"),
        footer_label="actions",
        help="Actions of the editor",
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
        "Close editor",
        handler="tui.iam.editor.action_handlers:do_close",
        keys=("ctrl+g", "q"),
        footer_label="leave",
        help="Asks first if the text has unsaved changes",
        opens_dialog=True,
    ),
)

BY_ID: Mapping[str, Action] = {action.id: action for action in ACTIONS}

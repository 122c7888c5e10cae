"""The actions of the policy editor, for its bindings, footer, help, menu and palette.

Printable keys work everywhere except in the text and the fields; the other keys work there too.
`ActionContext.record` is a `Draft`, from `EditorLayout.action_context`.
"""

from collections.abc import Mapping
from typing import NamedTuple

from tui.shell.action import Action, ActionContext, about_record, line

EDITOR = "editor"


class Draft(NamedTuple):
    """The state of the draft that determines which actions are enabled."""

    policy_id: str
    """Empty for a new policy."""
    name: str
    can_save: bool
    is_saving: bool
    invalid_reason: str
    """Why actions that need a valid text are disabled; empty if the text is valid."""
    problem_line: int
    """Line of the first problem; 0 without a problem."""
    problems: int
    """Number of problems or, without any, of warnings."""
    counterexamples: int
    is_checked: bool
    """Whether there is an author check."""


@about_record
def _can_save(context: ActionContext, draft: Draft) -> str:
    if draft.is_saving:
        return "save in progress"
    return draft.invalid_reason or ("" if draft.can_save else "no changes")


@about_record
def _is_valid(_: ActionContext, draft: Draft) -> str:
    return draft.invalid_reason


@about_record
def _has_problems(_: ActionContext, draft: Draft) -> str:
    return "" if draft.problems else "no problems"


@about_record
def _has_counterexamples(_: ActionContext, draft: Draft) -> str:
    if draft.problem_line:
        return f"line {draft.problem_line} has an error"
    if draft.counterexamples:
        return ""
    return "the draft is within your own permissions" if draft.is_checked else "waiting for the author check"


def _save_line(context: ActionContext) -> str:
    draft: Draft = context.record
    if draft.policy_id:
        return line("iam", "policy", "update", draft.policy_id, "--document", "@FILE")
    return line("iam", "policy", "create", "--name", draft.name or "NAME", "--document", "@FILE")


ACTIONS: tuple[Action, ...] = (
    Action(
        "editor.save",
        "Save",
        handler="tui.iam.editor.action_handlers:do_save",
        keys=("ctrl+s", "s"),
        footer_label="save",
        guard=_can_save,
        command=_save_line,
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
        guard=_has_problems,
        help="Go to the next line with a problem",
    ),
    Action(
        "editor.narrow",
        "Remove excess permissions",
        handler="tui.iam.editor.action_handlers:do_narrow",
        keys=("f9", "w"),
        footer_label="fix",
        guard=_has_counterexamples,
        command=lambda _: line("iam", "policy", "check", "--document", "@FILE"),
        help="Remove permissions that you cannot grant, by the selected counterexample; can be undone",
        opens_dialog=True,
    ),
    Action(
        "editor.example",
        "Test the counterexample",
        handler="tui.iam.editor.action_handlers:do_example",
        keys=("f5", "t"),
        guard=_has_counterexamples,
        help="Set the request to the selected counterexample; press again to restore your request",
    ),
    Action(
        "editor.external",
        "Open in $EDITOR",
        handler="tui.iam.editor.action_handlers:do_external",
        keys=("f4", "e"),
        footer_label="$EDITOR",
        guard=lambda context: "not available in a browser" if context.browser else "",
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
        guard=_is_valid,
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
        footer_label="close",
        help="Asks first if the text has unsaved changes",
        opens_dialog=True,
    ),
)

BY_ID: Mapping[str, Action] = {action.id: action for action in ACTIONS}

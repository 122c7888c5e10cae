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
        ("ctrl+s", "s"),
        "save",
        reason=_unsaved,
        command=_command,
        help="Shows what changes, in text and in effect, before it is stored",
        dialog=True,
        writes=True,
    ),
    Action(
        "editor.view",
        "Next view",
        ("f6", "v"),
        "view",
        command=_simulate,
        help="Rules, coverage, author check, problems; on a narrow screen text and request as well",
    ),
    Action("editor.request", "Request", ("f3", "r"), "request", help="What the draft is tried on"),
    Action(
        "editor.complete",
        "Complete",
        ("f2", "ctrl+@"),
        "complete",
        help="What can stand at the cursor; Enter or Tab takes it",
    ),
    Action(
        "editor.problem",
        "Next problem",
        ("f8", "n"),
        "problem",
        reason=_problems,
        help="To the next line at fault",
    ),
    Action(
        "editor.narrow",
        "Narrow the draft",
        ("f9", "w"),
        "narrow",
        reason=_examples,
        command=lambda s: line("iam", "policy", "check", "--document", "@FILE"),
        help="Takes out of the draft what the chosen counterexample shows you do not hold; undo brings it back",
        dialog=True,
    ),
    Action(
        "editor.example",
        "Try the counterexample",
        ("f5", "t"),
        reason=_examples,
        help="Puts the chosen counterexample into the request; once more brings the former request back",
    ),
    Action(
        "editor.external",
        "Open in $EDITOR",
        ("f4", "e"),
        "$EDITOR",
        reason=lambda s: "a browser is no terminal that could be handed to an editor" if s.browser else "",
        help="The same text in the editor of your own; what it leaves comes back here",
    ),
    Action("editor.format", "Format", ("f7", "f"), help="Lays the text out anew; its meaning stays"),
    Action("editor.template", "Begin with a template", ("m",), help="Replaces the text", dialog=True),
    Action("editor.changes", "Gained and lost", ("c",), reason=_readable, help="Operations the draft gives and takes"),
    Action("editor.palette", "Palette", ("ctrl+p", ":"), dialog=True, help="Everything that can be done, by name"),
    Action("editor.menu", "Actions", ("f10", "x"), "actions", dialog=True, help="What can be done here"),
    Action("editor.help", "Help", ("f1", "?"), "help", dialog=True),
    Action("editor.close", "Leave", ("ctrl+g", "q"), "leave", help="Asks when something is not saved", dialog=True),
)

BY_ID: Mapping[str, Action] = {action.id: action for action in ACTIONS}

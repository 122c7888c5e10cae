"""Actions of the contexts screen."""

from tui.shell.action import Action, ActionContext, about_record, all_of, line, selected
from tui.state.contexts import ContextSummary

# --- guards ----------------------------------------------------------------------------------------------------------


@about_record
def _is_other_context(context: ActionContext, record: ContextSummary) -> str:
    return "this context is already in use" if record.name == context.context_name else ""


@about_record
def _is_unused(context: ActionContext, record: ContextSummary) -> str:
    in_use = record.name == context.context_name
    return "this context is in use: switch to another context first" if in_use else ""


@about_record
def _has_session(_: ActionContext, record: ContextSummary) -> str:
    return "" if record.credential == "session" else "not signed in to this context"


@about_record
def _has_no_api_key(_: ActionContext, record: ContextSummary) -> str:
    api_key = record.credential == "api_key"
    return "this context has an API key; it needs no sign-in" if api_key else ""


# --- commands --------------------------------------------------------------------------------------------------------


def _name(context: ActionContext) -> str:
    record: ContextSummary | None = context.record
    return record.name if record is not None else ""


def _use(context: ActionContext) -> str:
    return line("config", "use-context", _name(context)) if context.record is not None else ""


def _create(_: ActionContext) -> str:
    return line("login", "--context", "NAME", "--endpoint", "URL")


def _edit(context: ActionContext) -> str:
    record: ContextSummary | None = context.record
    return line("config", "set", "api_endpoint", record.api_endpoint) if record is not None else ""


def _sign_in(context: ActionContext) -> str:
    name = _name(context)
    return line("login", "--device", *(["--context", name] if name else []))


def _sign_out(context: ActionContext) -> str:
    return line("logout", "--context", _name(context))


CONTEXT_ACTIONS: tuple[Action, ...] = (
    Action(
        "contexts.use",
        "Use context",
        handler="tui.contexts.screen:Contexts.do_use",
        keys=("u",),
        footer_label="use",
        guard=all_of(selected, _is_other_context),
        command=_use,
        help="Switch to its endpoint and credentials; Enter does the same",
        accepts_record_argument=True,
        writes=True,
    ),
    Action(
        "contexts.create",
        "Create context",
        handler="tui.contexts.screen:Contexts.do_create",
        keys=("n",),
        footer_label="new",
        command=_create,
        help="Save the endpoint and region of a platform under a name",
        opens_dialog=True,
        writes=True,
    ),
    Action(
        "contexts.edit",
        "Edit endpoint and region",
        handler="tui.contexts.screen:Contexts.do_edit",
        keys=("e",),
        footer_label="edit",
        guard=selected,
        command=_edit,
        opens_dialog=True,
        writes=True,
    ),
    Action(
        "contexts.sign_in",
        "Sign in",
        handler="tui.contexts.screen:Contexts.do_sign_in",
        keys=("i",),
        footer_label="sign in",
        guard=all_of(selected, _has_no_api_key),
        command=_sign_in,
        help="Confirm a code in a browser; the local platform needs no code",
        accepts_record_argument=True,
        writes=True,
    ),
    Action(
        "contexts.sign_out",
        "Sign out",
        handler="tui.contexts.screen:Contexts.do_sign_out",
        keys=("o",),
        footer_label="sign out",
        guard=all_of(selected, _has_session),
        command=_sign_out,
        help="End the session on the platform and delete it on this machine",
        opens_dialog=True,
        accepts_record_argument=True,
        writes=True,
    ),
    Action(
        "contexts.delete",
        "Delete context",
        handler="tui.contexts.screen:Contexts.do_delete",
        keys=("delete",),
        footer_label="delete",
        guard=all_of(selected, _is_unused),
        help="With its stored credentials; asks first",
        opens_dialog=True,
        writes=True,
    ),
)

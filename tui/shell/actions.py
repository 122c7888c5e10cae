"""All actions of the screens: id, title, keys, reason to disable it and equivalent command.

Key bindings, footer, palette, help and menus are generated from this table. An action is run by the method `do_<last
part of the id>` of its screen or of the main screen.
"""

from collections.abc import Mapping

from tui.shell.action import ANYWHERE, LIST, Action, ActionContext, Command, line
from tui.shell.audit_target import of_this, of_this_line
from tui.shell.routes import load

__all__ = ("ACTIONS", "ANYWHERE", "BY_ID", "LIST", "Action", "ActionContext", "line", "of_scope")


# --- reasons ---------------------------------------------------------------------------------------------------------


def _cannot_edit(context: ActionContext) -> str:
    return context.read_only or ("" if context.record is not None else "nothing is selected")


def _cannot_create(context: ActionContext) -> str:
    if context.read_only:
        return context.read_only
    if context.identity_known and not context.creatable:
        return "only an owner or admin of an organization creates tenants"
    return ""


def _cannot_rename(context: ActionContext) -> str:
    if context.read_only or context.record is None:
        return context.read_only or "nothing is selected"
    if context.record.get("role") not in (None, "owner", "admin"):
        return f"only an owner or admin of {context.record.get('organizationName', 'the organization')} renames it"
    return ""


def _is_the_tenant(context: ActionContext) -> str:
    if context.record is None:
        return "nothing is selected"
    return "this tenant is already in use" if context.record.get("id") == context.tenant else ""


def _is_the_context(context: ActionContext) -> str:
    if context.read_only or context.record is None:
        return context.read_only or "nothing is selected"
    return "this context is already in use" if context.record.get("name") == context.context_name else ""


def _in_the_way_of_deleting(context: ActionContext) -> str:
    if context.read_only or context.record is None:
        return context.read_only or "nothing is selected"
    in_use = context.record.get("name") == context.context_name
    return "this context is in use: use another one first" if in_use else ""


def _not_signed_in(context: ActionContext) -> str:
    if context.read_only or context.record is None:
        return context.read_only or "nothing is selected"
    return "" if context.record.get("credential") == "session" else "nobody is signed in in this context"


def _key_in_the_way(context: ActionContext) -> str:
    if context.read_only or context.record is None:
        return context.read_only or "nothing is selected"
    api_key = context.record.get("credential") == "api_key"
    return "this context has an API key; it needs no sign-in" if api_key else ""


def _nothing_to_undo(context: ActionContext) -> str:
    if context.undo:
        return ""
    return f"nothing to take back: {context.lasting} stays" if context.lasting else "there is nothing to take back"


# --- commands --------------------------------------------------------------------------------------------------------


def _of_record(*words: str, key: str = "id") -> Command:
    return lambda context: line(*words, str(context.record[key])) if context.record is not None else ""


def _tenant_rename(context: ActionContext) -> str:
    if context.record is None:
        return ""
    return line("tenant", "rename", str(context.record["id"]), "--name", str(context.record["displayName"]))


def _tenant_create(context: ActionContext) -> str:
    organization = str((context.record or {}).get("organizationId", ""))
    words = ["tenant", "create", "--name", "NAME"]
    return line(*words, *(["--organization", organization] if organization in context.creatable else []))


def _context_edit(context: ActionContext) -> str:
    if context.record is None:
        return ""
    return line("config", "set", "api_endpoint", str(context.record.get("api_endpoint", "")))


def _sign_in(context: ActionContext) -> str:
    name = str((context.record or {}).get("name", ""))
    return line("login", "--device", *(["--context", name] if name else []))


_FEATURES = (
    "tui.iam.actions:POLICY_ACTIONS",
    "tui.account.actions:ACCOUNT_ACTIONS",
    "tui.quotas.actions:QUOTA_ACTIONS",
    "tui.default_tags.actions:TAG_ACTIONS",
    "tui.activity.actions:ACTIVITY_ACTIONS",
)
"""The actions of the features, defined next to their screens."""
ACTIONS: tuple[Action, ...] = (
    Action(
        "app.switch_tenant", "Switch tenant", ("ctrl+t",), "tenant", dialog=True, help="Type a few letters of its name"
    ),
    Action(
        "app.previous_tenant",
        "Back to the tenant before",
        ("-",),
        reason=lambda s: "" if s.tenant_before else "no other tenant was used yet",
        command=lambda s: line("tenant", "use", s.tenant_before) if s.tenant_before else "",
    ),
    Action(
        "app.palette",
        "Command palette",
        ("ctrl+p",),
        "palette",
        dialog=True,
        help="Everything that can be done, with its key",
    ),
    Action("app.command_line", "Command line", (":",), help="A place or an action by name, with arguments"),
    Action("app.help", "Help", ("?",), "help", dialog=True, help="The keys that work here; type to search"),
    Action(
        "app.menu", "Actions", ("x",), "actions", dialog=True, help="What can be done here, each with its equal command"
    ),
    Action("app.copy", "Copy", ("y",), "copy", dialog=True, help="Id, name, row, JSON, or the equal command"),
    Action("app.refresh", "Refresh", ("r",), "refresh", help="Ask the platform again; retries a lost connection now"),
    Action(
        "app.undo",
        "Undo",
        ("z",),
        reason=_nothing_to_undo,
        help="Take back the last reversible change",
    ),
    Action("app.earlier", "The view before", ("[",), reason=lambda s: "" if s.earlier else "this is the first view"),
    Action("app.later", "The view after", ("]",), reason=lambda s: "" if s.later else "this is the latest view"),
    Action("app.zoom", "Zoom", ("+",), help="Give the whole screen to the pane, and back"),
    Action("app.theme", "Light or dark", (), help="Change between the light and the dark theme"),
    Action("app.who_am_i", "Who am I", (), command=lambda s: line("whoami"), help="Identity and credential in use"),
    Action(
        "app.activity",
        "Activity of this",
        ("A",),
        reason=of_this,
        command=of_this_line,
        help="What was done to what is under the cursor, and by whom",
    ),
    Action("app.quit", "Quit", ("q",), "quit"),
    Action("list.filter", "Filter", ("/",), "filter", help="Words, !word to shut out, field:value"),
    Action("list.sort", "Sort", ("s",), "sort", help="By the next column, upwards then downwards"),
    Action("list.detail", "Details", ("d",), help="Everything known about the record under the cursor"),
    Action("list.into_detail", "Into the details", ("l", "right"), help="Scroll the pane beside the list"),
    Action("list.out_of_detail", "Back to the list", ("h", "left")),
    Action(
        "tenants.use",
        "Use tenant",
        ("u",),
        "use",
        reason=_is_the_tenant,
        command=_of_record("tenant", "use"),
        help="Work in it from now on, here and in commands; Enter does the same",
        of_named=True,
    ),
    Action(
        "tenants.create",
        "Create tenant",
        ("n",),
        "new",
        reason=_cannot_create,
        command=_tenant_create,
        help="Provisioning is shown step by step",
        dialog=True,
        writes=True,
    ),
    Action(
        "tenants.rename",
        "Rename tenant",
        ("e",),
        "rename",
        reason=_cannot_rename,
        command=_tenant_rename,
        help="Id and slug stay; can be undone",
        dialog=True,
        writes=True,
    ),
    Action(
        "tenants.default_tags",
        "Default tags of the tenant",
        ("t",),
        "tags",
        reason=lambda s: "" if s.record is not None else "nothing is selected",
        command=lambda s: line("tenant", "default-tags", "get", "--tenant", str((s.record or {}).get("id", ""))),
        help="What its new resources get, and applying that to the others; works in that tenant from then on",
        of_named=True,
    ),
    Action(
        "contexts.use",
        "Use context",
        ("u",),
        "use",
        reason=_is_the_context,
        command=_of_record("config", "use-context", key="name"),
        help="Its endpoint and credentials count from now on; Enter does the same",
        of_named=True,
        writes=True,
    ),
    Action(
        "contexts.create",
        "Create context",
        ("n",),
        "new",
        reason=lambda s: s.read_only,
        command=lambda s: line("login", "--context", "NAME", "--endpoint", "URL"),
        help="A platform by a name of your own, with its endpoint and region",
        dialog=True,
        writes=True,
    ),
    Action(
        "contexts.edit",
        "Edit endpoint and region",
        ("e",),
        "edit",
        reason=_cannot_edit,
        command=_context_edit,
        dialog=True,
        writes=True,
    ),
    Action(
        "contexts.sign_in",
        "Sign in",
        ("i",),
        "sign in",
        reason=_key_in_the_way,
        command=_sign_in,
        help="With a code confirmed in a browser; the local platform needs none",
        of_named=True,
        writes=True,
    ),
    Action(
        "contexts.sign_out",
        "Sign out",
        ("o",),
        "sign out",
        reason=_not_signed_in,
        command=lambda s: line("logout", "--context", str((s.record or {}).get("name", ""))),
        help="Ends the session on the platform and forgets it here",
        dialog=True,
        of_named=True,
        writes=True,
    ),
    Action(
        "contexts.delete",
        "Delete context",
        ("delete",),
        "delete",
        reason=_in_the_way_of_deleting,
        help="With its stored credentials; asks first",
        dialog=True,
        writes=True,
    ),
    *(action for path in _FEATURES for action in load(path)),
)

BY_ID: Mapping[str, Action] = {action.id: action for action in ACTIONS}


def of_scope(*scopes: str) -> list[Action]:
    """Return the actions of these scopes, in the order of the scopes and then of the table."""
    return [action for scope in scopes for action in ACTIONS if action.scope == scope]

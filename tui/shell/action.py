"""Type of the actions of the screens, the guards that disable them, and the target of a record in the activity log.

The table of the actions is in tui/shell/actions.py. Its rows compose guards:
`guard=all_of(has_tenant, selected, is_manager("renames it"))`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import reduce
from importlib import import_module
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from client.tables.columns import Record, json_of, kind_and_id

if TYPE_CHECKING:
    from client.models.tenants import Entry
    from tui.state.tag_draft import TagDraft

ANYWHERE = "app"
"""The scope of actions that work on every screen."""
LIST = "list"
"""The scope of actions that work on every screen with a list."""


class ActionContext(NamedTuple):
    """The state that decides which actions are available. Empty strings mean absent."""

    screen: str = ""
    subject: str = ""
    """Id of the record whose contents the screen shows, such as a group; empty on other screens."""
    record: Any = None
    """The record under the cursor, a model of the client or a mapping."""
    context_name: str = ""
    tenant: str = ""
    """Id of the tenant in use; empty if the principal has no access to it."""
    tenant_before: str = ""
    config_flag: str | None = None
    """The file of `--config`, which commands need too; None without the flag."""
    tenant_flag: str | None = None
    """Id of the tenant in use if commands would use another one; None otherwise."""
    read_only: str = ""
    """Why changes are not allowed; empty if they are."""
    keyed: bool = False
    """Whether the context uses an API key, without an interactive session."""
    scopes: tuple[str, ...] = ()
    """Scopes of that API key."""
    role: str = ""
    """Role of the principal in the organization of the tenant in use; empty until it is loaded."""
    creatable: tuple[str, ...] = ()
    """Ids of the organizations in which the principal may create and rename tenants."""
    identity_known: bool = False
    draft: "TagDraft | None" = None
    """The edited default tags of that tenant; None until they are loaded and on screens without a draft."""
    applying: bool = False
    """Whether an apply of default tags is running in that tenant."""
    undo: str = ""
    """Description of the change that undo would revert; empty if there is none."""
    lasting: str = ""
    """Description of the last action if it cannot be undone, as `rolling back a version`."""
    earlier: bool = False
    later: bool = False
    """Whether the history has a view before and after this one."""
    browser: bool = False
    """Whether the screens run in a browser."""
    record_by_name: bool = False
    """Whether an argument selects the record. The record is then not loaded yet, and `record` is None."""

    @property
    def fields(self) -> Record:
        """The JSON object of the record, empty without a record."""
        return json_of(self.record) if self.record is not None else {}


def inside(title: str) -> str:
    """Return a title for the middle of a sentence. An acronym is not changed (`API keys`)."""
    return title if title[:2].isupper() else f"{title[:1].lower()}{title[1:]}"


def load(path: str) -> Any:
    """Return the object at `module:Class.method`. `pkgutil.resolve_name` compiles a pattern first, which takes 2 ms."""
    module, _, names = path.partition(":")
    return reduce(getattr, names.split("."), import_module(module))


Guard = Callable[[ActionContext], str]
"""Returns why an action is disabled; empty if it is enabled."""
Command = Callable[[ActionContext], str]


def always(_: ActionContext) -> str:
    """Never disable the action."""
    return ""


def no_command(_: ActionContext) -> str:
    """Return the command of an action that only moves or shows something."""
    return ""


@dataclass(frozen=True, slots=True)
class Action:
    """An action of the user. `keys` are Textual key names or characters; the first one is shown."""

    id: str
    title: str
    _: KW_ONLY
    handler: str
    """The method or function that runs it, as `module:Class.method`. It is imported on first use."""
    keys: tuple[str, ...] = ()
    footer_label: str = ""
    """Label in the footer; empty if the footer does not show the action."""
    guard: Guard = always
    command: Command = no_command
    """Returns the equivalent command line; empty if there is none."""
    help: str = ""
    opens_dialog: bool = False
    """Whether it opens a dialog: the next keys belong to that dialog."""
    accepts_record_argument: bool = False
    """Whether an argument on the `:` line selects the record, instead of the cursor."""
    acts_on_marked: bool = False
    """Whether it applies to all marked records. Its command then has a line for each."""
    writes: bool = False
    """Whether it changes the platform or the config. It is then disabled in a read-only context."""

    @property
    def scope(self) -> str:
        """`app`, `list` or the name of the screen it works on."""
        return self.id.partition(".")[0]

    def disabled_reason(self, context: ActionContext) -> str:
        """Return why it is disabled; empty if it is enabled.

        The record of another screen is of another type. That screen has a record of its own, which is not known here.
        """
        if context.record is not None and context.screen and self.scope not in (ANYWHERE, LIST, context.screen):
            context = context._replace(record=None, record_by_name=True)
        return (context.read_only if self.writes else "") or self.guard(context)

    @property
    def is_async(self) -> bool:
        """Whether the handler is a coroutine function."""
        return iscoroutinefunction(load(self.handler))

    def run(self, target: object, argument: str = "") -> Any:
        """Call the handler on a screen. Return its result: a coroutine if the handler is asynchronous."""
        handler = load(self.handler)
        return handler(target, argument) if argument else handler(target)

    def commands(self, context: ActionContext, selection: Sequence[Any]) -> str:
        """Return the equivalent commands, a line for each record if the action applies to several."""
        if not self.acts_on_marked or len(selection) < 2:
            return self.command_line(context)
        return "\n".join(self.command_line(context._replace(record=record)) for record in selection)

    def command_line(self, context: ActionContext) -> str:
        """Return the equivalent command with the flags for the file and the tenant of the screens."""
        line = self.command(context)
        if context.config_flag is None and context.tenant_flag is None:
            return line
        from client.texts.command_lines import command_with_flags

        return command_with_flags(line, config=context.config_flag, tenant=context.tenant_flag)


def line(*arguments: str) -> str:
    """Return a command line, quoted for a shell."""
    import shlex

    return shlex.join(("frost", *arguments))


PERSON_NEEDED = "this context works with an API key; groups and policies need a signed-in user"


MANAGERS = ("owner", "admin")
"""The roles that manage an organization."""


def all_of(*guards: Guard) -> Guard:
    """Return a guard that requires all of `guards`. Its reason is that of the first guard that disables the action."""

    def guard(context: ActionContext) -> str:
        return next((reason for one in guards if (reason := one(context))), "")

    return guard


def writable(context: ActionContext) -> str:
    """Require a context that is not read-only. Actions with `writes` do not need it."""
    return context.read_only


NOTHING_SELECTED = "nothing is selected"


def selected(context: ActionContext) -> str:
    """Require a record: under the cursor or by name."""
    return "" if context.record is not None or context.record_by_name else NOTHING_SELECTED


T = TypeVar("T")


def about_record(check: Callable[[ActionContext, T], str]) -> Guard:
    """Return a guard that checks the record under the cursor. Without a record it has no reason; see `selected`."""

    def guard(context: ActionContext) -> str:
        return check(context, context.record) if context.record is not None else ""

    return guard


def has_tenant(context: ActionContext) -> str:
    """Require a tenant in use."""
    return "" if context.tenant else "no tenant selected"


def requires_user(reason: str) -> Guard:
    """Return a guard that requires a signed-in user, not an API key."""
    return lambda context: reason if context.keyed else ""


def is_manager(reason: str) -> Guard:
    """Return a guard that requires an owner or admin. While the role is unknown, the platform decides."""
    return lambda context: reason if context.role and context.role not in MANAGERS else ""


ACTIVITY_NEEDS_A_PERSON = "this context works with an API key; the activity needs a signed-in user"
ACTIVITY_NEEDS_A_MANAGER = "only an owner or admin of the organization can see its activity"


TARGET_SCREENS: Mapping[str, str] = {
    "policy": "policies",
    "group": "groups",
    "api_key": "api-keys",
    "workload_identity": "access",
    "tenant": "tenants",
    "quota_request": "quotas",
    "organization": "account",
    "session": "sessions",
    "user": "account",
}
"""The screen that shows a kind of target."""


LOGGED_MEMBERS = ("api_key", "workload_identity", "group")


def screen_of_target(entry: "Entry") -> str:
    """Return the screen that shows the target of an audit entry; empty if there is none."""
    kind = entry.target_kind or ""
    if kind == "tenant" and (entry.operation.startswith("default_tags.") or "/default-tags" in entry.target):
        return "default-tags"
    if entry.operation.startswith("quota_request."):
        return "quotas"
    return TARGET_SCREENS.get(kind, "")


def record_id_of_target(entry: "Entry") -> str:
    """Return the id of an entry's target on its screen; empty if the screen as a whole shows it."""
    kind, identifier, screen = entry.target_kind or "", entry.target_id or "", screen_of_target(entry)
    if screen == "access":
        return f"{kind}:{identifier}"
    if screen == "quotas":  # quota requests are listed by resource type, the name of the target
        return entry.target_name or "" if kind == "quota_request" else ""
    return identifier if screen != "default-tags" and kind != "user" else ""


def target_of(context: ActionContext) -> str:
    """Return the target that the screen shows, as in the log (`policy:ID`); empty if the log has no entries for it."""
    record = context.fields
    match context.screen:
        case "policies":
            return _display_name("policy", record.get("id"))
        case "versions":
            return _display_name("policy", context.subject)
        case "groups":
            return _display_name("group", record.get("id"))
        case "api-keys":
            return _display_name("api_key", record.get("id"))
        case "tenants":
            return _display_name("tenant", record.get("id"))
        case "default-tags" | "tag-versions" | "apply-runs":
            return _display_name("tenant", context.tenant)
        case "requests":
            return _display_name("quota_request", record.get("id"))
        case "members" | "attachments" | "who":
            kind, identifier = kind_and_id(record)
            return _display_name(kind, identifier) if kind in LOGGED_MEMBERS else ""
        case "activity" | "activity-of" | "organization-activity":
            kind = str(record.get("targetKind") or "")
            return _display_name(kind, record.get("targetId")) if kind != "organization" else ""
    return ""


def _display_name(kind: str, identifier: object) -> str:
    return f"{kind}:{identifier}" if identifier else ""


can_read_activity = all_of(requires_user(ACTIVITY_NEEDS_A_PERSON), is_manager(ACTIVITY_NEEDS_A_MANAGER), has_tenant)
"""Requires that the log can be read. While the role is unknown, the platform decides."""


def has_activity(context: ActionContext) -> str:
    """Return why no entries can be shown for the record under the cursor."""
    if reason := can_read_activity(context):
        return reason
    if not target_of(context):
        return "the activity log has no entries about this record"
    record = context.fields
    tenant = record.get("id") if context.screen == "tenants" else record.get("tenantId", context.tenant)
    return (
        "" if tenant in (None, "", context.tenant) else "this record belongs to another tenant: use that tenant first"
    )


ACTIVITY = ("tenant", "activity")


def activity_command(context: ActionContext) -> str:
    """Return the command that lists the entries about the record under the cursor."""
    return line(*ACTIVITY, "--target", target) if (target := target_of(context)) else ""

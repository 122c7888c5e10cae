"""Type of the actions of the screens. Their table is in tui/shell/actions.py."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, NamedTuple

from client.tables.columns import Record

if TYPE_CHECKING:
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
    record: Record | None = None
    """The record under the cursor."""
    context_name: str = ""
    tenant: str = ""
    """Id of the tenant in use."""
    tenant_before: str = ""
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


def inside(title: str) -> str:
    """Return a title for the middle of a sentence. An acronym is not changed (`API keys`)."""
    return title if title[:2].isupper() else f"{title[:1].lower()}{title[1:]}"


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
    """Label in the footer; empty if the footer leaves the action out."""
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
        """Return why it is disabled; empty if it is enabled."""
        return (context.read_only if self.writes else "") or self.guard(context)

    def run(self, target: object, argument: str = "") -> Any:
        """Call the handler on a screen. Return its result, which may be awaitable."""
        handler = resolve_name(self.handler)
        return handler(target, argument) if argument else handler(target)

    def commands(self, context: ActionContext, selection: Sequence[Record]) -> str:
        """Return the equivalent commands, a line for each record if the action applies to several."""
        if not self.acts_on_marked or len(selection) < 2:
            return self.command(context)
        return "\n".join(self.command(context._replace(record=record)) for record in selection)


def line(*arguments: str) -> str:
    """Return a command line, quoted for a shell."""
    import shlex

    return shlex.join(("frost", *arguments))


PERSON_NEEDED = "this context works with an API key; groups and policies need a signed-in user"

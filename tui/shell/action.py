"""Type of the actions of the screens. Their table is in tui/shell/actions.py."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tui.state.tag_draft import TagDraft

Record = Mapping[str, Any]

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
    """Whether the screens run in a browser. Only the policy editor sets it."""


def inside(title: str) -> str:
    """Return a title for the middle of a sentence. An acronym is not changed (`API keys`)."""
    return title if title[:2].isupper() else f"{title[:1].lower()}{title[1:]}"


Reason = Callable[[ActionContext], str]
Command = Callable[[ActionContext], str]


def always(_: ActionContext) -> str:
    """Return the reason of an action that is never disabled."""
    return ""


def no_command(_: ActionContext) -> str:
    """Return the command of an action that only moves or shows something."""
    return ""


class Action(NamedTuple):
    """An action of the user. `keys` are Textual key names or characters; the first one is shown."""

    id: str
    title: str
    keys: tuple[str, ...]
    word: str = ""
    """Label in the footer; empty if the footer leaves the action out."""
    reason: Reason = always
    """Returns why it is disabled; empty if it is enabled."""
    command: Command = no_command
    """Returns the equivalent command line; empty if there is none."""
    help: str = ""
    dialog: bool = False
    """Whether it opens a dialog: the next keys belong to that dialog."""
    of_named: bool = False
    """Whether an argument on the `:` line selects the record, instead of the cursor."""
    writes: bool = False
    """Whether it changes the platform or the config. It is then disabled in a read-only context."""
    of_marked: bool = False
    """Whether it applies to all marked records. Its command then has a line for each."""

    @property
    def scope(self) -> str:
        """`app`, `list` or the name of the screen it works on."""
        return self.id.partition(".")[0]

    @property
    def method(self) -> str:
        """The method that runs it, of the screen or the main screen."""
        return "do_" + self.id.partition(".")[2]

    def lines(self, context: ActionContext, meant: Sequence[Record]) -> str:
        """Return the equivalent commands, a line for each record if the action applies to several."""
        if not self.of_marked or len(meant) < 2:
            return self.command(context)
        return "\n".join(self.command(context._replace(record=record)) for record in meant)


def line(*words: str) -> str:
    """Return a command line, quoted for a shell."""
    import shlex

    return shlex.join(("frost", *words))


PERSON_NEEDED = "this context works with an API key; groups and policies need a person who is signed in"

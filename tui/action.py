"""What an action of the screens is, and what it is judged by. The table of all of them is in tui/actions.py."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tui.tag_draft import TagDraft

Record = Mapping[str, Any]

ANYWHERE = "app"
"""The scope of actions that work in every place."""
LIST = "list"
"""The scope of actions that every place with a list has."""


class Situation(NamedTuple):
    """What an action is judged by. Empty texts mean that there is no such thing."""

    place: str = ""
    subject: str = ""
    """What the place shows the inside of: the id of a group, of a policy; empty in a place that shows a whole."""
    record: Record | None = None
    """The record under the cursor."""
    context: str = ""
    tenant: str = ""
    """Id of the tenant worked in."""
    tenant_before: str = ""
    read_only: str = ""
    """Why nothing may be changed; empty when changes are allowed."""
    keyed: bool = False
    """Whether one works with an API key, so without an interactive session."""
    scopes: tuple[str, ...] = ()
    """What that API key is allowed."""
    role: str = ""
    """The caller's role in the organization of the tenant worked in; empty when the platform has not said it yet."""
    creatable: tuple[str, ...] = ()
    """Ids of the organizations in which the caller may create and rename tenants."""
    identity_known: bool = False
    draft: "TagDraft | None" = None
    """The default tags of that tenant as they are edited; None before they were read."""
    applying: bool = False
    """Whether an apply of default tags goes on in that tenant."""
    undo: str = ""
    """What the last reversible action was, as long as it can be taken back."""
    lasting: str = ""
    """What was done last where that stays, as `rolling back a version`."""
    earlier: bool = False
    later: bool = False
    """Whether there is a view before and after this one in the history."""
    browser: bool = False
    """Whether the screens are shown in a browser."""


def inside(title: str) -> str:
    """A title in the middle of a sentence: `API keys` keeps its letters."""
    return title if title[:2].isupper() else f"{title[:1].lower()}{title[1:]}"


Reason = Callable[[Situation], str]
Command = Callable[[Situation], str]


def always(_: Situation) -> str:
    """The reason of an action that is never disabled."""
    return ""


def no_command(_: Situation) -> str:
    """The command of an action that only moves or shows something."""
    return ""


class Action(NamedTuple):
    """One thing a person can do. `keys` are Textual key names or single characters, the first one is shown."""

    id: str
    title: str
    keys: tuple[str, ...]
    word: str = ""
    """How the footer names it; empty: not in the footer."""
    reason: Reason = always
    """Why it cannot be done now; empty when it can."""
    command: Command = no_command
    """The equal command line, empty when there is none."""
    help: str = ""
    dialog: bool = False
    """Whether it opens a dialog: keys typed behind it belong to that dialog."""
    of_named: bool = False
    """Whether an argument on the `:` line names the record, in place of the one under the cursor."""
    writes: bool = False
    """Whether it changes something on the platform or in the config: then a read-only context refuses it."""
    of_marked: bool = False
    """Whether it is about every marked record, where some are: then its command is a line for each of them."""

    @property
    def scope(self) -> str:
        """Where it works: `app`, `list` or the name of a place."""
        return self.id.partition(".")[0]

    @property
    def method(self) -> str:
        """The method that does it, on the app or on the place."""
        return "do_" + self.id.partition(".")[2]

    def lines(self, situation: Situation, meant: Sequence[Record]) -> str:
        """The equal commands, a line for each record that is meant where the action is about all of them."""
        if not self.of_marked or len(meant) < 2:
            return self.command(situation)
        return "\n".join(self.command(situation._replace(record=record)) for record in meant)


def line(*words: str) -> str:
    """A command line a shell reads back as exactly these words."""
    import shlex

    return shlex.join(("frost", *words))


_TYPE_AND_ID = (("memberType", "memberId"), ("attacheeType", "attacheeId"), ("type", "id"))


def kind_and_id(record: Record) -> tuple[str, str]:
    """Type and id of a member, an attachee or a principal, whichever the record is."""
    kind, identifier = next((pair for pair in _TYPE_AND_ID if pair[0] in record), ("type", "id"))
    return str(record.get(kind, "")), str(record.get(identifier, ""))

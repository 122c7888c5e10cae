"""The `:` line: parsing, completion, history and execution.

`:tenants`, `:tenants web` (with a filter), `:filter web`, `:sort status`, `:use newsroom`, `:create Name of a tenant`,
`:help`, `:quit`, or an action by its id (`:tenants.rename`). Enter runs exactly the text, Tab inserts the suggestion.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from tui.shell import actions, routes

if TYPE_CHECKING:
    from client.models.account import ApiKey
    from client.models.iam import CatalogueOperation, Group, Policy
    from client.models.quotas import Quota
    from tui.shell.navigator import Navigator
    from tui.state.list_store import RecordList
    from tui.state.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Go:
    """Open a screen, with a filter if there is one."""

    screen: str
    filter: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """Run an action. `argument` is the rest of the line, with its blanks."""

    action: str
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A line that cannot be run, and why."""

    message: str


# Aliases of actions. Those in TAKES accept an argument; the others do not.
ALIASES = {
    "use": "app.switch_tenant",
    "create": "tenants.create",
    "filter": "list.filter",
    "sort": "list.sort",
    "rename": "tenants.rename",
    "context": "contexts.use",
    "use-context": "contexts.use",
    "login": "contexts.sign_in",
    "logout": "contexts.sign_out",
    "apply": "default-tags.follow",
    "whoami": "app.who_am_i",
    "help": "app.help",
    "theme": "app.theme",
    "refresh": "app.refresh",
    "undo": "app.undo",
    "q": "app.quit",
    "quit": "app.quit",
}
ONE_OF_MANY = {
    "policy": "policies",
    "api-key": "api-keys",
    "session": "sessions",
    "profile": "account",
    "default-tag": "default-tags",
    "tag": "default-tags",
    "tags": "default-tags",
}
"""Screens by the singular of their records, unless their name starts with it, and by their title."""
TENANT_COMMANDS = ("use ", "list", "quota", "default-tags", "activity")
"""Subcommands of `frost tenant` that a line takes."""
TAKES = {
    *("app.switch_tenant", "list.filter", "list.sort", "tenants.create", "tenants.rename"),
    *("default-tags.add", "default-tags.edit"),
    *(action.id for action in actions.ACTIONS if action.accepts_record_argument),
}


def first_words(screens: Sequence[str]) -> list[str]:
    """Return all valid first words."""
    return sorted({*screens, *ALIASES, *actions.BY_ID})


def parse(text: str, screens: Sequence[str]) -> Go | Run | Mistake | None:
    """Parse a line; None if it is empty. The name of a screen may be abbreviated if it is unambiguous."""
    text = text.strip().removeprefix(":").strip()
    if not text:
        return None
    word, _, rest = text.partition(" ")
    if word == "frost" and rest.strip():
        word, _, rest = rest.strip().partition(" ")
    rest = rest.strip()
    name = ONE_OF_MANY.get(word.casefold(), word.casefold())
    if name == "tenant" and rest:
        # Subcommands have the same meaning as in a shell. They are no filter.
        return _tenant(rest)
    if name == "iam" and rest:
        return _iam(rest)
    if name == "account" and rest:
        return _account(rest)
    if name in screens:
        return Go(name, rest)
    action = name if name in actions.BY_ID else ALIASES.get(name)
    if action is None:
        return _expand(word, rest, screens)
    if rest and action not in TAKES:
        return Mistake(f"{word} takes no argument")
    return _unquote(Run(action, rest))


def _tenant(rest: str) -> Go | Run | Mistake:
    """Parse a subcommand of `frost tenant`."""
    command, _, argument = rest.partition(" ")
    match command:
        case "list":
            return Go("tenants")
        case "use":
            return _unquote(Run("app.switch_tenant", argument.strip()))
        case "quota" | "quotas":
            return _quota(argument.split())
        case "default-tags" | "default-tag":
            return _default_tags(argument.split())
        case "activity":
            return _activity(argument.split())
    known = "tenant use NAME, tenant list, tenant quota, tenant default-tags, tenant activity"
    return Mistake(f"tenant {command} is not supported here; use: {known}")


def _default_tags(typed: Sequence[str]) -> Go | Run | Mistake:
    """Parse a subcommand of `frost tenant default-tags`. `set` does not store: it adds its first tag to the draft."""
    match typed:
        case [] | ["get"] | ["set"] | ["clear", *_]:
            return Go("default-tags")
        case ["set", *arguments]:
            tags = [after for before, after in itertools.pairwise(["", *arguments]) if before == "--tag"]
            return Run("default-tags.add", tags[0]) if tags else Go("default-tags")
        case ["apply", "--preview"]:
            return Run("default-tags.preview")
        case ["apply", *_]:
            return Run("default-tags.apply")
        case ["history"]:
            return Run("default-tags.versions")
        case ["undo", *_]:
            return Run("default-tags.runs")
    return Mistake("tenant default-tags supports here: get, set --tag KEY=VALUE, apply, apply --preview, history")


_CHOSEN_BY = {"--operation": "what", "--actor": "who", "--outcome": "outcome"}


def _activity(typed: Sequence[str]) -> Go | Run:
    """Parse `frost tenant activity`. Its flags become fields of the filter."""
    if "--org" in typed:
        return Run("activity.organization")
    fields = [
        f"{'email' if '@' in value else _CHOSEN_BY[flag]}:{value}"
        for flag, value in itertools.pairwise(typed)
        if flag in _CHOSEN_BY
    ]
    return Go("activity", " ".join(fields))


def _quota(typed: Sequence[str]) -> Go | Run | Mistake:
    """Parse a subcommand of `frost tenant quota`. The flags of a request are fields of its form."""
    of_organization = "--org" in typed
    match [word for word in typed if word != "--org"]:
        case []:
            return Run("quotas.organization") if of_organization else Go("quotas")
        case ["requests"]:
            return Run("quotas.requests")
        case ["request", *arguments]:
            named = " ".join(itertools.takewhile(lambda word: not word.startswith("-"), arguments))
            return Run("quotas.request_organization" if of_organization else "quotas.request", named)
        case ["what-if", *plan]:
            return Run("quotas.what_if", " ".join(plan))
    return Mistake("tenant quota supports here: tenant quota --org, requests, request TYPE LIMIT, what-if TYPE=N")


# Commands about one record, their first argument, and the equivalent actions.
_IAM = {
    ("group", "get"): "groups.open",
    ("group", "member", "list"): "groups.open",
    ("policy", "get"): "policies.edit",
    ("policy", "update"): "policies.edit",
    ("policy", "attachments"): "policies.attachments",
    ("policy", "history"): "policies.versions",
}


def _iam(rest: str) -> Go | Run | Mistake:
    """Parse a subcommand of `frost iam`: lists open screens, commands about one record run actions."""
    import shlex

    try:
        typed = shlex.split(rest)
    except ValueError:
        return Mistake("unclosed quote")
    flags = dict(itertools.pairwise(typed))
    if typed[0] == "catalog":
        return Go("catalogue", flags.get("--filter", ""))
    if typed[:2] in (["group", "list"], ["policy", "list"]):
        return Go({"group": "groups", "policy": "policies"}[typed[0]])
    if typed[0] == "who" and flags.get("--operation"):
        return Run("catalogue.who", f"{flags['--operation']} {flags.get('--target', '*')}")
    for command, action in _IAM.items():
        if tuple(typed[: len(command)]) == command and len(typed) > len(command):
            return Run(action, typed[len(command)])
    return Mistake(f"iam {rest} is not supported here; use: iam catalog, iam group list, iam policy list, iam who")


def _account(rest: str) -> Go | Run | Mistake:
    """Parse a subcommand of `frost account`. Destructive commands ask the user, as their keys do."""
    import shlex

    try:
        typed = shlex.split(rest)
    except ValueError:
        return Mistake("unclosed quote")
    match typed:
        case ["profile"]:
            return Go("account")
        case ["delete"]:
            return Run("account.delete")
        case ["session" | "sessions", "list"]:
            return Go("sessions")
        case ["session" | "sessions", "revoke-all"]:
            return Run("sessions.end_all")
        case ["api-key" | "api-keys", "list"]:
            return Go("api-keys")
        case ["api-key" | "api-keys", "get" | "rotate" | "revoke" | "delete", key, *_]:
            return Go("api-keys", f"id:{key}")
        case ["api-key" | "api-keys", "create", *flags]:
            return Run("api-keys.create", dict(itertools.pairwise(flags)).get("--name", ""))
    known = "account profile, account delete, account session list, account api-key list, account api-key create"
    return Mistake(f"account {rest} is not supported here; use: {known}")


def _expand(word: str, rest: str, screens: Sequence[str]) -> Go | Mistake:
    matches = [screen for screen in screens if screen.startswith(word.casefold())]
    if len(matches) == 1:
        return Go(matches[0], rest)
    if matches:
        return Mistake(f"{word} is ambiguous: {' or '.join(matches)}")
    nearest = get_close_matches(word.casefold(), first_words(screens), 1)
    return Mistake(f"unknown command: {word}; {f'did you mean {nearest[0]}?' if nearest else 'Tab lists commands'}")


def _unquote(run: Run) -> Run | Mistake:
    """Remove quotes around the whole argument, a habit from the shell."""
    if not run.argument.startswith(("'", '"')):
        return run
    import shlex

    try:
        parts = shlex.split(run.argument)
    except ValueError:
        return Mistake("unclosed quote")
    return Run(run.action, " ".join(parts))


def complete(text: str, screens: Sequence[str], names: Sequence[str], ids: Iterable[str] = actions.BY_ID) -> list[str]:
    """Return completions of a line as whole lines, best first.

    Args:
        names: Complete the argument.
        ids: The available actions.
    """
    word, blank, rest = text.lstrip().removeprefix(":").partition(" ")
    if not blank:
        typed = ONE_OF_MANY.get(word.casefold(), word.casefold())
        candidates = [*screens, *ALIASES, *ids]
        starting = [candidate for candidate in candidates if candidate.startswith(typed)]
        within = [candidate for candidate in candidates if typed in candidate and candidate not in starting]
        return list(dict.fromkeys(starting + within))
    if word.casefold() == "tenant":
        if not rest.startswith("use "):
            return [f"{word} {command}" for command in TENANT_COMMANDS if command.startswith(rest)]
        word, rest = f"{word} use", rest.removeprefix("use ")
    action = ALIASES.get(word.casefold().removeprefix("tenant ")) or word.casefold()
    if action not in TAKES or action.startswith("list."):  # arguments of list actions are not names
        return []
    typed = rest.strip().casefold()
    return [f"{word} {name}" for name in names if name.casefold().startswith(typed)]


def candidates(workspace: "Workspace", line: str, context: "actions.ActionContext | None" = None) -> list[str]:
    """Return the completions of a line that are available now."""
    word = line.partition(" ")[0].casefold()
    scope = (ALIASES.get(word) or word).partition(".")[0]
    ids = [action.id for action in actions.ACTIONS if context is None or _usable(action, context)]
    return complete(line, routes.NAMES, _names(workspace, scope), ids)


def _usable(action: actions.Action, context: actions.ActionContext) -> bool:
    """Return whether to offer an action. Actions of an inner screen are offered on that screen only, actions of the
    activity only if they are enabled.

    On other screens no entry of the activity is selected.
    """
    if action.scope == context.screen or action.scope not in routes.BY_NAME:
        return action.scope != "activity" or not action.disabled_reason(context)
    if action.scope == "activity":
        return not action.disabled_reason(context._replace(screen="activity", subject="", record=None))
    return action.scope in routes.NAMES


def _names(workspace: "Workspace", scope: str) -> list[str]:
    """Return names for the argument of an action: the loaded records of its screen."""
    if scope == "contexts":
        return list(workspace.connection.config.contexts)
    if scope in ("policies", "groups", "catalogue"):
        named: RecordList[CatalogueOperation | Group | Policy] = workspace.collections.get(scope, workspace.tenant_id)
        return [row.name for row in named.records]
    if scope == "api-keys":
        keys: Sequence[ApiKey] = workspace.collections.get("own keys", "").records
        return [key.name for key in keys]
    if scope == "quotas":
        quotas: Sequence[Quota] = workspace.collections.get(scope, workspace.tenant_id).records
        return [quota.resource_type for quota in quotas]
    return [tenant.display_name for tenant in workspace.tenants]


async def run(frame: "Navigator", line: str) -> None:
    """Run a line. An action of another screen opens that screen first."""
    match parse(line, routes.NAMES):
        case Go(screen, filter_line):
            await frame.navigate(screen, filter_line)
        case Run(action_id, argument):
            scope = actions.BY_ID[action_id].scope
            here = frame.current is not None and scope == frame.current.NAME
            if scope in routes.NAMES and not here:
                await frame.navigate(scope)
            elif scope in routes.BY_NAME and not here:
                parent = routes.BY_NAME[scope].parent
                frame.toast(f"{action_id}: open a record in {parent} first", "warning")
                return
            frame.perform(action_id, argument)
        case Mistake(message):
            frame.toast(message, "warning")

"""All actions of the screens: id, title, handler, keys, guard and equivalent command.

Key bindings, footer, palette, help and menus are generated from this table. The rows of a feature are in its own
`actions.py`. Handlers are paths, so that a screen is imported only when it is opened.
"""

from collections.abc import Mapping, Sequence
from functools import cache

from tui.shell.action import (
    ANYWHERE,
    LIST,
    Action,
    ActionContext,
    activity_command,
    has_activity,
    line,
    load,
    selected,
)

__all__ = ("ACTIONS", "ANYWHERE", "BY_ID", "LIST", "Action", "ActionContext", "line", "of_scope")


def _can_undo(context: ActionContext) -> str:
    if context.undo:
        return ""
    return f"{context.lasting} cannot be undone" if context.lasting else "nothing to undo"


_FEATURES = (
    "tui.tenants.actions:TENANT_ACTIONS",
    "tui.contexts.actions:CONTEXT_ACTIONS",
    "tui.iam.actions:POLICY_ACTIONS",
    "tui.account.actions:ACCOUNT_ACTIONS",
    "tui.quotas.actions:QUOTA_ACTIONS",
    "tui.default_tags.actions:TAG_ACTIONS",
    "tui.activity.actions:ACTIVITY_ACTIONS",
)
"""The actions of the features, defined next to their screens."""
ACTIONS: tuple[Action, ...] = (
    Action(
        "app.switch_tenant",
        "Switch tenant",
        handler="tui.shell.main_screen:MainScreen.do_switch_tenant",
        keys=("ctrl+t",),
        footer_label="tenant",
        help="Type part of the name",
        opens_dialog=True,
    ),
    Action(
        "app.previous_tenant",
        "Previous tenant",
        handler="tui.shell.main_screen:MainScreen.do_previous_tenant",
        keys=("-",),
        guard=lambda s: "" if s.tenant_before else "no previous tenant",
        command=lambda s: line("tenant", "use", s.tenant_before) if s.tenant_before else "",
    ),
    Action(
        "app.palette",
        "Command palette",
        handler="tui.shell.main_screen:MainScreen.do_palette",
        keys=("ctrl+p",),
        footer_label="palette",
        help="Find and run any action",
        opens_dialog=True,
    ),
    Action(
        "app.command_line",
        "Command line",
        handler="tui.shell.main_screen:MainScreen.do_command_line",
        keys=(":",),
        help="Open a screen or run an action by name",
    ),
    Action(
        "app.help",
        "Help",
        handler="tui.shell.main_screen:MainScreen.do_help",
        keys=("?",),
        footer_label="help",
        help="Keys of this screen; type to search",
        opens_dialog=True,
    ),
    Action(
        "app.menu",
        "Actions",
        handler="tui.shell.main_screen:MainScreen.do_menu",
        keys=("x",),
        footer_label="actions",
        help="Actions of this screen, with the equivalent commands",
        opens_dialog=True,
    ),
    Action(
        "app.copy",
        "Copy",
        handler="tui.shell.main_screen:MainScreen.do_copy",
        keys=("y",),
        footer_label="copy",
        help="ID, name, row, JSON or the equivalent command",
        opens_dialog=True,
    ),
    Action(
        "app.refresh",
        "Refresh",
        handler="tui.shell.main_screen:MainScreen.do_refresh",
        keys=("r",),
        footer_label="refresh",
        help="Reload; retries a lost connection now",
    ),
    Action(
        "app.undo",
        "Undo",
        handler="tui.shell.main_screen:MainScreen.do_undo",
        keys=("z",),
        guard=_can_undo,
        help="Undo the last reversible change",
    ),
    Action(
        "app.earlier",
        "Previous screen",
        handler="tui.shell.navigator:Navigator.do_earlier",
        keys=("[",),
        guard=lambda s: "" if s.earlier else "this is the first screen",
    ),
    Action(
        "app.later",
        "Next screen",
        handler="tui.shell.navigator:Navigator.do_later",
        keys=("]",),
        guard=lambda s: "" if s.later else "this is the latest screen",
    ),
    Action(
        "app.zoom",
        "Full width",
        handler="tui.shell.navigator:Navigator.do_zoom",
        keys=("+",),
        help="Give the whole width to the list or the details; same key to return",
    ),
    Action(
        "app.theme",
        "Light or dark",
        handler="tui.shell.main_screen:MainScreen.do_theme",
        help="Switch between the light and the dark theme",
    ),
    Action(
        "app.who_am_i",
        "Who am I",
        handler="tui.shell.main_screen:MainScreen.do_who_am_i",
        command=lambda s: line("whoami"),
        help="Identity and credential in use",
    ),
    Action(
        "app.activity",
        "Activity of the record",
        handler="tui.shell.main_screen:MainScreen.do_activity",
        keys=("A",),
        guard=has_activity,
        command=activity_command,
        help="Audit entries for the selected record",
    ),
    Action(
        "app.quit",
        "Quit",
        handler="tui.shell.main_screen:MainScreen.do_quit",
        keys=("q",),
        footer_label="quit",
    ),
    Action(
        "list.filter",
        "Filter",
        handler="tui.shell.list_screen:ListScreen.do_filter",
        keys=("/",),
        footer_label="filter",
        help="text, !exclude, field:value; / replaces it, Esc or another screen clears it",
    ),
    Action(
        "list.sort",
        "Sort",
        handler="tui.shell.list_screen:ListScreen.do_sort",
        keys=("s",),
        footer_label="sort",
        help="By the next column, ascending then descending",
    ),
    Action(
        "list.detail",
        "Details",
        handler="tui.shell.list_screen:ListScreen.do_detail",
        keys=("d",),
        guard=selected,
        help="Focus all details of the selected record; same key to return",
    ),
    Action(
        "list.into_detail",
        "Into the details",
        handler="tui.shell.list_screen:ListScreen.do_into_detail",
        keys=("l", "right"),
        guard=selected,
        help="Focus the details next to the list",
    ),
    Action(
        "list.out_of_detail",
        "Back to the list",
        handler="tui.shell.list_screen:ListScreen.do_out_of_detail",
        keys=("h", "left"),
    ),
    *(action for path in _FEATURES for action in load(path)),
)

BY_ID: Mapping[str, Action] = {action.id: action for action in ACTIONS}
_BY_SCOPE: dict[str, list[Action]] = {}
for _action in ACTIONS:
    _BY_SCOPE.setdefault(_action.scope, []).append(_action)


@cache
def of_scope(*scopes: str) -> Sequence[Action]:
    """Return the actions of these scopes, in the order of the scopes and then of the table."""
    return tuple(action for scope in scopes for action in _BY_SCOPE.get(scope, ()))

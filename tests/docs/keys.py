"""The reference of the keys, from the tables of actions and screens that the program itself uses."""

from collections.abc import Iterator

from tui.iam.editor import actions as editor
from tui.shell import actions, routes
from tui.shell.action import Action

HEAD = ("| key | action | | name in `keys:` |", "| --- | --- | --- | --- |")
TITLES = {actions.ANYWHERE: "Everywhere", actions.LIST: "In every list", editor.EDITOR: "Policy editor"}
NAMES = {
    "ctrl+@": "Ctrl+Space",
    "delete": "Delete",
    "left": "←",
    "right": "→",
    "tab": "Tab",
    "enter": "Enter",
    "escape": "Esc",
}


def render() -> str:
    """Return a table for each screen as Markdown."""
    scopes = [actions.ANYWHERE, actions.LIST, *routes.BY_NAME, editor.EDITOR]
    parts = []
    for scope in scopes:
        of_scope = [action for action in (*actions.ACTIONS, *editor.ACTIONS) if action.scope == scope]
        if of_scope:
            parts += [f"### {_title(scope)}", "\n".join((*HEAD, *_rows(of_scope)))]
    return "\n\n".join(parts) + "\n"


def _title(scope: str) -> str:
    if scope in TITLES:
        return TITLES[scope]
    route = routes.BY_NAME[scope]
    return f"{routes.BY_NAME[route.parent].title}: {route.title}" if route.parent else route.title


def _rows(of_scope: list[Action]) -> Iterator[str]:
    for action in of_scope:
        keys = " or ".join(f"`{_key(key)}`" for key in action.keys)
        yield f"| {keys} | {action.title} | {action.help} | `{action.id}` |"


def _key(key: str) -> str:
    """Return a key as a keyboard shows it."""
    if key in NAMES:
        return NAMES[key]
    if key.startswith("ctrl+"):
        return f"Ctrl+{key[5:].upper()}"
    return key.upper() if len(key) > 1 else key

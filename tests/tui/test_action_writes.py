"""Every action whose handler reaches a request or an edit of the config that changes something is marked `writes`.

The handlers are followed through the source: names, methods of the screen, of the workspace and of its parts. Not
followed: the undo of a change, the editor that an action opens, and functions that check the guard of another action.
To select a tenant is no change.
"""

import inspect
import re
from functools import cache
from importlib import import_module
from pkgutil import resolve_name
from types import FunctionType, ModuleType
from typing import Any

import pytest

from client.api import analysis, default_tags, groups, keys, policies
from tui.iam.editor import actions as editor
from tui.shell import actions, routes
from tui.shell.main_screen import MainScreen
from tui.state import contexts
from tui.state.jobs import Applies
from tui.state.workspace import Workspace

READS_BY_POST = {analysis.__name__, f"{default_tags.__name__}.preview", f"{default_tags.__name__}.undo_preview"}
CONFIG_WRITES = {contexts.add, contexts.change, contexts.remove, contexts.use}
PARTS = {"workspace": Workspace, "applies": Applies}


@cache
def source_of(function: FunctionType) -> str:
    """Return the source of a function without docstrings."""
    return re.sub('""".*?"""', "", inspect.getsource(function), flags=re.DOTALL)


def names_of(function: FunctionType) -> dict[str, Any]:
    """Return the objects of the module of a function, and those that it imports itself."""
    imports = re.findall(r"from ([\w.]+) import ([\w, ]+)", source_of(function))
    names = dict(function.__globals__)
    for module, line in imports:
        for name, _, alias in (one.partition(" as ") for one in line.split(", ")):
            names[alias or name] = getattr(import_module(module), name, None)
    return names


@cache
def reached(function: FunctionType, owner: type) -> set[tuple[FunctionType, type]]:
    """Return the functions that a function names, with the class of their `self`."""
    source, names = source_of(function), names_of(function)
    found = [(names.get(name), owner) for name in re.findall(r'(?<![\w."])\w+', source)]
    for before, last in re.findall(r"(?<!\w)(\w+)(?=\.(\w+))", source):
        target = PARTS.get(before, owner)
        if before in PARTS or before in ("self", "screen", "editor") or isinstance(names.get(before), ModuleType):
            place = names[before] if isinstance(names.get(before), ModuleType) else target
            found.append((getattr(place, last, None), target))
    return {(one, kind) for one, kind in found if isinstance(one, FunctionType)}


def is_change(function: FunctionType) -> bool:
    """Whether a function sends another method than GET, signs in or out, or edits the config."""
    area, name = function.__module__, function.__name__
    if area.startswith("client.auth") and name.startswith("sign_"):
        return True
    if not area.startswith("client.api.") or {area, f"{area}.{name}"} & READS_BY_POST:
        return function in CONFIG_WRITES
    sends = re.search('"(POST|PUT|PATCH|DELETE)"', source_of(function))
    inner = {one for one, _ in reached(function, object) if one.__module__ == area} - {function}
    return bool(sends) or any(map(is_change, inner))


def changes(action: actions.Action) -> set[FunctionType]:
    """Return the functions that change something below the handler of an action."""
    route = routes.BY_NAME.get(action.scope)
    left = [(resolve_name(action.handler), resolve_name(route.path) if route else MainScreen)]
    seen, found = set(left), set()
    while left:
        function, owner = left.pop()
        if is_change(function):
            found.add(function)
        elif function.__module__.startswith("tui.") and ".disabled_reason(" not in source_of(function):
            left += reached(function, owner) - seen
            seen |= reached(function, owner)
    return found


def test_the_writing_requests_are_found() -> None:
    assert all(map(is_change, (policies.delete, keys.revoke, default_tags.put, default_tags.undo)))
    assert not any(map(is_change, (policies.get, analysis.simulate, default_tags.preview)))
    assert changes(actions.BY_ID["groups.delete"]) == {groups.delete}
    assert changes(actions.BY_ID["apply.again"])


@pytest.mark.parametrize("action", [*actions.ACTIONS, *editor.ACTIONS], ids=lambda action: action.id)
def test_an_action_whose_handler_changes_something_is_marked_so(action: actions.Action) -> None:
    assert action.writes or not changes(action), changes(action)

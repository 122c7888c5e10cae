"""Every action whose handler reaches a request or an edit of the config that changes something is marked `writes`.

The handlers are followed through the source: names, methods of the screen, of the workspace and of its parts. Not
followed: the undo of a change, the editor that an action opens, and functions that check the guard of another action.
To select a tenant is no change.
"""

import ast
import importlib
import inspect
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from types import FunctionType, ModuleType
from typing import Any

import pytest

import client.api
from tui.iam.editor import actions as editor
from tui.shell import actions, routes
from tui.shell.main_screen import MainScreen
from tui.state import contexts
from tui.state.jobs import Applies
from tui.state.workspace import Workspace

READS_BY_POST = {"analysis", "default_tags.preview", "default_tags.undo_preview"}
CONFIG_WRITES = {contexts.add, contexts.change, contexts.remove, contexts.use}
SIGN_IN = "client.auth"
"""The package whose functions `sign_in…` and `sign_out…` change the stored credentials."""
PARTS = {"workspace": Workspace, "applies": Applies}


@cache
def requests_that_write() -> set[str]:
    """Return the functions of the API that send another method than GET, as `area.function`."""
    names = set()
    for file in Path(client.api.__path__[0]).glob("*.py"):
        functions = {node.name: node for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)}

        def writes(name: str, functions: dict[str, ast.FunctionDef] = functions) -> bool:
            used = list(ast.walk(functions[name]))
            methods = {node.value for node in used if isinstance(node, ast.Constant)}
            called = {node.id for node in used if isinstance(node, ast.Name)} & functions.keys() - {name}
            return bool(methods & {"POST", "PUT", "PATCH", "DELETE"}) or any(map(writes, called))

        names |= {f"{file.stem}.{name}" for name in functions if file.stem not in READS_BY_POST and writes(name)}
    return (names | {"sessions.revoke_all"}) - READS_BY_POST


def dotted(node: ast.expr) -> list[str]:
    """Return the parts of `a.b.c`; empty for another expression."""
    match node:
        case ast.Name(name):
            return [name]
        case ast.Attribute(value, name):
            return [*(dotted(value) or [""]), name]
    return []


def local_names(tree: ast.AST) -> dict[str, Any]:
    """Return the objects that a function imports itself."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    return {
        name.asname or name.name: getattr(importlib.import_module(str(node.module)), name.name, None)
        for node in imports
        for name in node.names
    }


def reached(function: FunctionType, owner: type) -> Iterator[tuple[FunctionType | str, type]]:
    """Yield functions of the product that a function names, with the class of their `self`, and requests."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    names = {**function.__globals__, **local_names(tree)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Name | ast.Attribute):
            continue
        parts = dotted(node)
        *before, last = parts
        base = names.get(before[0]) if len(before) == 1 else None
        if (
            isinstance(base, ModuleType)
            and (call := f"{base.__name__.rpartition('.')[2]}.{last}") in requests_that_write()
        ):
            yield call, owner
        found, target = None, owner
        if not before:
            found = names.get(last)
        elif isinstance(base, ModuleType):
            found = getattr(base, last, None)
        elif before[-1] in PARTS:
            target = PARTS[before[-1]]
            found = getattr(target, last, None)
        elif before in (["self"], ["screen"], ["editor"]):
            found = getattr(owner, last, None)
        if isinstance(found, FunctionType):
            yield found, target


def changes(action: actions.Action) -> set[str]:
    """Return the names that the handler of an action changes."""
    route = routes.BY_NAME.get(action.scope)
    handler = resolve_name(action.handler)
    left, seen, found = [(handler, resolve_name(route.path) if route else MainScreen)], set(), set()
    while left:
        function, owner = left.pop()
        if (function, owner) in seen or not function.__module__.startswith("tui."):
            continue
        seen.add((function, owner))
        if ".disabled_reason(" in inspect.getsource(function):
            continue
        for one, target in reached(function, owner):
            if isinstance(one, str):
                found.add(one)
            elif one in CONFIG_WRITES or (one.__module__.startswith(SIGN_IN) and one.__name__.startswith("sign_")):
                found.add(f"{one.__module__}.{one.__name__}")
            else:
                left.append((one, target))
    return found


def test_the_writing_requests_are_found() -> None:
    assert {"policies.delete", "keys.revoke", "default_tags.put", "default_tags.undo"} <= requests_that_write()
    assert not {"policies.get", "analysis.simulate", "default_tags.preview"} & requests_that_write()
    assert changes(actions.BY_ID["groups.delete"]) == {"groups.delete"}
    assert changes(actions.BY_ID["apply.again"])


@pytest.mark.parametrize("action", [*actions.ACTIONS, *editor.ACTIONS], ids=lambda action: action.id)
def test_an_action_whose_handler_changes_something_is_marked_so(action: actions.Action) -> None:
    assert action.writes or not changes(action), changes(action)

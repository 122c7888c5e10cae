"""Commands, screens and the Python client can do the same: `parity.txt` read line by line."""

import inspect
import re
import shlex
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules, resolve_name
from typing import NamedTuple

import click
import pytest

import client.api
from client import contexts
from client.commands.command import Group
from client.commands.invocation import Invocation
from client.commands.root import root
from client.config import reader
from tests.docs.commands import entries
from tests.homes import Home
from tests.tui.screens import Ui, opened
from tui.iam.editor import actions as editor
from tui.iam.editor.screen import PolicyEditor
from tui.shell import actions, routes
from tui.shell.main_screen import MainScreen
from tui.state.tag_draft import TagDraft

TABLE = (Path(__file__).parent / "parity.txt").read_text().splitlines()
ID = "0192f7c1-5a3e-7b60-9d2f-3c5a8e7b1d04"
ANYWHERE, NOWHERE = "anywhere", "-"
ALL_ACTIONS = (*actions.ACTIONS, *editor.ACTIONS)
BY_ID = {**actions.BY_ID, **editor.BY_ID}
ASYNC = {"quotas.load"}
"""Functions of client.api that make several calls."""


class Row(NamedTuple):
    """A command and where else it is."""

    whose: str
    command: str
    screen: str
    action: str
    client: str


ROWS = tuple(
    Row(line[0], *(cell.strip() for cell in line[2:].split("|"))) for line in TABLE if line[:2] in ("c ", "o ")
)
OTHERWISE = {kind: dict(line[2:].split(maxsplit=1) for line in TABLE if line.startswith(f"{kind} ")) for kind in "mn"}


COMMANDS = {
    entry.words.removeprefix("frost "): entry.command
    for entry in entries()
    if not isinstance(entry.command, Group) or entry.command.does_something
}
WEB = "web"
"""Dispatched before the command line is read: it needs the screens."""


def additions() -> set[str]:
    """Return the commands that the compatibility page lists as additions."""
    page = (Path(__file__).parents[2] / "docs" / "compatibility.md").read_text()
    return set(re.findall(r"^- `frost ([a-z -]+)`$", page, re.MULTILINE))


def calls() -> set[str]:
    """Return every function of client.api that describes a call, as `module.function`."""
    return {
        f"{module.name}.{name}"
        for module in iter_modules(client.api.__path__)
        for name, value in vars(import_module(f"client.api.{module.name}")).items()
        if inspect.isfunction(value)
        and value.__module__ == f"client.api.{module.name}"
        and not name.startswith("_")
        and str(value.__annotations__["return"]).startswith("Call[")
    }


def test_every_command_has_its_line_and_every_line_a_command() -> None:
    assert sorted(row.command for row in ROWS) == sorted((*COMMANDS, WEB))


def test_the_compatibility_page_lists_the_additions() -> None:
    assert additions() == {row.command for row in ROWS if row.whose == "o"}


def test_every_common_command_has_a_screen_path_and_a_call() -> None:
    for row in ROWS:
        if row.whose == "c":
            assert NOWHERE not in (row.screen, row.client), row


def test_a_screen_path_is_a_place_and_an_action_that_is_done_there() -> None:
    for row in ROWS:
        if row.screen == ANYWHERE:
            assert BY_ID[row.action].scope == actions.ANYWHERE, row
        elif row.screen != NOWHERE:
            assert row.screen in routes.BY_NAME, row
            assert BY_ID[row.action].scope in (row.screen, actions.LIST, editor.EDITOR), row


def test_a_call_exists_under_that_name() -> None:
    for row in ROWS:
        module, _, function = row.client.partition(":")
        if function:
            assert callable(getattr(import_module(module), function)), row
        else:
            assert row.client in calls() | ASYNC | {NOWHERE}, row


def test_every_call_of_the_client_is_named() -> None:
    named = {row.client for row in ROWS if "." in row.client and ":" not in row.client}
    assert named.isdisjoint(OTHERWISE["m"])
    assert named | set(OTHERWISE["m"]) == calls() | ASYNC


RECORD = {
    **{"id": ID, "key": "env", "value": "prod", "name": "ops", "displayName": "Web Shop", "description": ""},
    **{"version": 2, "targetKind": "policy", "targetId": ID, "by": [{"policyId": ID}]},
    **{"type": "api_key", "memberType": "api_key", "memberId": ID, "attacheeType": "group", "attacheeId": ID},
    **{"policyId": ID, "policyCount": 1, "operation": "compute:instances:read", "resourceType": "vcpu", "limit": 40},
    **{"reason": "launch", "runId": ID, "organizationId": ID, "api_endpoint": "https://api.example.com/api"},
    "tried": ["--operation", "a:b:c", "--target", "*"],
}
# What a person puts in, in the command that is shown before anything was.
PUT_IN = {"ID": ID, "POLICY": ID, "FILE": "x", "LIMIT": "40", "NAME": "ops", "URL": "https://api.example.com/api"}


def command_of(action: actions.Action) -> str:
    draft = TagDraft({"env": "prod", "team": "core"}, 1)
    screen = "activity" if action.id == "app.activity" else action.scope
    record = {name: value for name, value in RECORD.items() if name != "key"} if "tag" not in screen else RECORD
    tenants = {"tenant": ID, "tenant_before": ID, "creatable": (ID,)}
    context = actions.ActionContext(
        screen=screen, subject=ID, record=record, context_name="local", draft=draft, **tenants
    )
    return action.command(context)


def parsed(line: str) -> click.Command:
    """The command that the real command line reads in a line, with its words all understood; nothing is run."""
    words = shlex.split(line)
    assert words[0] == "frost", line
    words = [PUT_IN.get(word, word) for word in words[1:]]
    command: click.Command = root
    context = root.make_context("frost", list(words), obj=Invocation(words))
    while isinstance(command, Group):
        rest = [*context._protected_args, *context.args]
        if not rest:
            assert command.does_something, line
            return command
        name, resolved, rest = command.resolve_command(context, rest)
        assert resolved is not None, line
        command, context = resolved, resolved.make_context(name, rest, parent=context)
    return command


@pytest.mark.parametrize("action", ALL_ACTIONS, ids=lambda action: action.id)
def test_an_action_shows_a_valid_command_or_a_reason(action: actions.Action) -> None:
    line = command_of(action)
    if line:
        assert action.id not in OTHERWISE["n"], f"{action.id} has a command: {line}"
        assert parsed(line) in COMMANDS.values() or parsed(line).name in {"quota"}
    else:
        assert OTHERWISE["n"].get(action.id), f"{action.id} equals no command, and the table does not say why"


def test_the_table_excuses_no_action_that_is_gone() -> None:
    assert set(OTHERWISE["n"]) <= set(BY_ID)


def test_every_writing_action_shows_its_command() -> None:
    assert {action.id for action in ALL_ACTIONS if action.writes and not command_of(action)} == {"contexts.delete"}


def test_a_mistyped_command_would_be_found() -> None:
    for words in ("iam policy fold X", f"iam policy get {ID} --nmae x", "tenant default-tags", "iam"):
        with pytest.raises((click.UsageError, AssertionError)):
            parsed(f"frost {words}")


@pytest.mark.slow
async def test_with_several_marked_the_copy_menu_has_a_command_for_each(
    shared: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(shared, monkeypatch) as ui:
        await ui.press("6")
        await ui.expect("16 API keys")
        await ui.press("space", "space")
        await ui.expect("2 marked")
        await ui.press("y")
        await ui.expect("command: revoke API key")
        screen = ui.app.frame.current
        assert screen is not None
        marked = [str(record["id"]) for record in screen.table.selected_records]
        number = next(line for line in ui.text.splitlines() if "command: revoke API key" in line)
        digit = re.search(r"(\d)  command", number)
        assert digit is not None
        await ui.press(digit[1])
        await ui.until(lambda: bool(ui.app.clipboard), "what was copied")
        assert ui.app.clipboard == "\n".join(f"frost account api-key revoke {one}" for one in marked)
        assert len(marked) == 2


WAYS = {
    "members": ("3", "…contractors", "o", "…expired"),
    "attachments": ("2", "…contractor", "t", "…deployers"),
    "versions": ("2", "…contractor", "v", "…create", "G"),
    "tag-versions": ("v", "…Version"),
}
"""How a screen that shows the inside of a record is entered."""
BEFORE = {
    "contexts.use": ("G",),
    "contexts.sign_out": ("g",),
    "default-tags.save": ("delete", "…removed"),
    "tag-versions.put_back": ("G",),
}
"""What is done before, so that there is something to do."""


async def keys(ui: Ui, *pressed: str) -> None:
    for key in pressed:
        await (ui.expect(key[1:]) if key.startswith("…") else ui.press(key))


async def goes_to(ui: Ui, row: Row) -> None:
    """Stand in the place of a line, on a record."""
    frame = ui.app.frame

    def stands_in(name: str) -> bool:
        return frame.current is not None and name == frame.current.NAME and frame.current.record is not None

    outer = routes.BY_NAME[row.screen].parent or row.screen
    await frame.navigate(outer, "")
    await ui.until(lambda: stands_in(outer), f"rows of {outer}")
    await keys(ui, *WAYS.get(row.screen, ()))
    await ui.until(lambda: stands_in(row.screen), f"rows of {row.screen}")


async def can_be_done(ui: Ui, action: actions.Action) -> None:
    """The action is enabled here, and its handler exists."""
    screen = ui.app.screen
    assert isinstance(screen, MainScreen | PolicyEditor)
    await ui.until(lambda: not action.disabled_reason(screen.action_context()), f"{action.id} enabled")
    assert callable(resolve_name(action.handler))


async def in_the_editor(ui: Ui, action: actions.Action) -> None:
    await ui.press("enter")
    await ui.until(lambda: isinstance(ui.app.screen, PolicyEditor), "the editor")
    await can_be_done(ui, action)
    await ui.press("ctrl+g")
    await ui.until(lambda: ui.app.screen is ui.app.frame, "the editor left")


@pytest.mark.slow
async def test_a_person_with_the_rights_can_take_every_screen_path(
    demo_slow: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = demo_slow.frost("tenant", "default-tags", "set", "--merge", "--tag", "stage=blue")
    assert again.code == 0, again
    contexts.add(reader.load(str(demo_slow.config)), "other", "https://other.example/api")
    paths = dict.fromkeys((row.screen, row.action) for row in ROWS if row.screen != NOWHERE)
    async with opened(demo_slow, monkeypatch) as ui:
        await ui.expect_head("Web Shop")
        await ui.until(lambda: ui.app.workspace.me is not None, "who calls")
        await ui.switch("Data Lake")
        await ui.switch("Web Shop")
        for path in paths:
            row = next(row for row in ROWS if (row.screen, row.action) == path)
            action = BY_ID[row.action]
            if row.screen != ANYWHERE:
                await goes_to(ui, row)
            await keys(ui, *BEFORE.get(row.action, ()))
            await (in_the_editor if action.scope == editor.EDITOR else can_be_done)(ui, action)
            if row.action == "default-tags.save":
                ui.app.frame.perform("default-tags.discard")
    assert len(paths) > 40

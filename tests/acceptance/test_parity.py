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
from client.config import reader
from tests.docs.commands import entries, parse
from tests.homes import Home
from tests.tui.action_records import RECORDS, TENANT
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


def test_every_command_has_its_line_and_a_common_one_a_screen_path_and_a_call() -> None:
    assert sorted(row.command for row in ROWS) == sorted((*COMMANDS, WEB))
    page = (Path(__file__).parents[2] / "docs" / "compatibility.md").read_text()
    additions = set(re.findall(r"^- `frost ([a-z -]+)`$", page, re.MULTILINE))
    assert additions == {row.command for row in ROWS if row.whose == "o"}
    assert [row for row in ROWS if row.whose == "c" and NOWHERE in (row.screen, row.client)] == []


def test_a_screen_path_is_an_action_of_its_screen_and_every_call_of_the_client_is_named() -> None:
    for row in ROWS:
        if row.screen == ANYWHERE:
            assert BY_ID[row.action].scope == actions.ANYWHERE, row
        elif row.screen != NOWHERE:
            assert row.screen in routes.BY_NAME, row
            assert BY_ID[row.action].scope in (row.screen, actions.LIST, editor.EDITOR), row
        module, _, function = row.client.partition(":")
        if function:
            assert callable(getattr(import_module(module), function)), row
    named = {row.client for row in ROWS if ":" not in row.client} - {NOWHERE}
    assert named.isdisjoint(OTHERWISE["m"])
    assert named | set(OTHERWISE["m"]) == calls() | ASYNC


# The placeholders in a command that is shown before any input.
PUT_IN = {"ID": ID, "POLICY": ID, "FILE": "x", "LIMIT": "40", "NAME": "ops", "URL": "https://api.example.com/api"}


POLICY_DRAFT = editor.Draft(
    policy_id=ID,
    name="ops",
    can_save=True,
    is_saving=False,
    invalid_reason="",
    problem_line=0,
    problems=0,
    counterexamples=0,
    is_checked=True,
)


def command_of(action: actions.Action) -> str:
    draft = TagDraft({"env": "prod", "team": "core"}, 1)
    screen = "activity" if action.id == "app.activity" else action.scope
    tenants = {"tenant": ID, "tenant_before": ID, "creatable": (ID,)}
    context = actions.ActionContext(
        screen=screen,
        subject=ID,
        record=POLICY_DRAFT if screen == editor.EDITOR else RECORDS.get(screen, TENANT),
        context_name="local",
        draft=draft,
        **tenants,
    )
    return action.command(context)


def parsed(line: str) -> click.Command:
    """Return the command that a line names; nothing is run."""
    words = shlex.split(line)
    assert words[0] == "frost", line
    command = parse([PUT_IN.get(word, word) for word in words[1:]])
    assert not isinstance(command, Group) or command.does_something, line
    return command


@pytest.mark.parametrize("action", ALL_ACTIONS, ids=lambda action: action.id)
def test_an_action_shows_a_valid_command_or_a_reason(action: actions.Action) -> None:
    line = command_of(action)
    if line:
        assert action.id not in OTHERWISE["n"], f"{action.id} has a command: {line}"
        assert parsed(line) in COMMANDS.values() or parsed(line).name in {"quota"}
    else:
        assert OTHERWISE["n"].get(action.id), f"{action.id} equals no command, and the table does not say why"


def test_writing_actions_show_their_command_and_a_mistyped_one_would_be_found() -> None:
    assert set(OTHERWISE["n"]) <= set(BY_ID)
    assert {action.id for action in ALL_ACTIONS if action.writes and not command_of(action)} == {"contexts.delete"}
    for words in ("iam policy fold X", f"iam policy get {ID} --nmae x", "tenant default-tags", "iam"):
        with pytest.raises((click.UsageError, AssertionError)):
            parsed(f"frost {words}")


@pytest.mark.slow
async def test_with_several_marked_the_copy_menu_has_a_command_for_each(
    shared: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(shared, monkeypatch) as ui:
        await ui.press("6", shows="16 API keys")
        await ui.press("space", "space", shows="2 marked")
        await ui.press("y", shows="command: revoke API key")
        marked = [ui.screen.id_of(record) for record in ui.screen.table.selected_records]
        digit = re.search(r"(\d)  command: revoke API key", ui.text)
        assert digit is not None
        await ui.press(digit[1])
        await ui.until(lambda: bool(ui.app.clipboard), "what was copied")
        assert ui.app.clipboard == "\n".join(f"frost account api-key revoke {one}" for one in marked)
        assert len(marked) == 2


TO_CHILD = {
    "members": ("3", "…contractors", "o", "…expired"),
    "attachments": ("2", "…contractor", "t", "…deployers"),
    "versions": ("2", "…contractor", "v", "…create", "G"),
    "tag-versions": ("v", "…Version"),
}
"""Keys from the parent to a screen of its contents. `…text` waits for a text."""
PREPARATION = {
    "contexts.use": ("G",),
    "contexts.sign_out": ("g",),
    "default-tags.save": ("delete", "…removed"),
    "tag-versions.put_back": ("G",),
}
"""Keys that make an action possible, for example a change to save."""


async def press(ui: Ui, keys: tuple[str, ...]) -> None:
    for key in keys:
        await (ui.expect(key[1:]) if key.startswith("…") else ui.press(key))


async def open_screen(ui: Ui, name: str) -> None:
    """Open a screen and wait for a record under its cursor."""
    frame, parent = ui.app.frame, routes.BY_NAME[name].parent or name

    def has_record(of: str) -> bool:
        return frame.current is not None and of == frame.current.NAME and frame.current.record is not None

    await frame.navigate(parent, "")
    await ui.until(lambda: has_record(parent), f"records of {parent}")
    await press(ui, TO_CHILD.get(name, ()))
    await ui.until(lambda: has_record(name), f"records of {name}")


async def expect_enabled(ui: Ui, action: actions.Action) -> None:
    screen = ui.app.screen
    assert isinstance(screen, MainScreen | PolicyEditor)
    await ui.until(lambda: not action.disabled_reason(screen.action_context()), f"{action.id} enabled")
    assert callable(resolve_name(action.handler))


@pytest.mark.slow
async def test_an_owner_can_take_every_screen_path(demo_slow: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    assert demo_slow.frost("tenant", "default-tags", "set", "--merge", "--tag", "stage=blue").code == 0
    contexts.add(reader.load(str(demo_slow.config)), "other", "https://other.example/api")
    paths = sorted({(row.screen, row.action) for row in ROWS if row.screen != NOWHERE})
    async with opened(demo_slow, monkeypatch) as ui:
        await ui.expect_head("Web Shop")
        await ui.until(lambda: ui.app.workspace.me is not None, "the principal")
        await ui.switch("Data Lake")
        await ui.switch("Web Shop")
        for screen, action_id in paths:
            action = BY_ID[action_id]
            if screen != ANYWHERE:
                await open_screen(ui, screen)
            await press(ui, PREPARATION.get(action_id, ()))
            if action.scope == editor.EDITOR:
                await ui.press("enter")
                await ui.until(lambda: isinstance(ui.app.screen, PolicyEditor), "the editor")
                await expect_enabled(ui, action)
                await ui.press("ctrl+g")
                await ui.until(lambda: ui.app.screen is ui.app.frame, "the main screen")
            else:
                await expect_enabled(ui, action)
            if action_id == "default-tags.save":
                ui.app.frame.perform("default-tags.discard")
    assert len(paths) > 40

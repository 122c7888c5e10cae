"""The reference of the commands, from the help texts and options that `--help` shows."""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import click

from client.commands.command import GLOBAL_FLAGS, REQUIRES_PERSON, Command, Group, Lazy
from client.commands.invocation import Invocation
from client.commands.root import root
from tui import launch

ESCAPED_BAR = r"\|"
ID = "0192f7c1-5a3e-7b60-9d2f-3c5a8e7b1d04"


class Entry(NamedTuple):
    """A command with its words, as `frost tenant use`."""

    words: str
    command: Command | Group
    aliases: tuple[str, ...]
    person: bool
    """Whether the command, or a group above it, requires an interactive session."""


def register_web() -> None:
    """Add `frost web`, as the entry point of the program does."""
    root.lazy.setdefault("web", Lazy("tui.web.command:web", "Open the screens in a browser on this machine."))


def entries(group: Group = root, words: str = "frost", person: bool = False) -> Iterator[Entry]:
    """Yield every command and group below a group, in the order of the help."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert isinstance(command, Command | Group)
        needs_person = person or command.person
        yield Entry(f"{words} {name}", command, group.aliases.get(name, ()), needs_person)
        if isinstance(command, Group):
            yield from entries(command, f"{words} {name}", needs_person)


def parse(words: list[str]) -> click.Command:
    """Read a command line as the program does, without running it. Raises what the program would report."""
    register_web()
    command: click.Command = root
    if launch.parse(words) is not None:
        return command
    words = [ID if re.fullmatch("[A-Z_]*ID", word) else word for word in words]
    with suppress(click.exceptions.Exit):  # --help
        context = root.make_context("frost", list(words), obj=Invocation(words))
        while isinstance(command, Group) and (rest := [*context._protected_args, *context.args]):
            name, found, rest = command.resolve_command(context, rest)
            assert found is not None
            command, context = found, found.make_context(name, rest, parent=context)
    return command


def render() -> str:
    register_web()
    context = click.Context(root)
    parts = ["## Flags of every command", _flags(GLOBAL_FLAGS, context)]
    parts += ["## Flags of `frost` without a command", _flags(root.params, context)]
    for entry in entries():
        level = "##" if entry.words.count(" ") == 1 else "###"
        parts += [f"{level} {entry.words}", *_body(entry)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _body(entry: Entry) -> Iterator[str]:
    command = entry.command
    context = click.Context(command, info_name=entry.words)
    yield _plain(command.help or "")
    if entry.person and not isinstance(command, Group):
        yield REQUIRES_PERSON
    if entry.aliases:
        yield "Also: " + ", ".join(f"`{alias}`" for alias in entry.aliases)
    if isinstance(command, Group):
        yield from _commands(entry.words, command)
    if isinstance(command, Command) or command.does_something:
        yield f"```text\n{' '.join((entry.words, *command._usage(context)))}\n```"
        yield "```sh\n" + "\n".join(command.examples) + "\n```" if command.examples else ""
        yield _flags(command.params, context)


def _commands(words: str, group: Group) -> Iterator[str]:
    rows = []
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        summary = (command.help or "").partition("\n")[0]
        rows.append(f"| [{words} {name}](#{words.replace(' ', '-')}-{name}) | {_cell(summary)} |")
    yield "\n".join(("| command | |", "| --- | --- |", *rows))


def _flags(params: "tuple[click.Option, ...] | list[click.Parameter]", context: click.Context) -> str:
    records = [param.get_help_record(context) for param in params]
    rows = [f"| `{record[0].replace('|', ESCAPED_BAR)}` | {_cell(record[1])} |" for record in records if record]
    return "\n".join(("| flag or argument | |", "| --- | --- |", *rows)) if rows else ""


def _plain(text: str) -> str:
    """Return a help text as Markdown: what looks like a placeholder or a pattern is no markup."""
    return text.replace("<", "&lt;").replace("*", r"\*")


def _cell(text: str) -> str:
    return _plain(" ".join(text.split())).replace("|", ESCAPED_BAR)

"""The words of the invocation, as they were parsed, to print its command line again with other flags."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import click
from click.core import ParameterSource

Repeat = Callable[[str], str]
"""Returns the word in place of a value that cannot be repeated, such as a secret or standard input."""


class CommandLineArgument(NamedTuple):
    """A parameter on the command line, and its words."""

    command: str
    """The path of its command, `frost tenant`."""
    name: str
    is_argument: bool
    words: tuple[str, ...]


def remember(ctx: click.Context, param: click.Parameter, opts: Mapping[str, Any], repeat: Repeat = str) -> None:
    """Store the words of a parameter in the invocation, if the command line has it."""
    arguments: list[CommandLineArgument] | None = getattr(ctx.obj, "command_line_arguments", None)
    name = param.name or ""
    if arguments is None or ctx.resilient_parsing or ctx.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
        return
    raw = opts.get(name)
    values = [repeat(str(value)) for value in (raw if isinstance(raw, list | tuple) else [raw])]
    if not isinstance(param, click.Option):
        arguments.append(CommandLineArgument(ctx.command_path, name, True, tuple(values)))
        return
    flag = max(param.opts, key=len)
    words: list[str] = []
    for value in values:
        # A value that begins with a hyphen would be read as a flag.
        words += [flag] if param.is_flag else [f"{flag}={value}"] if value.startswith("-") else [flag, value]
    arguments.append(CommandLineArgument(ctx.command_path, name, False, tuple(words)))


def command_line(
    command_path: str,
    all_arguments: Sequence[CommandLineArgument],
    *,
    without: Collection[str] = (),
    added: Sequence[str] = (),
) -> str:
    """Return a command line, quoted for a shell.

    Every flag is repeated at its command: `frost --tenant ID iam simulate --tenant ID` has two of one name. Secrets,
    inline documents and standard input are replaced by what to put in their place.

    Args:
        command_path: The words of the command, `frost iam simulate`.
        all_arguments: The parameters on the command line.
        without: Names of parameters to leave out.
        added: Words to add.
    """
    import shlex

    words: list[str] = []
    path = ""
    for word in command_path.split(" "):
        path = f"{path} {word}".lstrip()
        words.append(word)
        parameters = [one for one in all_arguments if one.command == path and one.name not in without]
        arguments = [word for one in parameters if one.is_argument for word in one.words]
        flags = [word for one in parameters if not one.is_argument for word in one.words]
        if path == command_path:
            flags += added
        # Behind `--`, a word that begins with a hyphen is no flag.
        hyphen = any(word.startswith("-") and word != "-" for word in arguments)
        words += [*flags, "--", *arguments] if hyphen else [*arguments, *flags]
    return shlex.join(words)

"""Usage errors in one line: the invalid input, and how to correct it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click
from click.exceptions import BadOptionUsage, BadParameter, MissingParameter, NoSuchCommand, NoSuchOption, UsageError

from client.errors import FrostError
from client.errors import usage as usage_error

FORMATS = ("table", "yaml", "json", "wide")
GUESSES = {"frost platform start": "the next command starts the platform;"}
"""Hints for commands that do not exist but are often tried."""
_LETTERS = {"d": "debug", "q": "quiet"}


def from_click(error: UsageError) -> FrostError:
    """Convert a usage error of click."""
    ctx = error.ctx
    hint = ""
    match error:
        case NoSuchOption():
            message = f"unknown flag {error.option_name}"
            if error.option_name == "--organization":
                hint = "only the tenant commands take it;"
            else:
                hint = _did_you_mean(error.possibilities)
        case NoSuchCommand():
            message = f'unknown command "{error.command_name}"'
            path = f"{ctx.command_path} {error.command_name}" if ctx is not None else ""
            hint = GUESSES.get(path) or _did_you_mean(error.possibilities)
        case MissingParameter() if error.param is not None:
            missing = "is required" if isinstance(error.param, click.Option) else "is missing"
            message = f"{_name(error.param)} {missing}"
        case BadParameter() if error.param is not None:
            message = f"{_name(error.param)}: {_lower_first(error.message)}"
        case BadOptionUsage():
            takes = "takes no value" if "does not take" in error.message else "needs a value"
            message = f"{error.option_name} {takes}"
        case _:
            message = _lower_first(error.message).replace("got unexpected extra", "unexpected", 1)
    if ctx is not None:
        message = f"{message} ({ctx.command_path})"
        reference = see_help(ctx)
        hint = f"{hint} {f'S{reference[1:]}' if hint.endswith('?') else reference}".strip()
    return usage_error(message, hint)


def refused(ctx: click.Context, message: str, hint: str = "") -> FrostError:
    """Return a usage error for the command in `ctx`."""
    return usage_error(f"{message} ({ctx.command_path})", hint)


def global_flags_in(arguments: Sequence[str]) -> dict[str, str | bool]:
    """Return the global flags in words that could not be parsed, by their names in `Flags`; the last value wins.

    Flags without a valid value are omitted. `--tenant` is not read, as no error message depends on it.
    """
    flags: dict[str, str | bool] = {}
    rest = list(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word.startswith("-") and not word.startswith("--"):
            switches, output, value = word[1:].partition("o")
            if not set(switches) <= set(_LETTERS):
                continue
            flags |= {_LETTERS[letter]: True for letter in switches}
            name, equals, value = "--output" if output else "", value, value.removeprefix("=")
        if name in ("--debug", "--quiet", "--no-color"):
            flags[name[2:].replace("-", "_")] = True
        elif name in ("--output", "--config"):
            value = value if equals else "".join(rest[:1])
            if value in FORMATS or (value and name == "--config"):
                flags[name[2:]] = value
    return flags


def see_help(ctx: click.Context) -> str:
    """Return a reference to the command's help."""
    return f"see {ctx.command_path} --help"


def _did_you_mean(possibilities: Sequence[str] | None) -> str:
    return f"did you mean {possibilities[0]}?" if possibilities else ""


def _name(param: click.Parameter) -> str:
    return param.opts[-1] if isinstance(param, click.Option) else str(param.metavar or param.name)


def _lower_first(text: str) -> str:
    return f"{text[:1].lower()}{text[1:].rstrip('.')}"


@contextmanager
def naming_flag(member: str, flag: str) -> Iterator[None]:
    """Name the flag instead of the member of the request body in an error."""
    try:
        yield
    except FrostError as error:
        of_member = (error.details or {}).get("member") == member and error.message.startswith(f"{member} ")
        if error.code == "INVALID_INPUT" and of_member:
            error.message = f"{flag}{error.message.removeprefix(member)}"
        raise

"""What is wrong with the words of a command line, as one line that names the input and the way on.

contract: Client conventions; checklist G37, G41.
"""

from collections.abc import Sequence

import click
from click.exceptions import BadOptionUsage, BadParameter, MissingParameter, NoSuchCommand, NoSuchOption, UsageError

from client.errors import FrostError
from client.errors import usage as usage_error


def from_click(error: UsageError) -> FrostError:
    """What click found wrong."""
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
            hint = _did_you_mean(error.possibilities)
        case MissingParameter() if error.param is not None:
            missing = "is required" if isinstance(error.param, click.Option) else "is missing"
            message = f"{_name(error.param)} {missing}"
        case BadParameter() if error.param is not None:
            message = f"{_name(error.param)}: {_uncapitalised(error.message)}"
        case BadOptionUsage():
            takes = "takes no value" if "does not take" in error.message else "needs a value"
            message = f"{error.option_name} {takes}"
        case _:
            message = _uncapitalised(error.message).replace("got unexpected extra", "unexpected", 1)
    if ctx is not None:
        message = f"{message} ({ctx.command_path})"
        hint = f"{hint} {see_help(ctx)}".strip()
    return usage_error(message, hint)


def refused(ctx: click.Context, message: str, hint: str = "") -> FrostError:
    """A refusal of ours of what was typed for a command."""
    return usage_error(f"{message} ({ctx.command_path})", hint)


def see_help(ctx: click.Context) -> str:
    """Where the command's flags and arguments are listed."""
    return f"see {ctx.command_path} --help"


def _did_you_mean(possibilities: Sequence[str] | None) -> str:
    return f"did you mean {possibilities[0]}?" if possibilities else ""


def _name(param: click.Parameter) -> str:
    return param.opts[-1] if isinstance(param, click.Option) else str(param.metavar or param.name)


def _uncapitalised(text: str) -> str:
    return f"{text[:1].lower()}{text[1:].rstrip('.')}"

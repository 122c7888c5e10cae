"""The root command: its groups, and the exit codes of a run."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from client import __version__
from client.commands import usage_errors
from client.commands.command import Group, Lazy
from client.commands.invocation import Invocation
from client.commands.output import OUTPUT_FAILED, Output, release_streams
from client.commands.parameters import Option
from client.errors import Exit, FrostError

if TYPE_CHECKING:
    from client.operations import Intervals
    from client.transport.pages import PageLimits

_PIPE_CLOSED = 141
"""Exit code that a shell reports for SIGPIPE (128 + 13): the reader has closed the pipe."""


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        Output().text(f"frost {__version__}")
        ctx.exit()


def _screens_only(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Refuse `--read-only` for a command, which would not respect it."""
    if value and not ctx.resilient_parsing:
        raise usage_errors.refused(ctx, "--read-only is for the screens: use it without a command or after web")


root = Group(
    "frost",
    {
        "iam": Lazy("client.commands.iam.catalogue:iam", "Manage access policies and groups, and check access."),
        "account": Lazy("client.commands.account.profile:account", "Manage your profile, API keys and sessions."),
        "tenant": Lazy(
            "client.commands.tenants:tenant", "Manage tenants, their default tags and quotas.", ("tenants",)
        ),
        "config": Lazy("client.commands.config:config", "Manage the config file: credentials, endpoint, contexts."),
        "login": Lazy("client.commands.login:login", "Sign in with the browser or a device code."),
        "logout": Lazy("client.commands.login:logout", "Sign out and end the session."),
        "whoami": Lazy("client.commands.login:whoami", "Show the credential in use and its source."),
        "platform": Lazy(
            "client.commands.platform.process:platform", "Manage the local platform: its process and data."
        ),
        "completion": Lazy("client.commands.completion:completion", "Print the completion script for a shell."),
        "help": Lazy("client.commands.about:help_of", "Show the help of frost or of a command."),
        "version": Lazy("client.commands.about:version", "Show the version of frost."),
    },
    help="Manage identity, access and tenants. Run without a command to open the interactive screens.",
    params=[
        Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_show_version,
            help="Show the version.",
        ),
        Option(
            ["--read-only"],
            is_flag=True,
            expose_value=False,
            callback=_screens_only,
            help="Open the screens in read-only mode.",
        ),
    ],
)


def main(argv: Sequence[str], *, intervals: "Intervals | None" = None, page_limits: "PageLimits | None" = None) -> int:
    """Run a command line, without the program's name, and return its exit code. Does not raise.

    Args:
        argv: The command line.
        intervals: Those of a wait for an operation; None for the defaults.
        page_limits: Numbers of pages of a list; None for the defaults.
    """
    arguments = list(argv)
    if arguments[:1] == ["__complete"]:
        from client.commands.completion import answer

        return answer(arguments[1:], root)
    run = Invocation(arguments, intervals, page_limits)
    try:
        code = _run(arguments, run)
        if code != Exit.DONE:
            run.name_changed_tenants(look_up=False)
        return code
    except BrokenPipeError:
        release_streams()
        return _PIPE_CLOSED
    except KeyboardInterrupt:
        _end_line()
        with suppress(BrokenPipeError, KeyboardInterrupt):
            run.name_changed_tenants(look_up=False)
        return int(Exit.INTERRUPTED)


def _end_line() -> None:
    """End the line of the `^C` that the terminal has echoed, so that the prompt starts on a new one."""
    with suppress(OSError):
        if sys.stderr.isatty():
            sys.stderr.write("\n")
            sys.stderr.flush()


def _run(arguments: list[str], run: Invocation) -> int:
    try:
        with root.make_context("frost", arguments, obj=run, max_content_width=100) as ctx:
            root.invoke(ctx)
        if run.changed_tenants:
            run.name_changed_tenants()
        return int(Exit.DONE)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.UsageError as error:
        failure = usage_errors.from_click(error)
    except (click.Abort, EOFError):
        return int(Exit.INTERRUPTED)
    except FrostError as error:
        failure = error
    except (BrokenPipeError, KeyboardInterrupt):
        raise
    except Exception as error:
        run.read_remaining_flags()
        if isinstance(error.__cause__, KeyboardInterrupt):
            # Python 3.11 wraps an interruption of a class definition in a RuntimeError.
            raise KeyboardInterrupt from None
        failure = _unexpected_error(error, run)
    run.read_remaining_flags()
    if failure.code == "TENANT_ID_NEEDED":
        from client.commands.completers import name_the_id

        name_the_id(run, failure)
    try:
        run.error_output().error(failure)
    except FrostError:  # the terminal is closed: only the exit code reports the failure
        failure.code = OUTPUT_FAILED
    if failure.code == OUTPUT_FAILED:
        release_streams()
    return int(failure.exit_code)


def _unexpected_error(error: Exception, run: Invocation) -> FrostError:
    """Return the error for a bug in frost. With `--debug`, print the traceback and the message without secrets."""
    if run.flags.debug:
        from traceback import extract_tb

        for frame in extract_tb(error.__traceback__):
            run.error_output().debug(f"{frame.filename}:{frame.lineno} in {frame.name}")
        run.error_output().debug(f"{type(error).__name__}: {_without_secrets(str(error))}")
    return FrostError(
        f"internal error: {type(error).__name__}",
        code="INTERNAL_CLIENT_ERROR",
        hint="" if run.flags.debug else "run the command again with --debug for details",
    )


def _without_secrets(text: str) -> str:
    """Shorten every text of the length of a key or token in a message from an unknown source."""
    import re

    return re.sub(r"[\w.~+/=-]{20,}", lambda match: f"{match[0][:4]}…", text)

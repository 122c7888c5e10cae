"""The command line: its groups, and how a run begins and ends (contract: Client conventions; design: Command line)."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

import click

from client import __version__
from client.commands import usage
from client.commands.frame import Group, Lazy
from client.commands.invocation import Invocation
from client.commands.output import OUTPUT_FAILED, Output
from client.errors import Exit, FrostError

_PIPE_CLOSED = 141
"""What a shell reports for a program that wrote to a reader that had left (128 + SIGPIPE)."""


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        Output().text(f"frost {__version__}")
        ctx.exit()


def _screens_only(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Whoever asks for no changes must not get a command that makes one."""
    if value and not ctx.resilient_parsing:
        raise usage.refused(ctx, "--read-only is for the screens: it stands without a command, or behind web")


root = Group(
    "frost",
    {
        "iam": Lazy("client.commands.iam:iam", "Access policies, groups, and who may do what."),
        "account": Lazy("client.commands.account:account", "Your profile, API keys and sessions."),
        "tenant": Lazy("client.commands.tenant:tenant", "Tenants, their default tags and quotas.", ("tenants",)),
        "config": Lazy("client.commands.config:config", "The config file: credentials, endpoint, contexts."),
        "login": Lazy("client.commands.login:login", "Sign in, in the browser or with a code.", ours=True),
        "logout": Lazy("client.commands.login:logout", "End this session.", ours=True),
        "whoami": Lazy("client.commands.login:whoami", "Which credential is used, and why.", ours=True),
        "platform": Lazy(
            "client.commands.platform:platform", "The local platform: its process and its data.", ours=True
        ),
        "completion": Lazy(
            "client.commands.completion:completion", "Print the completion script of a shell.", ours=True
        ),
    },
    help="Identity, access and tenancy of a multi-tenant cloud. Without a command, on a terminal, the screens open.",
    params=[
        click.Option(
            ["--version"], is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="The version."
        ),
        click.Option(
            ["--read-only"],
            is_flag=True,
            expose_value=False,
            callback=_screens_only,
            help="Open the screens so that they change nothing.",
        ),
    ],
)


def main(argv: Sequence[str]) -> int:
    """Run one command line, without the program's name; answers its exit code and never raises."""
    words = list(argv)
    if words[:1] == ["__complete"]:
        from client.commands.completion import answer

        return answer(words[1:])
    run = Invocation(words)
    try:
        code = _run(words, run)
        if code != Exit.DONE:
            run.name_changed_tenants(look_up=False)
        return code
    except BrokenPipeError:
        _let_go()
        return _PIPE_CLOSED
    except KeyboardInterrupt:
        _end_line()
        with suppress(BrokenPipeError, KeyboardInterrupt):
            run.name_changed_tenants(look_up=False)
        return int(Exit.INTERRUPTED)


def _end_line() -> None:
    """A shell's prompt does not belong behind the `^C` that the terminal has echoed."""
    with suppress(OSError):
        if sys.stderr.isatty():
            sys.stderr.write("\n")
            sys.stderr.flush()


def _run(words: list[str], run: Invocation) -> int:
    try:
        with root.make_context("frost", words, obj=run, max_content_width=100) as ctx:
            root.invoke(ctx)
        if run.changed_tenants:
            run.name_changed_tenants()
        return int(Exit.DONE)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.UsageError as error:
        failure = usage.from_click(error)
    except (click.Abort, EOFError):
        return int(Exit.INTERRUPTED)
    except FrostError as error:
        failure = error
    except (BrokenPipeError, KeyboardInterrupt):
        raise
    except Exception as error:
        run.read_remaining_flags()
        if isinstance(error.__cause__, KeyboardInterrupt):
            # Python 3.11 raises what interrupts the making of a class as the cause of a RuntimeError.
            raise KeyboardInterrupt from None
        failure = _unexpected(error, run)
    run.read_remaining_flags()
    if failure.code == "TENANT_ID_NEEDED":
        from client.commands.names import name_the_id

        name_the_id(run, failure)
    try:
        run.error_output().error(failure)
    except FrostError:  # the terminal is gone: what happened still tells the exit code
        failure.code = OUTPUT_FAILED
    if failure.code == OUTPUT_FAILED:
        _let_go()
    return int(failure.exit_code)


def _unexpected(error: Exception, run: Invocation) -> FrostError:
    """A defect of ours: its kind in one line; where it came from only when asked for, and never a secret."""
    if run.flags.debug:
        from traceback import extract_tb

        for frame in extract_tb(error.__traceback__):
            run.error_output().debug(f"{frame.filename}:{frame.lineno} in {frame.name}")
        run.error_output().debug(f"{type(error).__name__}: {_without_secrets(str(error))}")
    return FrostError(
        f"internal error: {type(error).__name__}",
        code="INTERNAL_CLIENT_ERROR",
        hint="" if run.flags.debug else "run it again with --debug to see where",
    )


def _without_secrets(text: str) -> str:
    """A message of no known origin, in which anything as long as a key or a token is cut to its beginning."""
    import re

    return re.sub(r"[\w.~+/=-]{20,}", lambda match: f"{match[0][:4]}…", text)


def _let_go() -> None:
    """Nothing can be written any more; what Python still holds back must not fail again at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)

"""`frost platform` and `--data-dir`: the process and the data of a platform on this machine."""

import os
from typing import Any

import click

from client import paths
from client.api import platform as calls
from client.commands import output
from client.commands.command import Group, Lazy
from client.commands.invocation import Invocation
from client.connection import Staff
from client.errors import usage
from client.platform import control
from client.platform import reset as platform_reset
from client.tables import columns

DATA_DIR = click.Option(["--data-dir"], metavar="DIR", help="Data directory; default $HOME/.cli/platform.")


def staff_of(data_dir: str | None, command: str, *, starts: bool = False) -> Staff:
    """Return an operator's connection to the platform with its data in a folder; None is the local platform.

    Args:
        data_dir: The folder.
        command: The command, for errors.
        starts: Whether to start the local platform if it is not running.

    Raises:
        FrostError: The folder is empty, or the path of its socket is not usable (exit 2).
    """
    if data_dir == "":
        raise usage(f"--data-dir needs a value, an empty one was given ({command})")
    return Staff(os.environ, starts=starts, folder=data_dir or "")


WORLDS = ("demo", "empty", "large")

platform = Group(
    "platform",
    {
        "operations": Lazy(
            "client.commands.platform.administration:operations",
            "List the operations of the local platform, open ones first.",
        ),
        "backup": Lazy("client.commands.platform.backup:backup", "Back up the platform to one file while it runs."),
        "restore": Lazy("client.commands.platform.backup:restore", "Restore the platform from a backup."),
        "audit": Lazy("client.commands.platform.audit:audit", "Manage the audit log of the local platform."),
        "account": Lazy(
            "client.commands.platform.administration:account", "Manage the accounts of the local platform."
        ),
        "review": Lazy("client.commands.platform.review:review", "Review quota requests of organizations."),
    },
    help="Manage the local platform: its process and data.",
)


@platform.leaf(
    "status",
    DATA_DIR,
    examples=("frost platform status", "frost platform status --data-dir /srv/frost"),
)
def status(run: Invocation, data_dir: str | None) -> None:
    """Show the status of the local platform.

    The command does not start the platform. If the platform does not run, the status is `stopped` and the command
    succeeds.
    """
    connection = staff_of(data_dir, "frost platform status")
    found: dict[str, Any] = {"status": "stopped", "socket": connection.endpoint.path}
    if control.is_running(connection.endpoint):
        found = {"status": "running", **run.driver(connection).ask_json(calls.status())}
    shown = ("status", "version", "pid", "startedAt", "world", "openOperations", "stalledOperations", "socket")
    facts = [
        (name, columns.time_text(value) if name == "startedAt" else str(value))
        for name, value in found.items()
        if run.output.wide or name in shown
    ]
    run.output.facts(found, facts)
    if found["status"] == "stopped" and paths.is_own(connection.endpoint, os.environ):
        run.output.note("it starts with the next command")


@platform.leaf(
    "serve",
    click.Option(["--listen"], metavar="HOST:PORT", help="Listen on TCP as well as on the socket."),
    click.Option(
        ["--database"], metavar="URL", help="sqlite:///FILE or postgresql://…; default: a file in the data directory."
    ),
    click.Option(
        ["--secret-file"],
        metavar="PATH",
        help="Secret shared by all processes of the database; default: in the data directory.",
    ),
    click.Option(["--issuer"], metavar="URL", help="Identity provider that issues tokens; default: local."),
    click.Option(["--client-id"], metavar="ID", help="Public client of the identity provider; default: frost-cli."),
    click.Option(["--audience"], metavar="NAME", help="Required audience of tokens; default: frost."),
    click.Option(
        ["--assume"], metavar="CLAIMS", help="Claims to assume if tokens omit them: email_verified, auth_time."
    ),
    click.Option(
        ["--world"], metavar="NAME", type=click.Choice(WORLDS), help="Content of a new database: demo, empty or large."
    ),
    DATA_DIR,
    click.Option(
        ["--idle-minutes"], metavar="N", type=click.IntRange(min=0), help="Stop after this idle time; 0 means never."
    ),
    examples=(
        "frost platform serve",
        "frost platform serve --database postgresql://db/frost --listen 0.0.0.0:8080 --issuer https://id.example.com",
    ),
)
def serve(run: Invocation, **options: str | int | None) -> None:
    """Run the platform in the foreground.

    This is the program that starts on demand for the local context. With a database and an identity provider it
    serves several users.
    """
    from client.platform.process import service_command

    arguments: list[str] = []
    for name, value in options.items():
        if value == "":
            raise usage(f"--{name.replace('_', '-')} needs a value, an empty one was given (frost platform serve)")
        if value is not None and name != "data_dir":
            arguments += [f"--{name.replace('_', '-')}", str(value)]
    folder = str(options["data_dir"] or "")
    command = service_command(os.environ, *arguments, folder=folder)
    control.refuse_second(folder, os.environ)
    os.execv(command[0], command)  # noqa: S606  (no shell, our own interpreter)


@platform.leaf("stop", examples=("frost platform stop",))
def stop(run: Invocation) -> None:
    """Stop the local platform.

    Running operations pause at a step and continue at the next start.
    """
    stopped = control.stop(os.environ)
    run.output.done("the platform has stopped" if stopped else "the platform was not running", {"status": "stopped"})


@platform.leaf(
    "reset",
    click.Option(
        ["--world"],
        metavar="NAME",
        type=click.Choice(WORLDS),
        default="demo",
        help="demo (the default), empty or large.",
    ),
    click.Option(["--yes"], is_flag=True, help="Do not ask for confirmation; required without a terminal."),
    examples=("frost platform reset --world large --yes",),
)
def reset(run: Invocation, world: str, yes: bool) -> None:
    """Delete all data of the local platform and load a new world.

    All tenants, keys, policies and sessions of the local platform are deleted, and the stored session of the local
    context is removed. Other platforms do not change.
    """
    if not yes:
        output.confirm(
            run.talk,
            f"Delete all data of the local platform in {paths.data_dir(os.environ)} and load the world {world}?",
            refused="this deletes all data of the local platform",
            hint="use --yes to skip the confirmation",
        )
    platform_reset.reset(run.config, world, os.environ)
    run.output.done(f"the local platform now has the world {world}", {"status": "reset", "world": world})

"""`frost platform`: the process of a platform on this machine, its data, backup and restore."""

import json
import os
from collections.abc import Mapping
from typing import Any

import click

from client import paths
from client.api import platform as calls
from client.commands import output
from client.commands.command import Group, Lazy, leaf
from client.commands.invocation import Invocation
from client.commands.parameters import YES, Argument, Option
from client.connection import Staff
from client.errors import Exit, FrostError, usage
from client.platform import control
from client.tables import columns
from client.tables.columns import time_text
from client.text import safe

DATA_DIR = Option(["--data-dir"], metavar="DIR", help="Data directory; default $HOME/.cli/platform.")


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
        raise usage(f"--data-dir requires a value ({command})")
    return Staff(os.environ, starts=starts, folder=data_dir or "")


_ORIGINS = {
    "new": "",
    "upgraded": "",
    "adopted": "adopted {}: the data directory had no mark",
    "accepted": "another log accepted {}",
    "restored": "restored {}",
}


def mark_text(mark: Mapping[str, Any]) -> str:
    """Return the state of the mark of the audit log, for people."""
    state = safe(mark.get("state"), 40)
    if mark.get("reason"):
        return f"{state}: {safe(mark['reason'], 400)}"
    if mark.get("entries") is None:
        return state
    origin = _ORIGINS.get(str(mark.get("origin")), "").format(time_text(mark.get("originAt")))
    return f"{state}, entry {safe(mark['entries'], 20)}" + (f", {origin}" if origin else "")


WORLDS = ("demo", "empty", "large")

platform = Group(
    "platform",
    {
        "operations": Lazy(
            "client.commands.platform.administration:operations",
            "List the operations of the local platform, open ones first.",
        ),
        "backup": Lazy("client.commands.platform.process:backup", "Back up the platform to one file while it runs."),
        "restore": Lazy("client.commands.platform.process:restore", "Restore the platform from a backup."),
        "audit": Lazy("client.commands.platform.audit:audit", "Manage the audit log of the local platform."),
        "account": Lazy(
            "client.commands.platform.administration:account", "Manage the accounts of the local platform."
        ),
        "review": Lazy("client.commands.platform.administration:review", "Review quota requests of organizations."),
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
    document: dict[str, Any] = {"status": "stopped", "socket": connection.endpoint.path}
    if control.is_running(connection.endpoint):
        document = {"status": "running", **run.driver(connection).ask_json(calls.status())}
    members = ("status", "version", "pid", "startedAt", "world", "openOperations", "stalledOperations", "socket")
    facts = [
        ("seed" if name == "world" else name, columns.time_text(value) if name == "startedAt" else str(value))
        for name, value in document.items()
        if name != "auditMark" and (run.output.wide or name in members)
    ]
    if mark := document.get("auditMark"):
        facts.append(("audit mark", mark_text(mark)))
    run.output.facts(document, facts)
    if document["status"] == "stopped" and paths.is_own(connection.endpoint, os.environ):
        run.output.note("the platform starts with the next command")


@platform.leaf(
    "serve",
    Option(["--listen"], metavar="HOST:PORT", help="Listen on TCP as well as on the socket."),
    Option(
        ["--database"], metavar="URL", help="sqlite:///FILE or postgresql://…; default: a file in the data directory."
    ),
    Option(
        ["--secret-file"],
        metavar="PATH",
        help="Secret shared by all processes of the database; default: in the data directory.",
    ),
    Option(["--issuer"], metavar="URL", help="Identity provider that issues tokens; default: local."),
    Option(["--client-id"], metavar="ID", help="Public client of the identity provider; default: frost-cli."),
    Option(["--audience"], metavar="NAME", help="Required audience of tokens; default: frost."),
    Option(["--assume"], metavar="CLAIMS", help="Claims to assume if tokens omit them: email_verified, auth_time."),
    Option(
        ["--world"], metavar="NAME", type=click.Choice(WORLDS), help="Seed of a new database: demo, empty or large."
    ),
    DATA_DIR,
    Option(
        ["--accept-new-chain"],
        metavar="REASON",
        help="Start once on an audit log that was set back or replaced; the log records REASON.",
    ),
    Option(
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
            raise usage(f"--{name.replace('_', '-')} requires a value (frost platform serve)")
        if value is not None and name != "data_dir":
            arguments += [f"--{name.replace('_', '-')}", str(value)]
    folder = str(options["data_dir"] or "")
    command = service_command(os.environ, *arguments, folder=folder)
    control.refuse_second(folder, os.environ)
    _become(command)


def _become(command: list[str]) -> None:
    """Replace this process by the platform.

    The signals that stop it are blocked until it waits for them (service/start_signals.py): process 1 of a container
    would lose those that arrive while the interpreter starts again.
    """
    import signal

    stops = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    try:
        os.execv(command[0], command)  # noqa: S606  (no shell, our own interpreter)
    finally:  # it failed
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@platform.leaf("stop", examples=("frost platform stop",))
def stop(run: Invocation) -> None:
    """Stop the local platform.

    Running operations pause at a step and continue at the next start.
    """
    stopped = control.stop(os.environ)
    result = "the platform has stopped" if stopped else "the platform was not running"
    again = " again" if stopped else ""
    run.output.done(f"{result}; the next command of a local context starts it{again}", {"status": "stopped"})


@platform.leaf(
    "reset",
    Option(
        ["--world"],
        metavar="NAME",
        type=click.Choice(WORLDS),
        default="demo",
        help="Seed: demo (the default), empty or large.",
    ),
    YES,
    examples=("frost platform reset --world large --yes",),
)
def reset(run: Invocation, world: str, yes: bool) -> None:
    """Delete all data of the local platform and load a seed.

    All tenants, keys, policies and sessions of the local platform are deleted, and the stored session of the local
    context is removed. Other platforms do not change.
    """
    if not yes:
        output.confirm(
            run.talk,
            f"Delete all data of the local platform in {paths.data_dir(os.environ)} and load the seed {world}?",
            refused="this deletes all data of the local platform",
            hint="use --yes to skip the confirmation",
        )
    from client.platform import process

    process.reset(run.config, world, os.environ)
    run.output.done(f"the local platform now has the seed {world}", {"status": "reset", "world": world})


FILE = Argument(["file"], metavar="FILE", type=click.Path(), help="The backup.")
DATABASE = Option(
    ["--database"], metavar="URL", help="Database of the platform; default: the file in the data directory."
)
SECRET_FILE = Option(
    ["--secret-file"],
    metavar="PATH",
    help="Secret of the platform; default: in the data directory.",
)
VERIFYING_SECRET_FILE = Option(
    ["--secret-file"],
    metavar="PATH",
    help="Secret of the platform; on a new machine a copy that verifies the seal.",
)


@leaf(
    "backup", FILE, DATABASE, SECRET_FILE, DATA_DIR,
    examples=(
        "frost platform backup monday.tar",
        "frost platform backup monday.tar --data-dir /srv/frost --database postgresql://db/frost",
    ),
)  # fmt: skip
def backup(run: Invocation, file: str, **served: str | None) -> None:
    """Back up the platform to one file while it runs.

    The file contains all tenants, keys, sessions and audit entries of one moment, and the platform's own keys. It
    is as secret as they are and readable only by you. Existing files are not replaced.
    """
    backup = _service("backup", file, served, "no backup was created")
    run.output.done(
        f"{safe(file, 200)} contains a backup of the platform ({backup['bytes']:,} bytes); keep it secret", backup
    )


@leaf(
    "restore",
    FILE,
    YES,
    Option(["--trust"], is_flag=True, help="Restore a backup whose seal cannot be verified."),
    DATABASE,
    VERIFYING_SECRET_FILE,
    DATA_DIR,
    examples=("frost platform restore monday.tar", "frost platform restore monday.tar --yes"),
)
def restore(run: Invocation, file: str, yes: bool, trust: bool, **served: str | None) -> None:
    """Restore the platform from a backup.

    A backup has a seal, which is verified with the installed secret or with --secret-file. Without a secret, and
    for a backup of an earlier release without a seal, --trust is required: the origin of the file is then not
    verified. A wrong seal is always refused.

    Changes since the backup are lost. A running platform is stopped and started again. Keys and sessions of the
    backup are valid afterwards; users who signed in later must sign in again.
    """
    refused = f"{safe(file, 200)} cannot be restored"
    # Verify the backup before stopping the platform.
    flags = ["--trust"] if trust else []
    if _is_empty_machine(served):
        flags += ["--verify-with", paths.absolute(str(served.pop("secret_file")))]
    manifest = _service("restore", file, served, refused, "--check", *flags)
    where = served["data_dir"] or paths.data_dir(os.environ)
    if not yes:
        created_at = time_text(manifest["createdAt"])
        output.confirm(
            run.talk,
            f"Restore the backup of {created_at}, replacing all data of the platform in {safe(where, 200)}?",
            refused="this replaces all data of the platform",
            hint="use --yes to skip the confirmation",
        )
    # A platform served with other flags is stopped by its operator: while it runs, its lock prevents the restore.
    ran = not any(served.values()) and control.stop(os.environ)
    try:
        restored = _service("restore", file, served, refused, *flags)
    finally:
        if ran:
            from client.platform.process import ensure_running

            ensure_running(os.environ)
    run.output.done(f"the platform is restored to its state at {time_text(restored['createdAt'])}", restored)
    if not restored["auditWhole"]:
        run.output.note("its audit log was already incomplete in the backup: frost platform audit verify")


def _is_empty_machine(served: Mapping[str, str | None]) -> bool:
    """Return whether `--secret-file` is for the local platform before it has data: then it only verifies the seal.

    The restored platform has its secret in its own folder, since every command starts it without flags.
    """
    if not served["secret_file"] or served["data_dir"] or served["database"]:
        return False
    folder = paths.data_dir(os.environ)
    return not any(os.path.exists(f"{folder}/{name}") for name in ("secret.key", "platform.db"))  # noqa: PTH110


def _service(name: str, file: str, served: Mapping[str, str | None], refused: str, *flags: str) -> dict[str, Any]:
    """Run a program of the service, which works on the data directly, and return its JSON output.

    Args:
        name: `backup` or `restore`.
        file: The backup.
        served: The flags that locate the platform's data; None if not set.
        refused: The start of the error message.
        flags: Further flags of the program.

    Raises:
        FrostError: A flag is empty (exit 2), the platform is running (exit 6), or the program failed (exit 1).
    """
    import subprocess
    import sys

    options = {f"--{flag.replace('_', '-')}": value for flag, value in served.items() if value is not None}
    for flag, value in {"FILE": file, **options}.items():
        if not value:
            raise usage(f"{flag} is empty (frost platform {name})")
    # The program has another working directory.
    for flag in ("--data-dir", "--secret-file"):
        if flag in options:
            options[flag] = paths.absolute(options[flag])
    if "--data-dir" not in options:
        options["--data-dir"] = paths.data_dir(os.environ)
    # An absolute path cannot be mistaken for a flag.
    arguments = [paths.absolute(file), *flags, *(word for pair in options.items() for word in pair)]
    done = subprocess.run(  # noqa: S603  (our own interpreter and module)
        [sys.executable, "-P", "-m", f"service.operator.{name}", *arguments],
        stdin=subprocess.DEVNULL, capture_output=True, cwd="/", env=dict(os.environ), check=False,
    )  # fmt: skip
    if done.returncode == 0:
        restored: dict[str, Any] = json.loads(done.stdout)
        return restored
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit {done.returncode}"]
    is_running = done.returncode == control.TAKEN
    raise FrostError(
        f"{refused}: {safe(lines[-1].removeprefix('frost platform: '), 300)}",
        code="PLATFORM_RUNNING" if is_running else f"{name.upper()}_REFUSED",
        hint="stop the platform first: frost platform stop" if is_running else "nothing was changed",
        exit_code=Exit.CONFLICT if is_running else Exit.REFUSED,
    )

"""`frost platform backup` and `frost platform restore`: all data of a platform in one file."""

import json
import os
from collections.abc import Mapping
from typing import Any

import click

from client import paths
from client.commands import output
from client.commands.command import leaf
from client.commands.invocation import Invocation
from client.commands.platform.process import DATA_DIR
from client.errors import Exit, FrostError, usage
from client.platform import control
from client.tables.columns import time_text
from client.text import safe

TAKEN = 75
FILE = click.Argument(["file"], metavar="FILE", type=click.Path())
DATABASE = click.Option(
    ["--database"], metavar="URL", help="Database of the platform; default: the file in the data directory."
)
SECRET_FILE = click.Option(
    ["--secret-file"],
    metavar="PATH",
    help="Secret of the platform; default: in the data directory.",
)
VERIFYING_SECRET_FILE = click.Option(
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
    backup = _service("backup", file, served, "no backup was made")
    run.output.done(
        f"{safe(file, 200)} contains the platform as of now ({backup['bytes']:,} bytes); keep it secret", backup
    )


@leaf(
    "restore",
    FILE,
    click.Option(["--yes"], is_flag=True, help="Do not ask for confirmation; required without a terminal."),
    click.Option(["--trust"], is_flag=True, help="Restore a backup whose seal cannot be verified."),
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
        flags += ["--verify-with", os.path.abspath(str(served.pop("secret_file")))]  # noqa: PTH100
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
            options[flag] = os.path.abspath(options[flag])  # noqa: PTH100
    options.setdefault("--data-dir", paths.data_dir(os.environ))
    # An absolute path cannot be mistaken for a flag.
    arguments = [os.path.abspath(file), *flags, *(word for pair in options.items() for word in pair)]  # noqa: PTH100
    done = subprocess.run(  # noqa: S603  (our own interpreter and module)
        [sys.executable, "-P", "-m", f"service.operator.{name}", *arguments],
        stdin=subprocess.DEVNULL, capture_output=True, cwd="/", env=dict(os.environ), check=False,
    )  # fmt: skip
    if done.returncode == 0:
        restored: dict[str, Any] = json.loads(done.stdout)
        return restored
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit {done.returncode}"]
    taken = done.returncode == TAKEN
    raise FrostError(
        f"{refused}: {safe(lines[-1].removeprefix('frost platform: '), 300)}",
        code="PLATFORM_RUNNING" if taken else f"{name.upper()}_REFUSED",
        hint="stop it first" if taken else "nothing was changed",
        exit_code=Exit.CONFLICT if taken else Exit.REFUSED,
    )

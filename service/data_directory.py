"""Checks of the data directory at the start, and the mark of a complete first start.

A platform whose data is lost must not begin a new world: its users would only see that their sessions and keys are
unknown. The mark is written when the first start has loaded the seed. Without it, an interrupted first start begins
again. Earlier releases wrote no mark, but the keys of the seed. Nothing here changes or removes a file.
"""

import os
import stat
from pathlib import Path

from service import files
from service.jobs.dbos_queue import sqlite_file
from service.jobs.queue_file import DAMAGED, QueueFile
from service.seed.loader import KEY_FILE
from service.settings import Settings

DATABASE, WORKFLOWS = "platform.db", "workflows.db"
MARK = "platform.loaded"
_MARK_TEXT = (
    b"The first start of this platform is complete. Without this file, a missing platform.db is created anew.\n"
)
WAY_BACK = "restore a backup (frost platform restore FILE), or delete all data (frost platform reset)"
_SUFFIXES = ("", "-wal", "-shm")


def check_files(settings: Settings, queue: QueueFile | None = None) -> None:
    """Check the files that the platform needs, before the database is opened.

    Args:
        queue: `workflows.db`, to keep the result of its check.

    Raises:
        ValueError: a file is missing, damaged or inaccessible. The message names the file and what to do.
    """
    folder = settings.data_dir
    for name in (MARK, KEY_FILE):
        _require_accessible(folder / name, os.R_OK)
    for key in (settings.secret_file, settings.secret_file.with_name("issuer.jwk")):
        _require_accessible(key, os.R_OK)
        if key.is_symlink() and not key.exists():
            raise ValueError(f"{key} is a link to a file that does not exist; restore the file or the link")
    database = sqlite_file(settings.database_url)
    if database is None:
        return
    for path in (Path(database), folder / WORKFLOWS):
        for suffix in _SUFFIXES:
            _require_accessible(path.with_name(path.name + suffix), os.R_OK | os.W_OK)
    if _is_own_database(settings) and was_loaded(settings) and not _size(Path(database)):
        state = "empty" if Path(database).exists() else "missing"
        raise ValueError(f"{database} is {state}, but a platform has stored its data there; {WAY_BACK}")
    if (queue or QueueFile(folder / WORKFLOWS)).check() == DAMAGED:
        raise ValueError(
            f"{folder / WORKFLOWS} is damaged; remove the file and its -wal and -shm, and open operations start again, "
            f"or {WAY_BACK}"
        )


def require_data(settings: Settings, *, has_schema: bool, has_world: bool) -> None:
    """Require the data of a complete first start in the database of the data directory.

    Args:
        has_schema: a migration of the database was committed.
        has_world: the database has a seed.

    Raises:
        ValueError: the data is lost.
    """
    if not _is_own_database(settings):
        return
    if (is_complete(settings) and not has_world) or (was_loaded(settings) and not has_schema):
        raise ValueError(f"{settings.data_dir / DATABASE} has lost the data of the platform; {WAY_BACK}")


def mark_complete(settings: Settings) -> None:
    """Note that the first start is complete. Idempotent."""
    if _is_own_database(settings) and not is_complete(settings):
        files.write_atomically(settings.data_dir / MARK, _MARK_TEXT)


def is_complete(settings: Settings) -> bool:
    return (settings.data_dir / MARK).exists()


def was_loaded(settings: Settings) -> bool:
    """Return whether a start, of this release or an earlier one, has written a seed or was about to commit it."""
    return is_complete(settings) or (settings.data_dir / KEY_FILE).exists()


def _is_own_database(settings: Settings) -> bool:
    """Return whether the database is the default one. Others may be moved or replaced by their administrators."""
    return sqlite_file(settings.database_url) == str(settings.data_dir / DATABASE)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _require_accessible(path: Path, mode: int) -> None:
    """Raise ValueError for a path that exists and is not a regular file with this access."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise ValueError(f"{path} cannot be used: {error.strerror or error}") from None
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path} is not a plain file; move it away, and {WAY_BACK}")
    if not os.access(path, mode):
        owner = "" if status.st_uid == os.getuid() else f"; it belongs to user {status.st_uid}"
        access = "read" if mode == os.R_OK else "read and written"
        raise ValueError(f"{path} cannot be {access} by user {os.getuid()}{owner}; correct its owner and mode")

"""Checks the file with the tables of the workflow engine on SQLite.

The rows of operations are authoritative: without the file, and with an empty one, open operations are queued again.
With a damaged one, none would ever run.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

OK, DAMAGED, LOCKED = "ok", "damaged", "locked"
LOCK_SECONDS = 1.0
MAX_CHECKED_BYTES = 8 * 1024 * 1024
"""Of a larger file only the schema is read, because the start must not wait. Other pages fail when they are used."""

Signature = tuple[tuple[int, int, int] | None, ...]


def check(path: Path) -> str:
    """Return whether the file is usable; also a missing file is. A locked file has an unknown state."""
    size = path.stat().st_size if path.exists() else 0
    if not size:
        return OK
    try:
        # The mode does not create a file that was removed meanwhile.
        uri = f"{path.absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(uri, uri=True, timeout=LOCK_SECONDS)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if size > MAX_CHECKED_BYTES:
                return OK
            return OK if connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",) else DAMAGED
    except sqlite3.Error as error:
        is_locked = getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
        return LOCKED if is_locked else DAMAGED


class QueueFile:
    """A file that is checked again when it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._checked: Signature | None = None

    def check(self) -> str:
        signature = self._signature()
        if signature == self._checked:
            return OK
        result = check(self._path)
        # A check may itself move the write-ahead log into the file.
        self._checked = self._signature() if result == OK else None
        return result

    def _signature(self) -> Signature:
        return tuple(_signature_of(self._path.with_name(self._path.name + suffix)) for suffix in ("", "-wal"))


def _signature_of(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns

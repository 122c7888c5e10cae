"""Failures of the storage: I/O errors, damaged files, and a SQLite database that was moved while it is open.

A full or read-only storage is another state (`dialect.is_read_only_or_full`): then the database is whole, and a refused
change has left nothing.
"""

import errno
import os
import sqlite3
import threading
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.exc import DBAPIError

from service.files import DamagedFile

_SQLITE_CODES = frozenset(
    {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN}
)
# SQLSTATE codes of PostgreSQL: io_error, data_corrupted, index_corrupted.
_POSTGRESQL_STATES = frozenset({"58030", "XX001", "XX002"})
# Of damaged data, which later statements may not read.
_DAMAGE_CODES = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_DAMAGE_STATES = frozenset({"XX001", "XX002"})
_LOG_SUFFIX = "-wal"
_SUFFIXES = ("", _LOG_SUFFIX, "-shm")
_IS_OPENABLE = "frost_is_openable"
Identity = tuple[int, int] | None
"""Device and inode of a file; None if it cannot be found."""


def is_storage_failure(error: BaseException | None) -> bool:
    """Return whether an error comes from storage that failed, not from a connection or a statement."""
    if isinstance(error, DBAPIError):
        error = error.orig
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in _SQLITE_CODES and not hasattr(error, _IS_OPENABLE)
    if isinstance(error, OSError):
        return error.errno == errno.EIO
    return isinstance(error, DamagedFile) or getattr(error, "sqlstate", None) in _POSTGRESQL_STATES


def is_damage(error: BaseException) -> bool:
    """Return whether an error of a driver comes from damaged data."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE_CODES
    return getattr(error, "sqlstate", None) in _DAMAGE_STATES


def lacks_descriptors(error: BaseException | None) -> bool:
    """Return whether SQLite could not open a file that can be opened: the process has too many open files."""
    return hasattr(error, _IS_OPENABLE)


class FileMoved(sqlite3.OperationalError):
    """The database file was moved, deleted or replaced after the first connection had opened it."""

    sqlite_errorcode = sqlite3.SQLITE_IOERR
    sqlite_errorname = "SQLITE_IOERR"


class SqliteFiles:
    """The database file and its write-ahead log, as the connections have opened them.

    SQLite goes on with a file that is no longer at its path, and a new connection would create another one.

    Args:
        path: of the database file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._connections = 0
        self._database: Identity = None
        self._log: Identity = None

    def watch(self, engine: Engine) -> None:
        """Check each new connection of an engine. Call after the listeners that prepare connections."""
        event.listen(engine, "do_connect", self._before_connect)
        event.listen(engine, "connect", self._after_connect)
        event.listen(engine, "close", self._after_close)

    def are_in_place(self) -> bool:
        """Return whether the open files are still at their paths."""
        if self._database is None:
            return True
        if identity(self.path) != self._database:
            return False
        log = identity(self.path + _LOG_SUFFIX)
        if self._log is None:
            # SQLite creates the log with the first transaction.
            self._log = log
        return log == self._log

    def require_in_place(self) -> None:
        """Raise FileMoved unless the open files are still at their paths."""
        if not self.are_in_place():
            raise FileMoved(f"{self.path} was moved, deleted or replaced while the platform runs")

    def mark_openable(self, error: BaseException) -> None:
        """Mark a SQLITE_CANTOPEN of files that this process may open, for `lacks_descriptors`."""
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CANTOPEN and self._are_openable():
            setattr(error, _IS_OPENABLE, True)

    def _are_openable(self) -> bool:
        # Without opening one, for which descriptors may be missing or free again.
        files = [Path(self.path + suffix) for suffix in _SUFFIXES]
        return (
            files[0].is_file()
            and all(os.access(file, os.R_OK | os.W_OK) for file in files if file.exists())
            and os.access(files[0].parent, os.W_OK | os.X_OK)
        )

    def _before_connect(self, *_: Any) -> None:
        if self._connections:
            self.require_in_place()

    def _after_connect(self, driver: Any, _: object) -> None:
        # Opens the log, which the last connection with the open log deletes.
        driver.execute("PRAGMA schema_version").fetchone()
        with self._lock:
            if not self._connections:
                self._database, self._log = identity(self.path), identity(self.path + _LOG_SUFFIX)
            self._connections += 1

    def _after_close(self, *_: Any) -> None:
        with self._lock:
            self._connections -= 1


def identity(path: str) -> Identity:
    try:
        status = os.stat(path)  # noqa: PTH116 - called for each commit
    except OSError:
        return None
    return status.st_dev, status.st_ino

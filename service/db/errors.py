"""Classification of database errors."""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

logger = logging.getLogger(__name__)

# SQLSTATE codes of PostgreSQL.
READ_ONLY_TRANSACTION, DISK_FULL = "25006", "53100"
LOCK_NOT_AVAILABLE, DEADLOCK_DETECTED = "55P03", "40P01"
# Connection exceptions, server starting or stopping, too many connections, lock timeout.
UNREACHABLE_STATES = ("08", "57P", "53300", LOCK_NOT_AVAILABLE)
# 57014 is a statement timeout, 40001 a serialization failure.
TRANSIENT_STATES = (*UNREACHABLE_STATES, "57014", "40001", DEADLOCK_DETECTED)


class Busy(Exception):
    """A transaction was rolled back because it would have waited for others."""


def is_read_only_or_full(error: DBAPIError) -> bool:
    if isinstance(error.orig, sqlite3.Error):
        return _sqlite_code(error) in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL)
    return sqlstate(error) in (READ_ONLY_TRANSACTION, DISK_FULL)


def is_lock_timeout(error: DBAPIError) -> bool:
    if isinstance(error.orig, sqlite3.Error):
        return _sqlite_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return sqlstate(error) == LOCK_NOT_AVAILABLE


def is_transient(error: Exception) -> bool:
    """Return whether a retry of the transaction may succeed."""
    if isinstance(error, PoolTimeoutError):
        return True
    if not isinstance(error, DBAPIError):
        return False
    if isinstance(error.orig, sqlite3.Error):
        return is_lock_timeout(error)
    state = sqlstate(error)
    # An OperationalError of the driver has no state and concerns the connection.
    return error.connection_invalidated or (
        isinstance(error, OperationalError) and (state is None or state.startswith(TRANSIENT_STATES))
    )


def is_unreachable(error: Exception) -> bool:
    """Return whether the database is unavailable, busy, full or read-only, independently of the statement.

    Statement timeouts, deadlocks and serialization failures are excluded: the statement may be their cause.
    """
    if isinstance(error, DBAPIError) and is_read_only_or_full(error):
        return True
    state = sqlstate(error) if isinstance(error, DBAPIError) else None
    return is_transient(error) and (state is None or state.startswith(UNREACHABLE_STATES))


def sqlstate(error: DBAPIError) -> str | None:
    """Return the SQLSTATE; None on SQLite and for errors of the driver."""
    return getattr(error.orig, "sqlstate", None)


@contextmanager
def ignore_if_read_only(description: str) -> Iterator[None]:
    """Log a warning and skip the write if the database is read-only or full, so that reads still succeed."""
    try:
        yield
    except DBAPIError as error:
        if not is_read_only_or_full(error):
            raise
        logger.warning("%s: %s", description, type(error.orig).__name__)


def _sqlite_code(error: DBAPIError) -> int:
    """Return the primary result code, the low byte of an extended code."""
    return getattr(error.orig, "sqlite_errorcode", 0) & 0xFF

"""Classify database errors: transient, unreachable, read-only or full, lock timeout."""

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
# Connection lost or refused, server starting or stopping, too many connections, lock timeout.
UNREACHABLE_STATES = ("08", "57P", "53300", LOCK_NOT_AVAILABLE)
# The transaction had no effect and may be retried. 57014 is a statement timeout, 40001 a serialization failure.
TRANSIENT_STATES = (*UNREACHABLE_STATES, "57014", "40001", DEADLOCK_DETECTED)


class Busy(Exception):
    """A change was not made because it would have waited for other transactions."""


def is_read_only_or_full(error: DBAPIError) -> bool:
    """Return whether a change failed because the database is read-only or its disk is full."""
    if isinstance(error.orig, sqlite3.Error):
        return _sqlite_code(error) in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL)
    return sqlstate(error) in (READ_ONLY_TRANSACTION, DISK_FULL)


def is_lock_timeout(error: DBAPIError) -> bool:
    """Return whether a statement failed because another transaction held a lock for too long."""
    if isinstance(error.orig, sqlite3.Error):
        return _sqlite_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return sqlstate(error) == LOCK_NOT_AVAILABLE


def is_transient(error: Exception) -> bool:
    """Return whether the same request may succeed later."""
    if isinstance(error, PoolTimeoutError):
        return True
    if not isinstance(error, DBAPIError):
        return False
    if isinstance(error.orig, sqlite3.Error):
        return is_lock_timeout(error)
    state = sqlstate(error)
    # An OperationalError without a state comes from the driver and concerns the connection.
    return error.connection_invalidated or (
        isinstance(error, OperationalError) and (state is None or state.startswith(TRANSIENT_STATES))
    )


def is_unreachable(error: Exception) -> bool:
    """Return whether the database is away, busy, full or read-only, whichever the statement.

    Statement timeouts, deadlocks and serialization failures are transient, but the same statement may cause them again.
    """
    if isinstance(error, DBAPIError) and is_read_only_or_full(error):
        return True
    state = sqlstate(error) if isinstance(error, DBAPIError) else None
    return is_transient(error) and (state is None or state.startswith(UNREACHABLE_STATES))


def sqlstate(error: DBAPIError) -> str | None:
    """Return the SQLSTATE of an error; None on SQLite and for errors of the driver."""
    return getattr(error.orig, "sqlstate", None)


@contextmanager
def ignore_if_read_only(description: str) -> Iterator[None]:
    """Skip a write, with a warning, while the database is read-only or full.

    For writes that a read does on the way, so that reads are still answered.
    """
    try:
        yield
    except DBAPIError as error:
        if not is_read_only_or_full(error):
            raise
        logger.warning("%s: %s", description, type(error.orig).__name__)


def _sqlite_code(error: DBAPIError) -> int:
    """Return the primary result code: extended codes keep it in their low byte."""
    return getattr(error.orig, "sqlite_errorcode", 0) & 0xFF

"""SQL and errors that differ between SQLite and PostgreSQL. A dialect is imported only where it is used."""

import errno
import logging
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import ColumnElement, Connection, Select, Table, Text, cast, func, inspect, literal, select
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from service.db.storage import is_storage_failure, lacks_descriptors
from service.db.tables import Document

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

logger = logging.getLogger(__name__)

# Ids of advisory locks, unique on the server and equal in all releases.
MIGRATION_LOCK = 0x66726F7374
RECOVERY_LOCK = 0x66726F7375
SEALER_LOCK = 0x66726F7376
TEXT_LOCKS = 0x66726F7377
"""The seed of locks of texts."""

POSTGRESQL_NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
"""The PostgreSQL server's clock in microseconds since 1970."""

# SQLSTATE codes of PostgreSQL.
READ_ONLY_TRANSACTION, DISK_FULL = "25006", "53100"
# Of files beside the database.
FULL_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
LOCK_NOT_AVAILABLE, DEADLOCK_DETECTED = "55P03", "40P01"
# Connection exceptions, server starting or stopping, too many connections, lock timeout.
UNREACHABLE_STATES = ("08", "57P", "53300", LOCK_NOT_AVAILABLE)
# 57014 is a statement timeout, 40001 a serialization failure.
TRANSIENT_STATES = (*UNREACHABLE_STATES, "57014", "40001", DEADLOCK_DETECTED)


def upsert_insert(connection: Connection, table: Table) -> "postgresql.Insert | sqlite.Insert":
    """Return an INSERT with `on_conflict_do_update` and `on_conflict_do_nothing`."""
    if _is_postgresql(connection):
        from sqlalchemy.dialects.postgresql import insert

        return insert(table)
    from sqlalchemy.dialects.sqlite import insert as insert_into_sqlite

    return insert_into_sqlite(table)


def merge_json(connection: Connection, defaults: Any, values: Any) -> ColumnElement[Any]:
    """Merge two JSON objects; `values` wins, and must have no null members, which SQLite would remove."""
    return defaults.op("||")(values) if _is_postgresql(connection) else func.json_patch(defaults, values)


def without_json_keys(connection: Connection, column: ColumnElement[Any], keys: Sequence[str]) -> ColumnElement[Any]:
    """Remove keys from a JSON object. They must not contain a double quote or a backslash."""
    if not _is_postgresql(connection):
        return func.json_remove(column, *(f'$."{key}"' for key in keys))
    from sqlalchemy.dialects.postgresql import ARRAY

    return column.op("-")(cast(list(keys), ARRAY(Text)))


def values_of(connection: Connection, texts: Sequence[str]) -> Select[Any]:
    """Return a subquery of texts, passed as a single parameter."""
    elements = func.jsonb_array_elements_text if _is_postgresql(connection) else func.json_each
    return select(elements(literal(list(texts), Document)).table_valued("value").c.value)


def pairs_of(connection: Connection, pairs: Sequence[tuple[str, Any]]) -> Select[Any]:
    """Return a subquery of texts `first` and JSON values `second`, passed as a single parameter."""
    rows = literal([list(pair) for pair in pairs], Document)
    if _is_postgresql(connection):
        row = func.jsonb_array_elements(rows).table_valued("value").c.value
        return select(row.op("->>")(0).label("first"), row.op("->")(1).label("second"))
    row = func.json_each(rows).table_valued("value").c.value
    return select(
        func.json_extract(row, "$[0]").label("first"),
        func.json_extract(row, "$[1]").label("second"),
    )


def lock_for_migration(connection: Connection) -> None:
    """Wait for migrations by other replicas. SQLite has a single writer."""
    if _is_postgresql(connection):
        connection.execute(select(func.pg_advisory_xact_lock(MIGRATION_LOCK)))


def try_recovery_lock(connection: Connection) -> bool:
    """Try to take the recovery lock for this transaction (PostgreSQL only)."""
    return bool(connection.execute(select(func.pg_try_advisory_xact_lock(RECOVERY_LOCK))).scalar_one())


def try_sealer_lock(connection: Connection) -> bool:
    """Try to take the lock of the audit log's sealer for this transaction (PostgreSQL only)."""
    return bool(connection.execute(select(func.pg_try_advisory_xact_lock(SEALER_LOCK))).scalar_one())


def lock_text(connection: Connection, text: str) -> None:
    """Wait for other transactions with this lock, and keep it until this one ends. SQLite has a single writer."""
    if _is_postgresql(connection):
        connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(text, TEXT_LOCKS))))


def lock_table(connection: Connection, table: Table) -> None:
    """Block other writers of a table until the transaction ends. SQLite has a single writer."""
    if _is_postgresql(connection):
        connection.exec_driver_sql(f'LOCK TABLE "{table.name}" IN SHARE ROW EXCLUSIVE MODE')


def set_timeout(
    connection: Connection,
    name: Literal["lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout"],
    milliseconds: int,
) -> None:
    """Set a timeout of this transaction (PostgreSQL); 0 disables it."""
    if _is_postgresql(connection):
        connection.exec_driver_sql(f"SET LOCAL {name} = '{milliseconds}ms'")


def analyze(connection: Connection) -> None:
    """Update the planner's statistics after a bulk load (PostgreSQL), or each batch of an apply scans a whole kind."""
    if _is_postgresql(connection):
        for name in inspect(connection).get_table_names():
            connection.exec_driver_sql(f'ANALYZE "{name}"')


def _is_postgresql(connection: Connection) -> bool:
    return connection.dialect.name == "postgresql"


class Busy(Exception):
    """A transaction was rolled back because it would have waited for others."""


def is_read_only_or_full(error: Exception) -> bool:
    """Return whether a database or file takes no changes. Other errors of the system, such as of sockets, are not."""
    if isinstance(error, OSError):
        return error.errno in FULL_ERRORS
    if not isinstance(error, DBAPIError):
        return False
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
        return is_lock_timeout(error) or lacks_descriptors(error.orig)
    state = sqlstate(error)
    # An OperationalError of the driver has no state and concerns the connection.
    return error.connection_invalidated or (
        isinstance(error, OperationalError) and (state is None or state.startswith(TRANSIENT_STATES))
    )


def is_unreachable(error: Exception) -> bool:
    """Return whether the database is unavailable, busy, full, read-only or failing, independently of the statement.

    Statement timeouts, deadlocks and serialization failures are excluded: the statement may be their cause.
    """
    if is_read_only_or_full(error) or is_storage_failure(error):
        return True
    state = sqlstate(error) if isinstance(error, DBAPIError) else None
    return is_transient(error) and (state is None or state.startswith(UNREACHABLE_STATES))


def sqlstate(error: DBAPIError) -> str | None:
    """Return the SQLSTATE; None on SQLite and for errors of the driver."""
    return getattr(error.orig, "sqlstate", None)


@contextmanager
def ignore_if_read_only(description: str) -> Iterator[None]:
    """Log a warning and skip the write if the storage takes no changes or fails, so that reads still succeed."""
    try:
        yield
    except DBAPIError as error:
        if not is_read_only_or_full(error) and not is_storage_failure(error):
            raise
        logger.warning("%s: %s", description, type(error.orig).__name__)


def _sqlite_code(error: DBAPIError) -> int:
    """Return the primary result code, the low byte of an extended code."""
    return getattr(error.orig, "sqlite_errorcode", 0) & 0xFF

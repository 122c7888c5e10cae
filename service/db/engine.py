"""Connections and transactions on SQLite or PostgreSQL."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Any, Literal, TypeAlias, cast
from weakref import WeakSet

from sqlalchemy import URL, Connection, Dialect, Engine, Row, create_engine, event, update
from sqlalchemy.engine import ExceptionContext, make_url
from sqlalchemy.exc import DBAPIError, DisconnectionError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

from service.db import dialect, sqlite
from service.db.change_thread import ChangeThread
from service.db.dialect import Busy, is_lock_timeout
from service.db.group_commit import GroupCommit
from service.db.loop_reads import READER, LoopReads, PostgresqlLoopReads, SqliteLoopReads
from service.db.origin import Origin
from service.db.prepared import NotPreparedError, PreparedConnection, PreparedStatements
from service.db.storage import SqliteFiles, identity, is_damage, is_storage_failure
from service.db.tables import complete_for_postgresql, platform_state, read_json

# `application_name` of connections. A restore waits until none is open.
APPLICATION = "frost platform"
# Only idle connections are pinged: a ping at every checkout makes requests a third slower.
IDLE_PING_SECONDS = 5
# PostgreSQL allows 100 connections by default. A replica uses up to 24, 8 more for reads on the event loop, and 8 for
# jobs. Further requests wait 10 seconds, then fail.
POOL_SIZE, MAX_CONNECTIONS, POOL_TIMEOUT_SECONDS = 8, 24, 10
# How long `write_without_waiting` waits for the lock of a statement.
NO_WAIT_MILLISECONDS = 50
CANCEL_SECONDS = 1.0
# How long the storage counts as failed after damaged data was read, because a write elsewhere does not show its repair.
DAMAGE_SECONDS = 60.0
# Keepalives and tcp_user_timeout detect an unreachable server.
CONNECTION = {
    "connect_timeout": "5",
    "keepalives_idle": "20",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
# The idle timeout releases the locks of an unreachable replica.
_BOUNDS = "-c statement_timeout=60s -c idle_in_transaction_session_timeout=60s"
# Statements rely on these, so neither the server, the database, the role nor the URL may choose others.
_REQUIRED = r"-c default_transaction_isolation=read\ committed -c client_encoding=UTF8"
SESSION = f"{_BOUNDS} {_REQUIRED}"

Record: TypeAlias = Row[*tuple[Any, ...]]
"""A row with columns as attributes."""


class Database:
    """Transactions on a database. Errors do not show statement parameters, which may be secret.

    Args:
        url: `sqlite:///path` or `postgresql://…`, which uses psycopg 3.

    Raises:
        ValueError: the URL names another database.
    """

    kind: Literal["sqlite", "postgresql"]
    engine: Engine
    group_commit: GroupCommit | None
    """The writers of this process; None on PostgreSQL, where changes commit in parallel."""
    files: SqliteFiles | None
    """None on PostgreSQL and in memory."""

    def __init__(self, url: str, *, idle_ping_seconds: float = IDLE_PING_SECONDS) -> None:
        self._drivers: WeakSet[Any] = WeakSet()
        """Open connections of psycopg."""
        parsed = make_url(url)
        backend = parsed.get_backend_name()
        self.origin = Origin()
        if backend == "sqlite":
            self.kind = "sqlite"
            self.engine = sqlite.create_sqlite_engine(parsed)
            self.files = sqlite.files_of(parsed)
            if self.files is not None:
                self.files.watch(self.engine)
            self.loop_reads: LoopReads = SqliteLoopReads(self.engine)
        elif backend == "postgresql":
            self.kind = "postgresql"
            self.files = None
            self.engine = _create_postgresql_engine(parsed, idle_ping_seconds)
            event.listen(self.engine, "connect", lambda driver, _: self._drivers.add(driver))
            self.loop_reads = PostgresqlLoopReads(with_psycopg_defaults(parsed), APPLICATION, self.origin)
        else:
            raise ValueError(f"the database must be sqlite or postgresql, not {backend}")
        event.listen(self.engine, "connect", self._observe_connection)
        self._statements = PreparedStatements(self.engine.dialect)
        self.group_commit = GroupCommit(self.engine, self._statements, self.files) if self.kind == "sqlite" else None
        self.change_thread = ChangeThread() if self.kind == "sqlite" else None
        self.has_storage_failed = False
        """Whether an error of the storage occurred and `retry_storage` has not succeeded since."""
        self._damaged_at = float("-inf")
        event.listen(self.engine, "handle_error", self._record_storage_failure)
        # A SQLite transaction is a snapshot. PostgreSQL's default, READ COMMITTED, is not.
        self._autocommit = self.engine.execution_options(isolation_level="AUTOCOMMIT")
        self._snapshot = (
            self.engine.execution_options(isolation_level="REPEATABLE READ")
            if self.kind == "postgresql"
            else self.engine
        )

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Read a consistent snapshot as of the first statement. Writes are rolled back.

        In a function that runs on the event loop, this is a `Reader`, for prepared statements only.
        """
        reader = READER.get()
        if reader is not None:
            with reader.snapshot():
                yield cast(Connection, reader)
            return
        with PreparedConnection(self._snapshot, self._statements) as connection:
            connection.begin()
            yield connection

    @property
    def lock_waits(self) -> int:
        """How often a write waited for another of this process; 0 on PostgreSQL."""
        return self.group_commit.waits if self.group_commit else 0

    def write(self) -> AbstractContextManager[Connection]:
        """Run a transaction, rolled back on any error. The context ends after the commit is durable.

        On SQLite it may share its commit with others, which wait for it: use `bulk_write` for long transactions.

        Raises:
            NotPreparedError: on the event loop, which a change would block.
            RuntimeError: this thread is in a write transaction (SQLite).
        """
        _require_thread()
        return self.group_commit.transaction() if self.group_commit else self._begin()

    @contextmanager
    def _begin(self) -> Iterator[Connection]:
        with PreparedConnection(self.engine, self._statements) as connection, connection.begin():
            yield connection

    @contextmanager
    def bulk_write(self) -> Iterator[Connection]:
        """Run a transaction that changes many rows; on SQLite without others, and with a larger page cache."""
        _require_thread()
        if self.group_commit is None:
            with self._begin() as connection:
                yield connection
            return
        with self.group_commit.transaction(alone=True) as connection, sqlite.large_cache(connection):
            yield connection

    @contextmanager
    def write_without_waiting(self) -> Iterator[Connection]:
        """Run a transaction that does not wait for others.

        Raises:
            Busy: another transaction holds a required lock.
        """
        _require_thread()
        try:
            if self.group_commit is not None:
                with self.group_commit.transaction(alone=True, timeout_milliseconds=NO_WAIT_MILLISECONDS) as connection:
                    yield connection
                return
            with self._begin() as connection:
                dialect.set_timeout(connection, "lock_timeout", NO_WAIT_MILLISECONDS)
                yield connection
        except DBAPIError as error:
            if is_lock_timeout(error):
                raise Busy from error
            raise

    @contextmanager
    def read_committed(self) -> Iterator[Connection]:
        """Read committed data, each statement the latest. For a single statement, cheaper than a snapshot."""
        reader = READER.get()
        if reader is not None:
            yield cast(Connection, reader)
            return
        with PreparedConnection(self.engine, self._statements) as connection:
            connection.begin()
            yield connection

    @contextmanager
    def autocommit(self) -> Iterator[Connection]:
        """Run each statement in its own transaction (PostgreSQL only): a single round trip."""
        _require_thread()
        with self._autocommit.connect() as connection:
            yield connection

    def observe_origin(self) -> None:
        """Compare the origin of the database with that of the previous connection."""
        if self.kind == "sqlite":
            self._observe_file()
            return
        with self.autocommit() as connection:
            self.origin.observe_postgresql(connection.connection.driver_connection)

    def _observe_file(self) -> None:
        if self.files is not None:
            self.origin.observe(identity(self.files.path))

    def _observe_connection(self, driver_connection: Any, record: object) -> None:
        if self.kind == "sqlite":
            self._observe_file()
        else:
            self.origin.observe_postgresql(driver_connection)

    def is_writable(self) -> bool:
        """Return whether the database accepts changes, now or after a wait for locks."""
        try:
            with self.write_without_waiting() as connection:
                if self.kind == "postgresql":
                    return connection.exec_driver_sql("SHOW transaction_read_only").scalar() == "off"
                # BEGIN IMMEDIATE has succeeded.
                return True
        except Busy:
            return True
        except OperationalError:
            return False

    def retry_storage(self) -> None:
        """Write after an error of the storage, to find out whether it works again.

        Raises:
            SQLAlchemyError: the database is unreachable.
        """
        if time.monotonic() - self._damaged_at < DAMAGE_SECONDS:
            return
        try:
            with self.write_without_waiting() as connection:
                # The same value is written and synced too.
                same = update(platform_state).values(value=platform_state.c.value)
                connection.execute(same.where(platform_state.c.name == "world"))
        except Busy:
            return
        except DBAPIError as error:
            if not is_storage_failure(error):
                raise
            return
        self.has_storage_failed = False

    def _record_storage_failure(self, context: ExceptionContext) -> None:
        if self.files is not None:
            self.files.mark_openable(context.original_exception)
        if is_storage_failure(context.original_exception):
            self.has_storage_failed = True
            if is_damage(context.original_exception):
                self._damaged_at = time.monotonic()

    def cancel_statements(self) -> None:
        """Cancel the running statements (PostgreSQL). The server would finish them although this process has ended."""
        for connection in tuple(self._drivers):
            with suppress(self.engine.dialect.loaded_dbapi.Error):
                connection.cancel_safe(timeout=CANCEL_SECONDS)

    def close(self) -> None:
        self.engine.dispose()


def _require_thread() -> None:
    """Raise NotPreparedError on the event loop, which a change would block."""
    if READER.get() is not None:
        raise NotPreparedError


def with_psycopg_defaults(url: URL) -> URL:
    """Add the driver and the defaults `CONNECTION` and `SESSION` to a PostgreSQL URL."""
    query = dict(url.query)
    options = query.get("options", "")
    # PostgreSQL uses the last setting of a parameter.
    of_url = options if isinstance(options, str) else " ".join(options)
    session = f"{_BOUNDS} {of_url} {_REQUIRED}" if of_url else SESSION
    return url.set(drivername="postgresql+psycopg", query={**CONNECTION, **query, "options": session})


def _create_postgresql_engine(url: URL, idle_ping_seconds: float) -> Engine:
    complete_for_postgresql()
    engine = create_engine(
        with_psycopg_defaults(url),
        connect_args={"application_name": APPLICATION},
        pool_size=POOL_SIZE,
        max_overflow=MAX_CONNECTIONS - POOL_SIZE,
        pool_timeout=POOL_TIMEOUT_SECONDS,
        json_deserializer=read_json,
        hide_parameters=True,
    )
    event.listen(engine, "checkin", _record_checkin)
    event.listen(engine, "checkout", partial(_ping_if_idle, engine.dialect, idle_ping_seconds))
    return engine


def _record_checkin(driver_connection: Any, record: ConnectionPoolEntry) -> None:
    record.info["returned"] = time.monotonic()


def _ping_if_idle(
    dialect: Dialect, idle_seconds: float, driver_connection: Any, record: ConnectionPoolEntry, proxy: object
) -> None:
    """Replace a connection that was lost while idle."""
    if time.monotonic() - record.info.get("returned", time.monotonic()) > idle_seconds:
        try:
            dialect.do_ping(driver_connection)
        except dialect.loaded_dbapi.Error as error:
            raise DisconnectionError from error

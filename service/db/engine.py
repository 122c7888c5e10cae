"""Database access: SQLite or PostgreSQL, chosen by the URL."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, TypeAlias

from sqlalchemy import URL, Connection, Dialect, Engine, Row, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, DisconnectionError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

from service.db import dialect, sqlite
from service.db.errors import Busy, is_lock_timeout
from service.db.tables import complete_for_postgresql

# `application_name` of the connections. A restore waits until no connection of this name is left.
APPLICATION = "frost platform"
# Pinging on every checkout makes a request a third slower, so only idle connections are pinged.
IDLE_PING_SECONDS = 5
# PostgreSQL allows 100 connections by default. Each replica uses at most 24, and 8 more for durable work. Further
# requests wait 10 seconds for a connection, then fail.
POOL_SIZE, MAX_CONNECTIONS, POOL_TIMEOUT_SECONDS = 8, 24, 10
# A transaction that must not wait for others still waits this long for the lock of a single statement.
NO_WAIT_MILLISECONDS = 50
# Defaults of the connection. Keepalives and tcp_user_timeout detect a server that vanished.
CONNECTION = {
    "connect_timeout": "5",
    "keepalives_idle": "20",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
# Defaults of the session. The idle timeout releases the locks of a replica that vanished.
SESSION = "-c statement_timeout=60s -c idle_in_transaction_session_timeout=60s"

Record: TypeAlias = Row[*tuple[Any, ...]]
"""A row whose columns are read by name."""


class Database:
    """Transactions on one database. Errors of statements never show the parameters, which may be secret.

    Args:
        url: `sqlite:///path` or `postgresql://…`, which uses psycopg 3.

    Raises:
        ValueError: the URL names another database.
    """

    kind: Literal["sqlite", "postgresql"]
    engine: Engine
    lock_waits: int
    """How often a write waited for another one of this process; always 0 on PostgreSQL."""

    def __init__(self, url: str) -> None:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
        if backend == "sqlite":
            self.kind = "sqlite"
            self.engine = sqlite.create_sqlite_engine(parsed)
        elif backend == "postgresql":
            self.kind = "postgresql"
            self.engine = _create_postgresql_engine(parsed)
        else:
            raise ValueError(f"the database must be sqlite or postgresql, not {backend}")
        self.lock_waits = 0
        self._writer_lock = threading.RLock()
        self._immediate = sqlite.immediate(self.engine)
        # A transaction of SQLite is a snapshot; PostgreSQL's default one sees what others commit in between.
        self._snapshot = (
            self.engine.execution_options(isolation_level="REPEATABLE READ")
            if self.kind == "postgresql"
            else self.engine
        )

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Read one consistent snapshot, as of the first statement. Writes in it are rolled back."""
        with self._snapshot.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Run one transaction: committed at the end, rolled back on any error."""
        if self.kind == "sqlite":
            with self._locked(), self._immediate.begin() as connection:
                yield connection
        else:
            with self.engine.begin() as connection:
                yield connection

    @contextmanager
    def bulk_write(self) -> Iterator[Connection]:
        """Run one transaction that changes rows all over a table: on SQLite with a larger page cache."""
        with self.write() as connection:
            if self.kind == "sqlite":
                with sqlite.large_cache(connection):
                    yield connection
            else:
                yield connection

    @contextmanager
    def write_without_waiting(self) -> Iterator[Connection]:
        """Run one transaction that does not wait for others.

        Raises:
            Busy: another transaction holds a lock that this one needs.
        """
        try:
            if self.kind == "postgresql":
                with self.engine.begin() as connection:
                    dialect.set_timeout(connection, "lock_timeout", NO_WAIT_MILLISECONDS)
                    yield connection
                return
            if not self._writer_lock.acquire(timeout=NO_WAIT_MILLISECONDS / 1000):
                raise Busy
            try:
                with (
                    self._immediate.connect() as connection,
                    sqlite.short_lock_timeout(connection, NO_WAIT_MILLISECONDS),
                    connection.begin(),
                ):
                    yield connection
            finally:
                self._writer_lock.release()
        except DBAPIError as error:
            if is_lock_timeout(error):
                raise Busy from error
            raise

    @contextmanager
    def read_committed(self) -> Iterator[Connection]:
        """Read what is committed at each statement; `write_on` may follow.

        In a snapshot, PostgreSQL refuses to change a row that another transaction has changed since.
        """
        with self.engine.connect() as connection:
            yield connection

    @contextmanager
    def write_on(self, connection: Connection) -> Iterator[Connection]:
        """Write after a `read_committed`: on PostgreSQL in the same transaction, committed at the end.

        SQLite cannot turn a reader into a writer safely, so it gets a transaction of its own.
        """
        if self.kind == "sqlite":
            with self.write() as writer:
                yield writer
        else:
            yield connection
            connection.commit()

    def is_writable(self) -> bool:
        """Return whether the database takes changes, now or after the transactions that hold its locks."""
        try:
            with self.write_without_waiting() as connection:
                if self.kind == "postgresql":
                    return connection.exec_driver_sql("SHOW transaction_read_only").scalar() == "off"
                # BEGIN IMMEDIATE has succeeded, so the file is writable.
                return True
        except Busy:
            return True
        except OperationalError:
            return False

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Serialize the writers of this process: SQLite has one writer, and polls for its lock."""
        if not self._writer_lock.acquire(blocking=False):
            self.lock_waits += 1
            self._writer_lock.acquire()
        try:
            yield
        finally:
            self._writer_lock.release()


def with_psycopg_defaults(url: URL) -> URL:
    """Add the driver, and `CONNECTION` and `SESSION` where a URL of PostgreSQL does not set them."""
    query = dict(url.query)
    options = query.get("options", "")
    # Of two options that set the same parameter, PostgreSQL takes the later one.
    session = " ".join([SESSION, *([options] if isinstance(options, str) else options)]).strip()
    return url.set(drivername="postgresql+psycopg", query={**CONNECTION, **query, "options": session})


def _create_postgresql_engine(url: URL) -> Engine:
    complete_for_postgresql()
    engine = create_engine(
        with_psycopg_defaults(url),
        connect_args={"application_name": APPLICATION},
        pool_size=POOL_SIZE,
        max_overflow=MAX_CONNECTIONS - POOL_SIZE,
        pool_timeout=POOL_TIMEOUT_SECONDS,
        hide_parameters=True,
    )
    event.listen(engine, "checkin", _record_checkin)
    event.listen(engine, "checkout", partial(_ping_if_idle, engine.dialect))
    return engine


def _record_checkin(driver_connection: Any, record: ConnectionPoolEntry) -> None:
    record.info["returned"] = time.monotonic()


def _ping_if_idle(dialect: Dialect, driver_connection: Any, record: ConnectionPoolEntry, proxy: object) -> None:
    """Replace a connection that died while it was idle in the pool."""
    if time.monotonic() - record.info.get("returned", time.monotonic()) > IDLE_PING_SECONDS:
        try:
            dialect.do_ping(driver_connection)
        except dialect.loaded_dbapi.Error as error:
            raise DisconnectionError from error

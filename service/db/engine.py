"""The database: SQLite or PostgreSQL, told apart only by the URL.

SQLite runs in WAL mode with synchronous NORMAL. The driver's own transaction handling is switched off
(its legacy mode begins no transaction before a SELECT or DDL); this module says BEGIN itself, BEGIN IMMEDIATE for
writes, so that a writer never meets SQLITE_BUSY half-way, and one lock keeps the writers of this process in line.
"""

import logging
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from sqlalchemy import URL, Connection, Dialect, Engine, Row, Table, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, DisconnectionError, OperationalError
from sqlalchemy.exc import TimeoutError as NoneFree
from sqlalchemy.pool import ConnectionPoolEntry

from service.db.tables import complete_for_postgresql

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

logger = logging.getLogger(__name__)

BUSY_SECONDS = 10
# What a server calls our connections: a restore waits for their end.
APPLICATION = "frost platform"
# A request that asks first whether the server is there takes a third longer.
IDLE_PING_SECONDS = 5
# A server of PostgreSQL has 100 connections unless it is told otherwise, for all replicas together: each takes so many
# at most, and eight for durable work. Requests beyond wait for one, and are told after so long that there is none.
KEPT_CONNECTIONS, MOST_CONNECTIONS, FREE_SECONDS = 8, 24, 10
# As PostgreSQL numbers them.
READ_ONLY_TRANSACTION, DISK_FULL = "25006", "53100"
# A change that does not wait for others waits for a statement of theirs all the same.
NO_WAIT_MILLISECONDS = 50
LOCK_NOT_AVAILABLE = "55P03"
# What passes by itself, and has left nothing behind: the server goes or comes, has no connection to give, did not get
# to it in time, or two changes were in each other's way.
UNREACHABLE_STATES = ("08", "57P", "53300", "55P03")
TRANSIENT_STATES = (*UNREACHABLE_STATES, "57014", "40001", "40P01")
# How a connection is to be, unless the URL says otherwise. A server that is gone without a word is noticed; and what a
# replica that is gone without a word had locked, is free again: its transaction ends when it has said nothing for long.
CONNECTION = {
    "connect_timeout": "5",
    "keepalives_idle": "20",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
SESSION = "-c statement_timeout=60s -c idle_in_transaction_session_timeout=60s"
# Pages (of 4 KB) in the log before they are brought home: those changed several times meanwhile, once.
WAL_AUTOCHECKPOINT_PAGES = 4_000
# What a change of many rows may keep in memory; SQLite's usual is 2 MB a connection.
BULK_CACHE_KIB = 32_000
# Ids named in one statement: databases bound the number of its parameters.
MAX_PARAMETERS = 500

# A row whose columns are read by name.
Record: TypeAlias = Row[*tuple[Any, ...]]


class Busy(Exception):
    """A change was not made because it would have had to wait for others."""


class Database:
    """An engine, and the two ways to use it: `read()` and `write()`.

    Args:
        url: `sqlite:///path` or `postgresql://…` (driven by psycopg 3).

    A failed statement is told without its values: they are nobody's business in a log.

    Raises:
        ValueError: the URL names another database.
    """

    kind: Literal["sqlite", "postgresql"]
    engine: Engine
    waits: int
    """How often a change had to wait until another one of this process was made; on PostgreSQL they do not."""

    def __init__(self, url: str) -> None:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
        if backend == "sqlite":
            self.kind = "sqlite"
            self.engine = create_engine(
                parsed,
                connect_args={"timeout": BUSY_SECONDS, "isolation_level": None},
                pool_size=8,
                max_overflow=40,
                hide_parameters=True,
            )
            event.listen(self.engine, "connect", _prepare_sqlite)
            event.listen(self.engine, "begin", _begin_sqlite)
        elif backend == "postgresql":
            self.kind = "postgresql"
            complete_for_postgresql()
            self.engine = create_engine(
                with_psycopg_defaults(parsed),
                connect_args={"application_name": APPLICATION},
                pool_size=KEPT_CONNECTIONS,
                max_overflow=MOST_CONNECTIONS - KEPT_CONNECTIONS,
                pool_timeout=FREE_SECONDS,
                hide_parameters=True,
            )
            event.listen(self.engine, "checkin", _record_checkin)
            event.listen(self.engine, "checkout", partial(_ping_if_idle, self.engine.dialect))
        else:
            raise ValueError(f"the database must be sqlite or postgresql, not {backend}")
        self.waits = 0
        self._writer = threading.RLock()
        self._immediate = self.engine.execution_options(frost_immediate=True)
        # A transaction of SQLite is a snapshot by itself; PostgreSQL's usual one sees what others commit in between.
        self._snapshot = (
            self.engine.execution_options(isolation_level="REPEATABLE READ")
            if self.kind == "postgresql"
            else self.engine
        )

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One consistent view, of the moment of its first statement; nothing written in it is kept."""
        with self._snapshot.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One transaction: committed at the end, rolled back on any error."""
        if self.kind == "sqlite":
            with self._turn(), self._immediate.begin() as connection:
                yield connection
        else:
            with self.engine.begin() as connection:
                yield connection

    @contextmanager
    def write_much(self) -> Iterator[Connection]:
        """As `write`, for changes all over a table: SQLite has room to keep what it read until it is changed."""
        with self.write() as connection:
            if self.kind != "sqlite":
                yield connection
                return
            usual = connection.exec_driver_sql("PRAGMA cache_size").scalar_one()
            connection.exec_driver_sql(f"PRAGMA cache_size={-BULK_CACHE_KIB}")
            try:
                yield connection
            finally:
                connection.exec_driver_sql(f"PRAGMA cache_size={usual}")

    @contextmanager
    def write_at_once(self) -> Iterator[Connection]:
        """Like `write`, but does not wait for other changes.

        Raises:
            Busy: others hold what this change needs.
        """
        try:
            if self.kind == "postgresql":
                with self.engine.begin() as connection:
                    connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{NO_WAIT_MILLISECONDS}ms'")
                    yield connection
                return
            if not self._writer.acquire(timeout=NO_WAIT_MILLISECONDS / 1000):
                raise Busy
            try:
                with self._immediate.connect() as connection, _short_lock_timeout(connection), connection.begin():
                    yield connection
            finally:
                self._writer.release()
        except DBAPIError as error:
            if is_lock_timeout(error):
                raise Busy from error
            raise

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """The writer's turn, of one thread at a time."""
        if not self._writer.acquire(blocking=False):
            self.waits += 1
            self._writer.acquire()
        try:
            yield
        finally:
            self._writer.release()

    @contextmanager
    def read_newest(self) -> Iterator[Connection]:
        """What is committed at each statement, not of one moment: what `write_after` may follow.

        In a snapshot, a change of what another changed meanwhile would be refused instead of made after it.
        """
        with self.engine.connect() as connection:
            yield connection

    @contextmanager
    def write_after(self, connection: Connection) -> Iterator[Connection]:
        """A change that follows a `read_newest`: on PostgreSQL in the same transaction, committed at the end.

        SQLite would have to begin again as a writer, so there it is a transaction of its own.
        """
        if self.kind == "sqlite":
            with self.write() as writing:
                yield writing
        else:
            yield connection
            connection.commit()

    def writable(self) -> bool:
        """Return whether a change could begin, now or after those that are being made."""
        try:
            with self.write_at_once() as connection:
                if self.kind == "postgresql":
                    return connection.exec_driver_sql("SHOW transaction_read_only").scalar() == "off"
                # BEGIN IMMEDIATE has already been refused on a database that cannot be written.
                return True
        except Busy:
            return True
        except OperationalError:
            return False

    def close(self) -> None:
        self.engine.dispose()


def with_psycopg_defaults(url: URL) -> URL:
    """A URL of PostgreSQL as it is connected to: the driver, and `CONNECTION` and `SESSION` where it does not say."""
    given = dict(url.query)
    options = given.get("options", "")
    # Of two that set the same, the later one counts.
    told = {"options": " ".join([SESSION, *([options] if isinstance(options, str) else options)]).strip()}
    return url.set(drivername="postgresql+psycopg", query={**CONNECTION, **given, **told})


def chunks(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Ids in portions that a statement can name."""
    for begin in range(0, len(ids), MAX_PARAMETERS):
        yield ids[begin : begin + MAX_PARAMETERS]


def upsert_insert(connection: Connection, table: Table) -> "postgresql.Insert | sqlite.Insert":
    """An INSERT that knows `on_conflict_…`, of the connection's dialect; the other one is not loaded for it."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert

        return insert(table)
    from sqlalchemy.dialects.sqlite import insert as insert_into_sqlite

    return insert_into_sqlite(table)


def is_read_only_or_full(error: DBAPIError) -> bool:
    """Whether a change failed because there can be none now: the database is read-only, or its disk is full."""
    if isinstance(error.orig, sqlite3.Error):
        return getattr(error.orig, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL)
    return getattr(error.orig, "sqlstate", None) in (READ_ONLY_TRANSACTION, DISK_FULL)


def is_lock_timeout(error: DBAPIError) -> bool:
    """Return whether a statement failed because others hold a lock for longer than it may wait."""
    if isinstance(error.orig, sqlite3.Error):
        return getattr(error.orig, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return getattr(error.orig, "sqlstate", None) == LOCK_NOT_AVAILABLE


def is_transient(error: Exception) -> bool:
    """Whether the database could not answer for a reason that passes: the same request may be sent again later."""
    if isinstance(error, NoneFree):
        return True
    if not isinstance(error, DBAPIError):
        return False
    if isinstance(error.orig, sqlite3.Error):
        return is_lock_timeout(error)
    state = getattr(error.orig, "sqlstate", None)
    # Without a number: it was not the server that said it, but the driver, of the connection.
    return error.connection_invalidated or (
        isinstance(error, OperationalError) and (state is None or state.startswith(TRANSIENT_STATES))
    )


def is_unreachable(error: Exception) -> bool:
    """Whether the database is away, busy, full or read-only, which no statement of ours causes.

    A statement that takes too long, a deadlock and a serialization failure pass as well, but may come back every time.
    """
    if isinstance(error, DBAPIError) and is_read_only_or_full(error):
        return True
    state = getattr(error.orig, "sqlstate", None) if isinstance(error, DBAPIError) else None
    return is_transient(error) and (state is None or state.startswith(UNREACHABLE_STATES))


@contextmanager
def ignore_if_read_only(what: str) -> Iterator[None]:
    """A change that is left undone, with a line in the log, on a database that takes none now.

    Reads are still answered there, and the changes people ask for are refused by themselves. hostile I01
    """
    try:
        yield
    except DBAPIError as error:
        if not is_read_only_or_full(error):
            raise
        logger.warning("%s: %s", what, type(error.orig).__name__)


def _record_checkin(driver_connection: Any, record: ConnectionPoolEntry) -> None:
    record.info["returned"] = time.monotonic()


def _ping_if_idle(dialect: Dialect, driver_connection: Any, record: ConnectionPoolEntry, proxy: object) -> None:
    """Look whether a connection that nobody used for a while is still there; one just used is taken as it is."""
    if time.monotonic() - record.info.get("returned", time.monotonic()) > IDLE_PING_SECONDS:
        try:
            dialect.do_ping(driver_connection)
        except dialect.loaded_dbapi.Error as error:
            raise DisconnectionError from error


def _enable_wal(cursor: sqlite3.Cursor) -> None:
    """WAL mode. Of two that turn a new file to it at once, SQLite refuses one without waiting: each waits for the
    other."""
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(0.01)


def _prepare_sqlite(driver_connection: Any, record: object) -> None:
    cursor = driver_connection.cursor()
    _enable_wal(cursor)
    for pragma in (
        "synchronous=NORMAL",
        "foreign_keys=ON",
        f"busy_timeout={BUSY_SECONDS * 1000}",
        f"wal_autocheckpoint={WAL_AUTOCHECKPOINT_PAGES}",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


@contextmanager
def _short_lock_timeout(connection: Connection) -> Iterator[None]:
    """Let a connection to SQLite that has not begun a transaction wait only briefly for one of another process."""
    driver: Any = connection.connection.driver_connection
    driver.execute(f"PRAGMA busy_timeout={NO_WAIT_MILLISECONDS}")
    try:
        yield
    finally:
        driver.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")


def _begin_sqlite(connection: Connection) -> None:
    immediate = connection.get_execution_options().get("frost_immediate", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

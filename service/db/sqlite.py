"""SQLite engines, and a transaction that several changes share.

The driver's transaction handling is off, because it begins no transaction before a SELECT or DDL. Writers use BEGIN
IMMEDIATE, so that they do not fail with SQLITE_BUSY in the middle of a transaction. With `synchronous=FULL`, COMMIT
syncs the log: without that, a power loss could undo a revocation that was already answered.
"""

import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, ExceptionContext
from sqlalchemy.pool import PoolProxiedConnection

from service.db.change_thread import Signal, current_call
from service.db.digests import SQLITE_FUNCTION, digest_or_none
from service.db.storage import SqliteFiles
from service.db.tables import read_json

BUSY_SECONDS = 10
# In pages of 4 KB. A checkpoint writes pages that have changed several times only once.
WAL_AUTOCHECKPOINT_PAGES = 4_000
# Page cache of bulk transactions; the default is 2 MB.
BULK_CACHE_KIB = 32_000
WAL_RETRY_SECONDS = 0.01
SAVEPOINT = "frost_change"


def create_sqlite_engine(url: URL) -> Engine:
    engine = create_engine(
        url,
        connect_args={"timeout": BUSY_SECONDS, "isolation_level": None},
        pool_size=8,
        max_overflow=40,
        json_deserializer=read_json,
        hide_parameters=True,
    )
    event.listen(engine, "connect", _prepare_connection)
    event.listen(engine, "begin", _begin)
    return engine


def files_of(url: URL) -> SqliteFiles | None:
    """Return the files of a database; None for one in memory."""
    path = url.database
    return None if not path or path == ":memory:" or path.startswith("file:") else SqliteFiles(path)


def begin_with(engine: Engine, statement: str) -> Engine:
    """Return an engine that starts transactions with a statement other than BEGIN."""
    return engine.execution_options(frost_begin=statement)


@contextmanager
def large_cache(connection: Connection) -> Iterator[None]:
    """Enlarge the page cache, so that changed pages are not read twice."""
    default = connection.exec_driver_sql("PRAGMA cache_size").scalar_one()
    connection.exec_driver_sql(f"PRAGMA cache_size={-BULK_CACHE_KIB}")
    try:
        yield
    finally:
        connection.exec_driver_sql(f"PRAGMA cache_size={default}")


def set_lock_timeout(driver: sqlite3.Connection, milliseconds: int = BUSY_SECONDS * 1000) -> None:
    """Limit the wait for writers of other processes."""
    driver.execute(f"PRAGMA busy_timeout={milliseconds}")


def _prepare_connection(driver_connection: Any, record: object) -> None:
    cursor = driver_connection.cursor()
    _enable_wal(cursor)
    for pragma in (
        "synchronous=FULL",
        "foreign_keys=ON",
        # Otherwise REPLACE removes rows without their DELETE triggers.
        "recursive_triggers=ON",
        f"busy_timeout={BUSY_SECONDS * 1000}",
        f"wal_autocheckpoint={WAL_AUTOCHECKPOINT_PAGES}",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
    driver_connection.create_function(SQLITE_FUNCTION, 1, digest_or_none, deterministic=True)


def _enable_wal(cursor: sqlite3.Cursor) -> None:
    """Switch to WAL mode. SQLite ignores the busy timeout if two processes switch a new file at once, so retry."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(WAL_RETRY_SECONDS)


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("frost_begin", "BEGIN"))


class ChangeGroup:
    """A transaction on a connection of the pool.

    Args:
        opened_at: seconds on the clock of the caller.
        timeout_milliseconds: how long BEGIN waits for other processes; None for the default.
        files: of the database.
    """

    def __init__(
        self,
        engine: Engine,
        opened_at: float,
        timeout_milliseconds: int | None = None,
        files: SqliteFiles | None = None,
    ) -> None:
        self.opened_at = opened_at
        self._files = files
        self.changes: list[Change] = []
        """The changes that have ended."""
        self.error: sqlite3.Error | None = None
        """Why the transaction was not committed."""
        self._connection = engine.connect()
        self._has_short_timeout = timeout_milliseconds is not None
        driver: Any = self._connection.connection.driver_connection
        self.driver: sqlite3.Connection = driver
        if timeout_milliseconds is not None:
            set_lock_timeout(self.driver, timeout_milliseconds)

    @property
    def has_timed_out(self) -> bool:
        """Whether BEGIN waited for another process in vain."""
        return getattr(self.error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY

    def commit(self) -> None:
        """Commit, or set `error`."""
        try:
            if self.error is None:
                self._require_files()
                self.driver.commit()
                # Before the changes are acknowledged.
                self._require_files()
        except sqlite3.Error as error:
            self.error = error
        except BaseException:
            # An interrupt, before COMMIT or after it.
            if self.driver.in_transaction:
                self.error = sqlite3.OperationalError("the commit was interrupted")
            raise

    def _require_files(self) -> None:
        if self._files is not None:
            self._files.require_in_place()

    def close(self) -> None:
        """Return the connection to the pool, which rolls back an open transaction."""
        try:
            if self._has_short_timeout:
                set_lock_timeout(self.driver)
        finally:
            self._connection.close()

    def require_intact(self) -> None:
        """Raise a copy of `error`, since several threads raise it."""
        if self.error is not None:
            error = type(self.error)(*self.error.args)
            error.__dict__.update(self.error.__dict__)
            raise error from self.error


class Change(PoolProxiedConnection):
    """A change: the whole transaction of its group, or a savepoint in it.

    Args:
        alone: whether it shares its transaction with no other change.
        end: called when the savepoint was released or rolled back; returns after the commit of the group.
        abort: called instead when a change fails that began the transaction; rolls it back.
    """

    def __init__(self, *, alone: bool, end: "Callable[[Change], None]", abort: "Callable[[Change], None]") -> None:
        self.alone = alone
        self._end = end
        self._abort = abort
        call = current_call()
        self.runner: object = call or threading.get_ident()
        """The thread that runs the change, or the call in the thread of changes."""
        self.signal = Signal()
        """Set when the change may run, and again when its group has ended."""
        self.queued_at = call.submitted_at if call else 0.0
        self.group: ChangeGroup | None = None
        self.is_first = False
        self.has_begun = False
        self.has_ended = False
        self._cursors: list[weakref.ref[sqlite3.Cursor]] = []
        self._info: dict[Any, Any] = {}

    def join(self, group: ChangeGroup) -> None:
        self.group = group
        driver: Any = group.driver
        self.driver_connection = self.dbapi_connection = driver

    @property
    def open_group(self) -> ChangeGroup:
        if self.group is None:
            raise sqlite3.ProgrammingError("the transaction has not started")
        return self.group

    # As SQLAlchemy calls it

    @property
    def info(self) -> dict[Any, Any]:
        """Data of this change; on other connections it is kept for further transactions."""
        return self._info

    @property
    def is_valid(self) -> bool:
        return not self.has_ended

    @property
    def is_detached(self) -> bool:
        return False

    def cursor(self, *_: Any, **__: Any) -> Any:
        """Return a cursor, unless statements would run outside of the transaction.

        Raises:
            sqlite3.Error: the transaction has ended, or SQLite has rolled it back.
        """
        if self.has_ended:
            self.open_group.require_intact()
            raise sqlite3.ProgrammingError("the transaction has ended")
        self._require_open()
        cursor = self.open_group.driver.cursor()
        self._cursors.append(weakref.ref(cursor))
        return cursor

    def commit(self) -> None:
        """End the change; return after the commit of its group."""
        self._close_cursors()
        self._require_open()
        if not self.is_first:
            self.open_group.driver.execute(f"RELEASE {SAVEPOINT}")
        self._end(self)

    def rollback(self) -> None:
        """Undo the change, and end it. If other changes of the group have ended, return after their commit."""
        group = self.group
        if self.has_ended or group is None:
            return
        self._close_cursors()
        if self.is_first:
            self._abort(self)
            return
        if self.has_begun and group.error is None:
            try:
                group.driver.execute(f"ROLLBACK TO {SAVEPOINT}")
                group.driver.execute(f"RELEASE {SAVEPOINT}")
            except sqlite3.Error as error:
                group.error = error
        self._end(self)

    def close(self) -> None:
        """Roll back after a commit that failed; its error is the one to report."""
        with suppress(sqlite3.Error):
            self.rollback()

    def invalidate(self, e: BaseException | None = None, soft: bool = False) -> None:
        self.close()

    def _require_open(self) -> None:
        """Raise if SQLite has rolled the transaction back, also after an error that the change has caught."""
        group = self.open_group
        if self.has_begun and group.error is None and not group.driver.in_transaction:
            group.error = sqlite3.OperationalError("the transaction was rolled back by SQLite")
        group.require_intact()

    def _close_cursors(self) -> None:
        """Close cursors that were not read to the end; they would keep the snapshot of this transaction open."""
        for reference in self._cursors:
            if (cursor := reference()) is not None:
                cursor.close()
        self._cursors.clear()


def record_lost_transaction(context: ExceptionContext) -> None:
    """Record why SQLite has rolled back the transaction of a group, or why it has not started."""
    connection, error = context.connection, context.original_exception
    if connection is None or connection.closed or not isinstance(error, sqlite3.Error):
        return
    change = connection.connection
    if isinstance(change, Change) and change.group is not None and not change.has_ended:
        group = change.group
        if group.error is None and not group.driver.in_transaction:
            group.error = error

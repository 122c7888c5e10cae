"""SQLite: pragmas of its connections and explicit transactions.

The driver's own transaction handling is off: its legacy mode begins no transaction before a SELECT or DDL. Writers use
BEGIN IMMEDIATE, so that they never get SQLITE_BUSY in the middle of a transaction.
"""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL

BUSY_SECONDS = 10
# Pages of 4 KB before an automatic checkpoint; pages that change several times in between are written back once.
WAL_AUTOCHECKPOINT_PAGES = 4_000
# Page cache of a transaction that changes many rows; the default is 2 MB a connection.
BULK_CACHE_KIB = 32_000
WAL_RETRY_SECONDS = 0.01


def create_sqlite_engine(url: URL) -> Engine:
    """Create an engine whose connections use WAL mode, foreign keys and explicit transactions."""
    engine = create_engine(
        url,
        connect_args={"timeout": BUSY_SECONDS, "isolation_level": None},
        pool_size=8,
        max_overflow=40,
        hide_parameters=True,
    )
    event.listen(engine, "connect", _prepare_connection)
    event.listen(engine, "begin", _begin)
    return engine


def immediate(engine: Engine) -> Engine:
    """Return the engine with transactions that take the write lock at their begin."""
    return engine.execution_options(frost_immediate=True)


@contextmanager
def large_cache(connection: Connection) -> Iterator[None]:
    """Enlarge the page cache of a connection, so that changed pages need not be read twice."""
    default = connection.exec_driver_sql("PRAGMA cache_size").scalar_one()
    connection.exec_driver_sql(f"PRAGMA cache_size={-BULK_CACHE_KIB}")
    try:
        yield
    finally:
        connection.exec_driver_sql(f"PRAGMA cache_size={default}")


@contextmanager
def short_lock_timeout(connection: Connection, milliseconds: int) -> Iterator[None]:
    """Limit how long a connection waits for writers of other processes. It must not have begun a transaction."""
    driver: Any = connection.connection.driver_connection
    driver.execute(f"PRAGMA busy_timeout={milliseconds}")
    try:
        yield
    finally:
        driver.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")


def _prepare_connection(driver_connection: Any, record: object) -> None:
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


def _enable_wal(cursor: sqlite3.Cursor) -> None:
    """Switch to WAL mode. Retry by hand: SQLite ignores the busy timeout if two processes switch a new file at once."""
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
    is_immediate = connection.get_execution_options().get("frost_immediate", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_immediate else "BEGIN")

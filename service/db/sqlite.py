"""SQLite engines: pragmas and explicit transactions.

The driver's transaction handling is off, because it begins no transaction before a SELECT or DDL. Writers use BEGIN
IMMEDIATE, so that they do not fail with SQLITE_BUSY in the middle of a transaction. With `synchronous=FULL`, COMMIT
syncs the log: without that, a power loss could undo a revocation that was already answered.
"""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL

from service.db.tables import read_json

BUSY_SECONDS = 10
# In pages of 4 KB. A checkpoint writes pages that have changed several times only once.
WAL_AUTOCHECKPOINT_PAGES = 4_000
# Page cache of bulk transactions; the default is 2 MB.
BULK_CACHE_KIB = 32_000
WAL_RETRY_SECONDS = 0.01


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
        f"busy_timeout={BUSY_SECONDS * 1000}",
        f"wal_autocheckpoint={WAL_AUTOCHECKPOINT_PAGES}",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


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

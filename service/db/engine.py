"""The database: SQLite or PostgreSQL, told apart only by the URL.

SQLite runs in WAL mode with synchronous NORMAL. The driver's own transaction handling is switched off
(its legacy mode begins no transaction before a SELECT or DDL); this module says BEGIN itself, BEGIN IMMEDIATE for
writes, so that a writer never meets SQLITE_BUSY half-way, and one lock keeps the writers of this process in line.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from sqlalchemy import Connection, Engine, Row, Table, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError

from service.db.tables import complete_for_postgresql

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

BUSY_SECONDS = 10
MOST_NAMED = 500
"""Ids named in one statement: databases bound the number of its parameters."""

# A row whose columns are read by name.
Record: TypeAlias = Row[*tuple[Any, ...]]


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
                parsed.set(drivername="postgresql+psycopg"),
                pool_size=8,
                max_overflow=40,
                pool_pre_ping=True,
                hide_parameters=True,
            )
        else:
            raise ValueError(f"the database must be sqlite or postgresql, not {backend}")
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
            with self._writer, self._immediate.begin() as connection:
                yield connection
        else:
            with self.engine.begin() as connection:
                yield connection

    def writable(self) -> bool:
        """Whether a change could begin now."""
        try:
            with self.write() as connection:
                if self.kind == "postgresql":
                    return connection.exec_driver_sql("SHOW transaction_read_only").scalar() == "off"
                # BEGIN IMMEDIATE has already been refused on a database that cannot be written.
                return True
        except OperationalError:
            return False

    def close(self) -> None:
        self.engine.dispose()


def portions(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Ids in portions that a statement can name."""
    for begin in range(0, len(ids), MOST_NAMED):
        yield ids[begin : begin + MOST_NAMED]


def insert_unless_there(connection: Connection, table: Table) -> "postgresql.Insert | sqlite.Insert":
    """An INSERT that knows `on_conflict_…`, of the connection's dialect; the other one is not loaded for it."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert

        return insert(table)
    from sqlalchemy.dialects.sqlite import insert as insert_into_sqlite

    return insert_into_sqlite(table)


def _prepare_sqlite(driver_connection: Any, record: object) -> None:
    cursor = driver_connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", f"busy_timeout={BUSY_SECONDS * 1000}"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    immediate = connection.get_execution_options().get("frost_immediate", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

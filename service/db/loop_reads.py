"""Short reads on the event loop, without a hop to a worker thread.

A function that runs here opens its snapshot with `Database.read`, as in a thread, but may execute only prepared
statements. SQLite answers them in microseconds. On PostgreSQL, a greenlet suspends the function while the server
answers; a snapshot is a single statement there, because a transaction takes two more round trips.

A function that needs anything else, and any error of the database, raise `NotPreparedError`: the caller repeats the
read in a thread, where errors, waits and large results are handled.
"""

import asyncio
import sqlite3
import time
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from sqlalchemy import URL, Engine
from sqlalchemy.exc import SQLAlchemyError

from service.db.origin import POSTGRESQL as ORIGIN
from service.db.origin import Origin
from service.db.prepared import NotPreparedError, PreparedStatements, Reader
from service.db.tables import read_json

if TYPE_CHECKING:
    import asyncpg

T = TypeVar("T")

READER: ContextVar["LoopReader | None"] = ContextVar("frost_loop_reader", default=None)
"""The reader of a function that runs on the event loop."""
MAX_CONNECTIONS = 8
# Longer connects and statements belong to a thread.
STATEMENT_SECONDS = 5.0
MAX_REMEMBERED = 2_000
"""Values between two commits. A resource with many long tags takes some 20 KB."""
# How long all reads run in threads after the server did not answer.
RETRY_SECONDS = 5.0
# Parameters of a PostgreSQL URL with the same meaning for psycopg and asyncpg. With others, reads run in threads.
COMMON_PARAMETERS = frozenset({"host", "port", "sslmode", "sslrootcert", "sslcert", "sslkey", "options"})
# Parameters of psycopg that `STATEMENT_SECONDS` replaces.
IGNORED_PARAMETERS = frozenset(
    {"connect_timeout", "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout"}
)


class LoopReader(Reader):
    """A `Reader` with snapshots."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[None]:
        """Let the statements inside read the same snapshot."""


class LoopReads(Protocol):
    """Runs functions that read the database on the event loop."""

    on_schema_change: Callable[[], None]
    """Called before a read of a SQLite database whose schema has changed; the function then runs in a thread."""

    async def run(self, function: Callable[[], T]) -> T:
        """Run a function with `READER`.

        Raises:
            NotPreparedError: the function must run in a thread.
        """

    def forget(self) -> None:
        """Drop values that were read before, in any thread."""

    async def close(self) -> None: ...


class _SqliteReader(LoopReader):
    def __init__(
        self, connection: sqlite3.Connection, statements: PreparedStatements, on_schema_change: Callable[[], None]
    ) -> None:
        super().__init__(statements)
        self._connection = connection
        self._on_schema_change = on_schema_change
        self._schema_version = self._read_version("schema_version")
        self._is_open = False
        self._data_version = 0
        self._has_version = False
        """Whether `_data_version` is that of the open snapshot."""
        self._memory: dict[Hashable, Any] = {}

    def memory(self) -> dict[Hashable, Any]:
        """Return what was read since the last commit. Other connections make all commits.

        `data_version` changes with each of them, and not within a snapshot.
        """
        if not self._has_version:
            version = self._read_version("data_version")
            if version != self._data_version or len(self._memory) > MAX_REMEMBERED:
                self._require_same_schema()
                self._data_version, self._memory = version, {}
            self._has_version = True
        return self._memory

    def _require_same_schema(self) -> None:
        """Raise NotPreparedError once after a change of the schema, which may have dropped a trigger."""
        version = self._read_version("schema_version")
        if version != self._schema_version:
            self._schema_version = version
            self._on_schema_change()
            raise NotPreparedError

    def _read_version(self, name: Literal["data_version", "schema_version"]) -> int:
        (version,) = self._connection.execute(f"PRAGMA {name}").fetchone()
        return int(version)

    def forget(self) -> None:
        """Drop the memory with the next snapshot."""
        self._data_version = 0

    def fetch(self, text: str, values: list[Any]) -> list[tuple[Any, ...]]:
        return self._connection.execute(text, values).fetchall()

    def snapshot(self) -> AbstractContextManager[None]:
        # A function reads one snapshot from its beginning to its end.
        return nullcontext()

    def run(self, function: Callable[[], T]) -> T:
        """Run a function in the snapshot of this iteration of the event loop.

        The loop receives requests between two iterations, so the snapshot begins after the arrival of each request that
        it serves, and ends before others arrive. It has every change that was answered before one of them was sent.
        """
        if not self._is_open:
            self._connection.execute("BEGIN")
            self._is_open = True
            asyncio.get_running_loop().call_soon(self.end)
        try:
            return function()
        except sqlite3.Error:
            self.end()
            raise

    def end(self) -> None:
        """End the snapshot."""
        if self._is_open:
            self._is_open = self._has_version = False
            with suppress(sqlite3.Error):
                # SQLite may have rolled back after an error.
                self._connection.rollback()


class SqliteLoopReads:
    """Reads on one connection, which never waits for a lock."""

    def __init__(self, engine: Engine) -> None:
        self.on_schema_change: Callable[[], None] = lambda: None
        self._engine = engine
        self._statements = PreparedStatements(engine.dialect)
        self._connection: Any = None
        self._reader: _SqliteReader | None = None

    async def run(self, function: Callable[[], T]) -> T:
        if self._reader is None:
            try:
                self._keep(*await asyncio.to_thread(self._connect))
            except (sqlite3.Error, SQLAlchemyError) as error:
                raise NotPreparedError from error
        reader = self._reader
        assert reader is not None
        token = READER.set(reader)
        try:
            return reader.run(function)
        except sqlite3.Error as error:
            raise NotPreparedError from error
        finally:
            READER.reset(token)

    def forget(self) -> None:
        if self._reader is not None:
            self._reader.forget()

    def _keep(self, connection: Any, reader: _SqliteReader) -> None:
        """Keep the connection of the first read. Parallel first reads open several."""
        if self._reader is None:
            self._connection, self._reader = connection, reader
        else:
            # The pool must not get a connection without a wait for locks.
            connection.invalidate()

    def _connect(self) -> tuple[Any, _SqliteReader]:
        connection: Any = self._engine.raw_connection()
        driver: sqlite3.Connection = connection.driver_connection
        try:
            driver.execute("PRAGMA busy_timeout=0")
        except sqlite3.Error:
            connection.invalidate()
            raise
        return connection, _SqliteReader(driver, self._statements, lambda: self.on_schema_change())

    async def close(self) -> None:
        if self._connection is not None:
            if self._reader is not None:
                self._reader.end()
            self._connection.invalidate()
            self._connection = self._reader = None


class _KeptSnapshot(dict[Hashable, Any]):
    """Values of one snapshot."""

    def update(self, *_: Any, **__: Any) -> None:
        # They would be of a later snapshot.
        raise NotPreparedError


class _PostgresqlReader(LoopReader):
    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]", statements: PreparedStatements) -> None:
        super().__init__(statements)
        self.connection = connection
        self._kept: _KeptSnapshot | None = None
        self._left: int | None = None
        """Statements that the snapshot may still execute; None outside of snapshots."""

    def fetch(self, text: str, values: list[Any]) -> Any:
        from sqlalchemy.util import await_

        if self._left is not None:
            if not self._left:
                raise NotPreparedError
            self._left -= 1
        return await_(self.connection.fetch(text, *values))

    def memory(self) -> dict[Hashable, Any] | None:
        return self._kept

    def keep(self, read: Callable[[], Mapping[Hashable, Any]]) -> None:
        self._kept = _KeptSnapshot(read())

    def run(self, function: Callable[[], T]) -> T:
        try:
            return function()
        finally:
            self._kept = None

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        self._left = 1
        try:
            yield
        finally:
            self._left = None


class PostgresqlLoopReads:
    """Reads on up to `MAX_CONNECTIONS` connections of asyncpg.

    Args:
        url: of psycopg, with the defaults of `Database`.
        application: the `application_name` of the connections.
        origin: told of each new connection.
    """

    def __init__(self, url: URL, application: str, origin: Origin) -> None:
        self.on_schema_change: Callable[[], None] = lambda: None
        self._url, self._application, self._origin = url, application, origin
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle: list[_PostgresqlReader] = []
        self._slots = asyncio.Semaphore(MAX_CONNECTIONS)
        self._retry_at = float("-inf") if set(url.query) <= COMMON_PARAMETERS | IGNORED_PARAMETERS else float("inf")

    async def run(self, function: Callable[[], T]) -> T:
        import asyncpg
        from sqlalchemy.util import greenlet_spawn

        if time.monotonic() < self._retry_at:
            raise NotPreparedError
        self._use_running_loop()
        async with self._slots:
            if time.monotonic() < self._retry_at:
                raise NotPreparedError
            try:
                reader = self._idle.pop() if self._idle else await self._connect()
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                self._retry_at = time.monotonic() + RETRY_SECONDS
                raise NotPreparedError from error
            token = READER.set(reader)
            try:
                return await greenlet_spawn(reader.run, function)
            except asyncpg.PostgresError as error:
                raise NotPreparedError from error
            except (OSError, asyncpg.InterfaceError) as error:
                reader.connection.terminate()
                self._retry_at = time.monotonic() + RETRY_SECONDS
                raise NotPreparedError from error
            except asyncio.CancelledError:
                # Its statement may still run.
                reader.connection.terminate()
                raise
            finally:
                READER.reset(token)
                if not reader.connection.is_closed() and asyncio.get_running_loop() is self._loop:
                    self._idle.append(reader)

    def forget(self) -> None:
        """Do nothing: values are kept only within a request."""

    def _use_running_loop(self) -> None:
        """Drop the connections of another event loop, as an application without a server may have several."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._slots = loop, asyncio.Semaphore(MAX_CONNECTIONS)
            while self._idle:
                with suppress(RuntimeError):
                    self._idle.pop().connection.terminate()

    async def _connect(self) -> _PostgresqlReader:
        import asyncpg

        statements = self._statements
        query = {name: value for name, value in self._url.query.items() if name in COMMON_PARAMETERS}
        connection = await asyncpg.connect(
            self._url.set(drivername="postgresql", query=query).render_as_string(hide_password=False),
            timeout=STATEMENT_SECONDS,
            command_timeout=STATEMENT_SECONDS,
            server_settings={"application_name": self._application},
        )
        try:
            for name in ("json", "jsonb"):
                await connection.set_type_codec(name, schema="pg_catalog", encoder=str, decoder=read_json)
            if self._origin.is_known:
                try:
                    self._origin.observe(tuple(await connection.fetchrow(ORIGIN) or ()))
                except (asyncpg.SyntaxOrAccessError, asyncpg.FeatureNotSupportedError) as error:
                    self._origin.give_up(error)
        except BaseException:
            connection.terminate()
            raise
        return _PostgresqlReader(connection, statements)

    @cached_property
    def _statements(self) -> PreparedStatements:
        # Not at the start, which imports no driver that it does not need.
        from sqlalchemy.dialects.postgresql import asyncpg as dialects

        return PreparedStatements(dialects.dialect())  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        while self._idle:
            self._idle.pop().connection.terminate()

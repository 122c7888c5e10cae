"""Executes statements that are compiled once.

SQLAlchemy looks up the text of a statement by its structure, and builds a result for every use. That takes several
times as long as SQLite needs for a row. A statement that is built once, at import, is compiled once for each dialect
here. Any other statement goes through SQLAlchemy (`PreparedConnection`) or is refused (`Reader`).
"""

from abc import ABC, abstractmethod
from collections import namedtuple
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import CompoundSelect, Connection, Delete, Dialect, Engine, Insert, Select, Update
from sqlalchemy.pool import PoolProxiedConnection
from sqlalchemy.sql.dml import ReturningInsert, ReturningUpdate

Statement = Select[*tuple[Any, ...]] | CompoundSelect[Any] | Insert | Update | Delete
S = TypeVar("S", Select[Any], CompoundSelect[Any], Insert, Update, Delete, ReturningInsert[Any], ReturningUpdate[Any])
Decoder = Callable[[Any], Any]
Parameters = Mapping[str, Any]
_OPTION = "frost_prepared"
_REQUIRED = object()
"""In place of the default of a parameter that has none."""


class NotPreparedError(Exception):
    """A `Reader` cannot execute a statement."""


def prepared(statement: S) -> S:
    """Mark a statement that is built once and has no parameters of variable length."""
    return statement.execution_options(**{_OPTION: True})


class PreparedStatement:
    """The text, parameters and row type of a statement in a dialect.

    Raises:
        ValueError: SQLAlchemy would compute a default of a column, or expand a list of values.
    """

    def __init__(self, statement: Statement, dialect: Dialect) -> None:
        compiled: Any = statement.compile(dialect=dialect)
        if compiled.insert_prefetch or compiled.update_prefetch or compiled.post_compile_params:
            raise ValueError(f"cannot be prepared, because of a computed default or a list: {statement}")
        self.text = str(compiled)
        self._by_position = compiled.positional
        self._parameters = [
            (
                name,
                bind.key,
                _REQUIRED if bind.required else bind.effective_value,
                bind.type.dialect_impl(dialect).bind_processor(dialect),
            )
            for name in (compiled.positiontup if compiled.positional else compiled.binds)
            for bind in (compiled.binds[name],)
        ]
        columns = compiled._result_columns
        self.decoders: list[tuple[int, Decoder]] = [
            (index, decoder)
            for index, column in enumerate(columns)
            if (decoder := column.type.dialect_impl(dialect).result_processor(dialect, None)) is not None
        ]
        names: list[str] = [column.keyname for column in columns]
        row_type: Any = namedtuple("Row", names, rename=True)  # type: ignore[misc]
        self._make = row_type._make

    def arguments(self, parameters: Parameters) -> Any:
        """Return the values of the parameters as the driver expects them: a list, or a dictionary.

        Raises:
            KeyError: a parameter is missing.
        """
        if self._by_position:
            return [self._value(parameters, key, default, process) for _, key, default, process in self._parameters]
        return {
            name: self._value(parameters, key, default, process) for name, key, default, process in self._parameters
        }

    @staticmethod
    def _value(parameters: Parameters, key: str, default: Any, process: Decoder | None) -> Any:
        value = parameters[key] if default is _REQUIRED or key in parameters else default
        return value if process is None else process(value)

    def rows(self, rows: Iterable[Sequence[Any]]) -> list[Any]:
        """Return rows of the driver as named tuples of decoded values."""
        if not self.decoders:
            return [self._make(row) for row in rows]
        decoded = []
        for row in rows:
            values = list(row)
            for index, decode in self.decoders:
                values[index] = decode(values[index])
            decoded.append(self._make(values))
        return decoded


class Result:
    """Fetched rows, with the methods of SQLAlchemy's `Result` that queries use."""

    __slots__ = ("_rows", "rowcount")

    def __init__(self, rows: list[Any], rowcount: int = -1) -> None:
        self._rows = rows
        self.rowcount = rowcount
        """The number of changed rows; -1 for a SELECT."""

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def all(self) -> list[Any]:
        return self._rows

    def first(self) -> Any:
        return self._rows[0] if self._rows else None

    def one_or_none(self) -> Any:
        """Raises ValueError for several rows."""
        if len(self._rows) > 1:
            raise ValueError("more than one row")
        return self.first()

    def one(self) -> Any:
        """Raises ValueError without exactly one row."""
        if len(self._rows) != 1:
            raise ValueError(f"{len(self._rows)} rows instead of one")
        return self._rows[0]

    def scalar(self) -> Any:
        return self._rows[0][0] if self._rows else None

    def scalars(self) -> "Result":
        return Result([row[0] for row in self._rows])


class PreparedStatements:
    """The prepared statements of a dialect, by identity."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        # Keeps the statements, so that their identities stay unique.
        self._by_id: dict[int, tuple[Any, PreparedStatement]] = {}

    def find(self, statement: Any) -> PreparedStatement | None:
        """Return a compiled statement; None for a statement without `prepared`."""
        entry = self._by_id.get(id(statement))
        if entry is None:
            options = getattr(statement, "get_execution_options", None)
            if options is None or not options().get(_OPTION):
                return None
            entry = self._by_id[id(statement)] = (statement, PreparedStatement(statement, self.dialect))
        return entry[1]


class Reader(ABC):
    """The part of SQLAlchemy's `Connection` that queries use, for prepared statements."""

    def __init__(self, statements: PreparedStatements) -> None:
        self.dialect = statements.dialect
        self._statements = statements

    @abstractmethod
    def fetch(self, text: str, values: list[Any]) -> Iterable[Sequence[Any]]:
        """Execute a statement; return all rows."""

    def memory(self) -> dict[Hashable, Any] | None:
        """Return the cache of values read since the last commit of any connection. The caller adds to it.

        None if the database does not report commits, unless the values of a snapshot are kept.
        """
        return None

    def keep(self, read: Callable[[], Mapping[Hashable, Any]]) -> None:
        """Let the rest of the function use the values of one statement, if it cannot read all in one snapshot.

        Other values can then not be added to the memory.
        """
        return

    def execute(self, statement: Any, parameters: Parameters | None = None) -> Result:
        """Raises NotPreparedError for a statement without `prepared`."""
        ready = self._statements.find(statement)
        if ready is None:
            raise NotPreparedError
        return Result(ready.rows(self.fetch(ready.text, ready.arguments(parameters or {}))))

    def scalar(self, statement: Any, parameters: Parameters | None = None) -> Any:
        return self.execute(statement, parameters).scalar()

    def scalars(self, statement: Any, parameters: Parameters | None = None) -> Result:
        return self.execute(statement, parameters).scalars()


class PreparedConnection(Connection):
    """A connection that executes prepared statements with the driver, in an open transaction."""

    def __init__(
        self, engine: Engine, statements: PreparedStatements, connection: PoolProxiedConnection | None = None
    ) -> None:
        super().__init__(engine, connection)
        self._statements = statements

    def execute(self, statement: Any, parameters: Any = None, *, execution_options: Any = None) -> Any:
        ready = self._statements.find(statement)
        if ready is None or not self.in_transaction():
            return super().execute(statement, parameters, execution_options=execution_options)
        cursor: Any = None
        if isinstance(parameters, list) and len(parameters) == 1:
            # For several rows, psycopg waits three times, to enter and to leave its pipeline mode.
            parameters = parameters[0]
        is_many = isinstance(parameters, list)
        arguments: Any = (
            [ready.arguments(each) for each in parameters] if is_many else ready.arguments(parameters or {})
        )
        try:
            cursor = self.connection.cursor()
            for listener in self.engine.dispatch.before_cursor_execute:
                listener(self, cursor, ready.text, arguments, None, is_many)
            (cursor.executemany if is_many else cursor.execute)(ready.text, arguments)
            return Result(ready.rows(cursor.fetchall()) if cursor.description else [], cursor.rowcount)
        except self.dialect.loaded_dbapi.Error as error:
            # As SQLAlchemy does: it converts the error, calls listeners, and gives up a lost connection.
            self._handle_dbapi_exception(error, ready.text, None, cursor, None)
        finally:
            if cursor is not None:
                cursor.close()

    def scalar(self, statement: Any, parameters: Any = None, *, execution_options: Any = None) -> Any:
        return self.execute(statement, parameters, execution_options=execution_options).scalar()

    def scalars(self, statement: Any, parameters: Any = None, *, execution_options: Any = None) -> Any:
        return self.execute(statement, parameters, execution_options=execution_options).scalars()

"""All tables of a PostgreSQL database as files, and back: PostgreSQL's own COPY within one transaction.

Not pg_dump: it has to be there, and of the server's version or newer. This way a backup is one snapshot, and a restore
one transaction, that happened or did not.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, inspect

from service.db import migrate
from service.db.tables import metadata

PIECE = 1024 * 1024


def write_out(connection: Connection, folder: Path) -> dict[str, list[str]]:
    """Write each table to a file of its name; the columns of each, as they are in the files.

    `connection` must be one snapshot (`Database.read`).
    """
    _take_time(connection)
    inspector = inspect(connection)
    there = set(inspector.get_table_names())
    columns = {
        table.name: [str(column["name"]) for column in inspector.get_columns(table.name)]
        for table in metadata.sorted_tables
        if table.name in there
    }
    for name, names in columns.items():
        words = f"COPY {_listed(name, names)} TO STDOUT"
        with (folder / name).open("wb") as out, _cursor(connection) as cursor, cursor.copy(words) as copy:
            for piece in copy:
                out.write(piece)
    return columns


def read_back(connection: Connection, folder: Path, columns: Mapping[str, Sequence[str]], revision: str) -> None:
    """Replace everything by what the files hold, at the schema they were written with.

    Raises:
        ValueError: they name a table that this schema has not.
    """
    _take_time(connection)
    inspector = inspect(connection)
    for name in [*(table.name for table in metadata.sorted_tables), "alembic_version"]:
        if inspector.has_table(name):
            connection.exec_driver_sql(f'DROP TABLE "{name}" CASCADE')
    migrate.create(connection, revision)
    known = set(inspect(connection).get_table_names())
    for table in metadata.sorted_tables:
        if table.name not in columns:
            continue
        if table.name not in known:
            raise ValueError(f"revision {revision} has no table {table.name}")
        words = f"COPY {_listed(table.name, columns[table.name])} FROM STDIN"
        with (folder / table.name).open("rb") as file, _cursor(connection) as cursor, cursor.copy(words) as copy:
            while piece := file.read(PIECE):
                copy.write(piece)
    connection.exec_driver_sql(
        "SELECT setval(pg_get_serial_sequence('audit_log', 'id'), coalesce(max(id), 0) + 1, false) FROM audit_log"
    )


def _take_time(connection: Connection) -> None:
    """It takes as long as it takes."""
    for bound in ("statement_timeout", "idle_in_transaction_session_timeout"):
        connection.exec_driver_sql(f"SET LOCAL {bound} = 0")


def _cursor(connection: Connection) -> Any:
    return connection.connection.cursor()


def _listed(name: str, columns: Sequence[str]) -> str:
    return f'"{name}" ({", ".join(f"{chr(34)}{column}{chr(34)}" for column in columns)})'

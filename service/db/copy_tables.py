"""Export and import of all PostgreSQL tables with COPY. Unlike pg_dump, it needs no client of the server's version."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, inspect

from service.db import dialect, migrate
from service.db.tables import metadata

# Since migration 0019. `ENABLE TRIGGER USER` would enable them as other triggers.
_ALWAYS = "SELECT tgname FROM pg_trigger WHERE tgrelid = %s::text::regclass AND NOT tgisinternal AND tgenabled = 'A'"
CHUNK_BYTES = 1024 * 1024


def export_tables(connection: Connection, folder: Path) -> dict[str, list[str]]:
    """Write each table to a file of the same name.

    Args:
        connection: a snapshot (`Database.read`).

    Returns:
        The columns of each table, in the order of its file.
    """
    _disable_timeouts(connection)
    inspector = inspect(connection)
    existing = set(inspector.get_table_names())
    columns = {
        table.name: [str(column["name"]) for column in inspector.get_columns(table.name)]
        for table in metadata.sorted_tables
        if table.name in existing
    }
    for name, names in columns.items():
        statement = f"COPY {_quote(name, names)} TO STDOUT"
        with (folder / name).open("wb") as out, _cursor(connection) as cursor, cursor.copy(statement) as copy:
            for chunk in copy:
                out.write(chunk)
    return columns


def import_tables(connection: Connection, folder: Path, columns: Mapping[str, Sequence[str]], revision: str) -> None:
    """Replace all tables with those of the files, in the schema of their revision.

    Raises:
        ValueError: the schema lacks a table of the files.
    """
    _disable_timeouts(connection)
    inspector = inspect(connection)
    for name in [*(table.name for table in metadata.sorted_tables), "alembic_version"]:
        if inspector.has_table(name):
            connection.exec_driver_sql(f'DROP TABLE "{name}" CASCADE')
    migrate.create(connection, revision)
    existing = set(inspect(connection).get_table_names())
    for table in metadata.sorted_tables:
        if table.name not in columns:
            continue
        if table.name not in existing:
            raise ValueError(f"revision {revision} has no table {table.name}")
        # The revisions are restored like the other tables.
        always = [row[0] for row in connection.exec_driver_sql(_ALWAYS, (table.name,))]
        connection.exec_driver_sql(f'ALTER TABLE "{table.name}" DISABLE TRIGGER USER')
        statement = f"COPY {_quote(table.name, columns[table.name])} FROM STDIN"
        with (folder / table.name).open("rb") as file, _cursor(connection) as cursor, cursor.copy(statement) as copy:
            while chunk := file.read(CHUNK_BYTES):
                copy.write(chunk)
        connection.exec_driver_sql(f'ALTER TABLE "{table.name}" ENABLE TRIGGER USER')
        for trigger in always:
            connection.exec_driver_sql(f'ALTER TABLE "{table.name}" ENABLE ALWAYS TRIGGER "{trigger}"')
    connection.exec_driver_sql(
        "SELECT setval(pg_get_serial_sequence('audit_log', 'id'), coalesce(max(id), 0) + 1, false) FROM audit_log"
    )


def _disable_timeouts(connection: Connection) -> None:
    dialect.set_timeout(connection, "statement_timeout", 0)
    dialect.set_timeout(connection, "idle_in_transaction_session_timeout", 0)


def _cursor(connection: Connection) -> Any:
    return connection.connection.cursor()


def _quote(table: str, columns: Sequence[str]) -> str:
    names = ", ".join(f'"{column}"' for column in columns)
    return f'"{table}" ({names})'

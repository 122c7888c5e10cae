"""The ids of PostgreSQL advisory locks. Each purpose has its own; nothing else on the server may use them.

Statistics of PostgreSQL's planner.
"""

from sqlalchemy import Connection, inspect

MIGRATION = 0x66726F7374
"""Held while a database is migrated. Earlier releases hold it as well."""
RECOVERY = 0x66726F7375
"""Held by the process that takes over the operations of dead ones."""


def analyze(connection: Connection) -> None:
    """Update the planner's statistics of all tables. Call it after a bulk load, in the same transaction.

    Without them it reads a whole kind of resources for each portion of an apply, until autovacuum has been there.
    """
    if connection.dialect.name == "postgresql":
        for name in inspect(connection).get_table_names():
            connection.exec_driver_sql(f'ANALYZE "{name}"')

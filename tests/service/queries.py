"""Statements that tests run on a database beside the platform, each in a transaction of its own."""

from typing import Any

from sqlalchemy import Executable, ScalarSelect, select

from service.db.engine import Database
from service.db.tables import users


def user_id(email: str) -> ScalarSelect[str]:
    """Return the id of a person, as a part of another statement."""
    return select(users.c.id).where(users.c.email == email).scalar_subquery()


def fetch(database: Database, query: Executable) -> list[Any]:
    with database.read() as connection:
        return list(connection.execute(query))


def fetch_scalars(database: Database, query: Executable) -> list[Any]:
    """Return the first column of the rows of a query."""
    return [row[0] for row in fetch(database, query)]


def fetch_row(database: Database, query: Executable) -> dict[str, Any]:
    [row] = fetch(database, query)
    return dict(row._mapping)


def execute(database: Database, *statements: Executable) -> None:
    with database.write() as connection:
        for statement in statements:
            connection.execute(statement)

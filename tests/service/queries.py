"""Statements that tests run on a database beside the platform, each in a transaction of its own."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Executable, ScalarSelect, event, select

from service.db.engine import Database
from service.db.tables import users


@contextmanager
def listening(database: Database, notice: Callable[..., object], name: str = "before_cursor_execute") -> Iterator[None]:
    """Call a function at each event of the database's engine while the context is open."""
    event.listen(database.engine, name, notice)
    try:
        yield
    finally:
        event.remove(database.engine, name, notice)


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

"""The operation catalogue in the database."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, select

from service.db.tables import catalogue_operations


def operations(connection: Connection) -> Sequence[Row[Any]]:
    """Every operation of the catalogue, in the order they were added: `name`, `access_level`, `description`."""
    return connection.execute(select(catalogue_operations).order_by(catalogue_operations.c.position)).all()

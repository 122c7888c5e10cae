"""What the tables of every area are made of: the kinds of their columns, and where all of them are listed.

Instants are stored as whole microseconds since 1970 in UTC (`Instant`), so that they compare and
index alike on both databases.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import JSON, BigInteger, Dialect, Integer, MetaData, TypeDecorator
from sqlalchemy.types import TypeEngine

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

MICROSECOND = timedelta(microseconds=1)


class Instant(TypeDecorator[datetime]):
    """An aware UTC datetime, stored as microseconds since 1970."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else (value - EPOCH) // MICROSECOND

    def process_result_value(self, value: Any | None, dialect: Dialect) -> datetime | None:
        return None if value is None else EPOCH + timedelta(microseconds=value)


class Document(TypeDecorator[Any]):
    """A JSON value; JSONB on PostgreSQL, whose dialect is loaded only there."""

    impl = JSON
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name != "postgresql":
            return dialect.type_descriptor(JSON())
        from sqlalchemy.dialects.postgresql import JSONB

        return dialect.type_descriptor(JSONB())


# SQLite numbers rows by itself only for a column declared exactly INTEGER.
RowNumber = BigInteger().with_variant(Integer(), "sqlite")

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

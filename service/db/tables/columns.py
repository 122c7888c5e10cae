"""Column types and the metadata of the tables."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from json import JSONDecoder
from typing import Any

from sqlalchemy import JSON, BigInteger, Dialect, Integer, MetaData, TypeDecorator
from sqlalchemy.types import TypeEngine

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

MICROSECOND = timedelta(microseconds=1)


class Instant(TypeDecorator[datetime]):
    """An aware UTC datetime, stored as microseconds since 1970 to compare alike on both databases."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else (value - EPOCH) // MICROSECOND

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], datetime | None]:
        # `process_result_value` would be called through another function, for each value of a list.
        return _read_instant


def _read_instant(value: int | None) -> datetime | None:
    # By position, a timedelta takes half the time.
    return None if value is None else EPOCH + timedelta(0, 0, value)


_decode_json = JSONDecoder().raw_decode


def read_json(text: str | bytes) -> Any:
    """Decode a JSON value from the database, without the checks of `json.loads` around it, in a fifth of the time."""
    text = text if isinstance(text, str) else text.decode()
    value, end = _decode_json(text)
    return value if end == len(text) else json.loads(text)


class Document(TypeDecorator[Any]):
    """A JSON value; JSONB on PostgreSQL."""

    impl = JSON
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name != "postgresql":
            return dialect.type_descriptor(JSON())
        from sqlalchemy.dialects.postgresql import JSONB

        return dialect.type_descriptor(JSONB())


# SQLite generates ids only for a column declared exactly INTEGER.
RowNumber = BigInteger().with_variant(Integer(), "sqlite")

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

"""Shared statements: row locks (ignored by SQLite, which has a single writer), keyset pages, ids in chunks.

And facts about an installation, by name: its seed and its version of the catalogue.
"""

import json
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

from sqlalchemy import (
    BindParameter,
    Column,
    ColumnElement,
    Connection,
    Delete,
    Insert,
    Select,
    Table,
    bindparam,
    delete,
    insert,
    literal,
    select,
    tuple_,
    update,
)
from sqlalchemy.sql.dml import ReturningInsert, ReturningUpdate

from service.db.engine import Record
from service.db.prepared import prepared
from service.db.tables import platform_state, resources, tenants

CATALOGUE = Path(__file__).parents[1] / "catalogue" / "data" / "catalogue.csv"
MAX_PARAMETERS = 500
"""Maximum number of ids in a statement; databases limit parameters."""


def chunks(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), MAX_PARAMETERS):
        yield ids[start : start + MAX_PARAMETERS]


def lock_tenant(connection: Connection, tenant_id: str) -> None:
    """Serialize the use of quotas in a tenant."""
    connection.execute(_LOCKED_TENANT, {"tenant": tenant_id})


KeysetKey = tuple[Any, ...]
"""The values of the columns that a list is ordered by: instants, texts, integers."""


def after_key(columns: Sequence[Column[Any]], key: KeysetKey, *, newest_first: bool = False) -> ColumnElement[bool]:
    """Return the condition for rows after a key in the ascending or (`newest_first`) descending order of the columns.

    Compares whole rows: with a chain of ORs, databases read all rows before the key despite the index.
    """
    row, last = tuple_(*columns), tuple_(*key, types=[column.type for column in columns])
    return row < last if newest_first else row > last


def has_region(connection: Connection, tenant_id: str, region: str) -> bool:
    query = select(resources.c.id).where(resources.c.tenant_id == tenant_id, resources.c.region == region)
    return connection.execute(query.limit(1)).first() is not None


def add_row(connection: Connection, table: Table, values: Mapping[str, Any]) -> None:
    """Insert a row."""
    connection.execute(_insert(table, tuple(values)), dict(values))


def insert_row(connection: Connection, table: Table, values: Mapping[str, Any]) -> Record:
    """Insert a row; return it with its defaults."""
    return connection.execute(_insert_returning(table, tuple(values)), dict(values)).one()


def update_row(
    connection: Connection, table: Table, key: Mapping[str, Any], values: Mapping[str, Any]
) -> Record | None:
    """Update the row with a key, which may also limit it to a tenant; return the row, None if there is none."""
    parameters = {**values, **{f"key_{name}": value for name, value in key.items()}}
    return connection.execute(_update(table, tuple(key), tuple(values)), parameters).one_or_none()


def has_row(connection: Connection, table: Table, values: Mapping[str, Any]) -> bool:
    """Return whether a row has some values."""
    return connection.execute(_exists(table, tuple(values)), dict(values)).first() is not None


def delete_rows(connection: Connection, table: Table, values: Mapping[str, Any]) -> None:
    """Delete the rows that have some values."""
    connection.execute(_delete(table, tuple(values)), dict(values))


def named_parameters(table: Table, columns: Iterable[str]) -> dict[str, BindParameter[Any]]:
    """Return a parameter for each of some columns, with its name and type."""
    return {name: bindparam(name, type_=table.c[name].type) for name in columns}


@lru_cache(maxsize=256)
def _insert(table: Table, columns: tuple[str, ...]) -> Insert:
    return prepared(insert(table).values(named_parameters(table, columns)))


@lru_cache(maxsize=256)
def _insert_returning(table: Table, columns: tuple[str, ...]) -> ReturningInsert[Any]:
    return prepared(insert(table).values(named_parameters(table, columns)).returning(table))


@lru_cache(maxsize=256)
def _exists(table: Table, columns: tuple[str, ...]) -> Select[Any]:
    return prepared(select(literal(1)).select_from(table).where(*_equal(table, columns)).limit(1))


@lru_cache(maxsize=256)
def _delete(table: Table, columns: tuple[str, ...]) -> Delete:
    return prepared(delete(table).where(*_equal(table, columns)))


def _equal(table: Table, columns: tuple[str, ...]) -> list[ColumnElement[bool]]:
    return [table.c[name] == value for name, value in named_parameters(table, columns).items()]


@lru_cache(maxsize=256)
def _update(table: Table, key: tuple[str, ...], columns: tuple[str, ...]) -> ReturningUpdate[Any]:
    conditions = [table.c[name] == bindparam(f"key_{name}", type_=table.c[name].type) for name in key]
    return prepared(update(table).where(*conditions).values(named_parameters(table, columns)).returning(table))


_LOCKED_TENANT = prepared(
    select(tenants.c.id).where(tenants.c.id == bindparam("tenant")).with_for_update(key_share=True)
)

PORTION = 200
"""Rows fetched at once. The garbage collector would visit the rows of a whole list again and again."""


def records(connection: Connection, query: Select[Any]) -> Iterator[Record]:
    """Return the rows of a list as named tuples, to be read before the transaction ends."""
    result = connection.execute(query)
    make = _record_maker(tuple(result.keys()))
    return chain.from_iterable(map(make, rows) for rows in result.partitions(PORTION))


@lru_cache(maxsize=256)
def _record_maker(columns: tuple[str, ...]) -> Callable[[Iterable[Any]], Any]:
    record: Any = namedtuple("Record", columns)  # type: ignore[misc]
    make: Callable[[Iterable[Any]], Any] = record._make
    return make


def is_current(connection: Connection) -> bool:
    """Return whether the database has a seed and this version's catalogue."""
    query = select(platform_state.c.name, platform_state.c.value)
    stored = {row.name: row.value for row in connection.execute(query)}
    return "world" in stored and stored.get("catalogue") == catalogue_digest()


def catalogue_digest() -> str:
    """Return the SHA-256 digest of the catalogue file."""
    return sha256(CATALOGUE.read_bytes()).hexdigest()


def get_value(connection: Connection, name: str) -> str | None:
    """Return a fact: `world` (name of the seed), `loaded_at` (RFC 3339), `first_person` (e-mail address), …"""
    return connection.scalar(select(platform_state.c.value).where(platform_state.c.name == name))


def failing_listings(connection: Connection) -> frozenset[tuple[str, str]]:
    """Return the pairs (tenant id, resource kind) that cannot be listed, so that their usage is unknown."""
    stored = json.loads(get_value(connection, "failing_listings") or "[]")
    return frozenset((entry["tenantId"], entry["kind"]) for entry in stored)

"""Statements that several features share: row locks, keyset pages, ids in chunks."""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, select, tuple_

from service.db.tables import organizations, resources, tenants

MAX_PARAMETERS = 500
"""Ids in one statement. Databases limit the number of parameters."""


def chunks(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield slices of at most `MAX_PARAMETERS` ids."""
    for start in range(0, len(ids), MAX_PARAMETERS):
        yield ids[start : start + MAX_PARAMETERS]


def lock_tenant(connection: Connection, tenant_id: str, *, shared: bool = False) -> None:
    """Serialize changes of access in a tenant. SQLite has one writer anyway.

    Args:
        shared: for a change that depends on the access in the tenant but does not change it. Several may hold the lock.
    """
    query = select(tenants.c.id).where(tenants.c.id == tenant_id)
    connection.execute(query.with_for_update(read=shared, key_share=not shared))


def lock_organization(connection: Connection, organization_id: str) -> None:
    """Serialize the choice of tenant slugs in an organization. SQLite has one writer anyway."""
    connection.execute(select(organizations.c.id).where(organizations.c.id == organization_id).with_for_update())


KeysetKey = tuple[Any, ...]
"""The values of a row that the list is ordered by: instants, texts and whole numbers."""


def after_key(columns: Sequence[Column[Any]], key: KeysetKey, *, newest_first: bool = False) -> ColumnElement[bool]:
    """Return the condition for rows after a key, in ascending or (`newest_first`) descending order of the columns.

    It compares whole rows, because for a chain of ORs a database reads every row before the key despite the index.
    """
    row, last = tuple_(*columns), tuple_(*key, types=[column.type for column in columns])
    return row < last if newest_first else row > last


def has_region(connection: Connection, tenant_id: str, region: str) -> bool:
    """Return whether the tenant has a resource in a region."""
    query = select(resources.c.id).where(resources.c.tenant_id == tenant_id, resources.c.region == region)
    return connection.execute(query.limit(1)).first() is not None

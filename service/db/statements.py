"""Statements that several features share: locks of a tenant and an organization, and pages by keyset."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, select, tuple_

from service.db.tables import organizations, resources, tenants


def lock_tenant(connection: Connection, tenant_id: str, *, shared: bool = False) -> None:
    """Let one change of access in a tenant happen at a time (SQLite has one writer anyway).

    `shared` is for what rests on the access there and changes nothing of it: many of those at a time, beside no change.
    """
    query = select(tenants.c.id).where(tenants.c.id == tenant_id)
    connection.execute(query.with_for_update(read=shared, key_share=not shared))


def lock_organization(connection: Connection, organization_id: str) -> None:
    """Let one creation at a time choose a slug in an organization (SQLite has one writer anyway)."""
    connection.execute(select(organizations.c.id).where(organizations.c.id == organization_id).with_for_update())


KeysetKey = tuple[Any, ...]
"""The values of a row that the list is ordered by: instants, texts and whole numbers."""


def after_key(columns: Sequence[Column[Any]], key: KeysetKey, *, newest_first: bool = False) -> ColumnElement[bool]:
    """The rows that come after a key in ascending order of the columns; `newest_first`: in descending order.

    Compared as one row: for a chain of ORs a database reads every row before the key too, index or not.
    """
    row, last = tuple_(*columns), tuple_(*key, types=[column.type for column in columns])
    return row < last if newest_first else row > last


def has_region(connection: Connection, tenant_id: str, region: str) -> bool:
    """Return whether a resource of the tenant is in a region."""
    query = select(resources.c.id).where(resources.c.tenant_id == tenant_id, resources.c.region == region)
    return connection.execute(query.limit(1)).first() is not None

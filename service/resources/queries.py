"""Queries for resources of a tenant."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, or_, select

from service.db.engine import Record
from service.db.prepared import prepared
from service.db.statements import KeysetKey, after_key, delete_rows, insert_row, records, update_row
from service.db.tables import resources

_ORDER = (resources.c.created_at, resources.c.id)
_SELECT_ONE = prepared(
    select(resources).where(
        resources.c.tenant_id == bindparam("tenant"),
        resources.c.kind == bindparam("of_kind"),
        resources.c.id == bindparam("one"),
    )
)
_SELECT_FOR_UPDATE = _SELECT_ONE.with_for_update()


def find(connection: Connection, tenant_id: str, kind: str, resource_id: str, *, lock: bool = False) -> Record | None:
    """Return a resource; `lock` locks its row."""
    parameters = {"tenant": tenant_id, "of_kind": kind, "one": resource_id}
    return connection.execute(_SELECT_FOR_UPDATE if lock else _SELECT_ONE, parameters).one_or_none()


def find_of_kinds(connection: Connection, tenant_id: str, kinds: Sequence[str], resource_id: str) -> Record | None:
    return connection.execute(
        select(resources).where(
            resources.c.tenant_id == tenant_id, resources.c.kind.in_(kinds), resources.c.id == resource_id
        )
    ).one_or_none()


def page(
    connection: Connection,
    tenant_id: str,
    kind: str,
    after: KeysetKey | None,
    limit: int,
    regions: Iterable[str] | None = None,
    ids: Iterable[str] | None = None,
) -> Sequence[Record]:
    """Return up to `limit` + 1 resources of a kind in the order of creation.

    Args:
        regions: Only resources in these regions.
        ids: Only resources with these ids; `*` is any text. SQLite ignores case, so it may return more.
    """
    query = select(resources).where(resources.c.tenant_id == tenant_id, resources.c.kind == kind)
    if regions is not None:
        query = query.where(resources.c.region.in_(sorted(regions)))
    if ids is not None:
        ids = sorted(ids)
        literals = resources.c.id.in_([id_ for id_ in ids if "*" not in id_])
        query = query.where(or_(literals, *(resources.c.id.like(_like(id_), escape="\\") for id_ in ids if "*" in id_)))
    if after is not None:
        query = query.where(after_key(_ORDER, after))
    return list(records(connection, query.order_by(*_ORDER).limit(limit + 1)))


def _like(pattern: str) -> str:
    return re.sub(r"[\\%_]", r"\\\g<0>", pattern).replace("*", "%")


def add(connection: Connection, values: dict[str, Any]) -> Record:
    """Insert a resource; return its row."""
    return insert_row(connection, resources, values)


def change(connection: Connection, tenant_id: str, resource_id: str, values: dict[str, Any]) -> Record | None:
    """Update a resource; return its row."""
    return update_row(connection, resources, {"tenant_id": tenant_id, "id": resource_id}, values)


def remove(connection: Connection, tenant_id: str, resource_id: str) -> None:
    delete_rows(connection, resources, {"tenant_id": tenant_id, "id": resource_id})

"""The tenants that a caller may enter."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, select

from service.db.tables import memberships, tenants
from service.principal import Caller
from service.principals.grants import reaching


def entitled(caller: Caller) -> ColumnElement[bool]:
    """The tenants a caller may enter, over `tenants` joined with `memberships` of the caller's person.

    A key enters its one tenant, and only while its creator may.
    """
    condition = and_(memberships.c.user_id == caller.user_id, reaching())
    return and_(condition, tenants.c.id == caller.tenant_id) if caller.tenant_id else condition


def still_entitled(
    connection: Connection, user_ids: Collection[str], tenant_ids: Collection[str]
) -> frozenset[tuple[str, str]]:
    """(person, tenant) for each of these tenants that each of these people may enter now."""
    rows = connection.execute(
        select(memberships.c.user_id, tenants.c.id)
        .join(memberships, memberships.c.organization_id == tenants.c.organization_id)
        .where(memberships.c.user_id.in_(user_ids), tenants.c.id.in_(tenant_ids), reaching())
    )
    return frozenset((user_id, tenant_id) for user_id, tenant_id in rows)


def enterable(caller: Caller) -> Select[Any]:
    """The ids of the tenants a caller may enter."""
    if caller.kind == "workload":
        return select(tenants.c.id).where(tenants.c.id == caller.tenant_id)
    return (
        select(tenants.c.id)
        .join(memberships, memberships.c.organization_id == tenants.c.organization_id)
        .where(entitled(caller))
    )

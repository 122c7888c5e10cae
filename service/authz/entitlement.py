"""The tenants that a caller may enter."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, select

from service.db.tables import memberships, tenants
from service.principal import Principal
from service.principals.grants import membership_covers_tenant


def may_enter(caller: Principal) -> ColumnElement[bool]:
    """The tenants a caller may enter, over `tenants` joined with `memberships` of the caller's person.

    A key enters its one tenant, and only while its creator may.
    """
    condition = and_(memberships.c.user_id == caller.user_id, membership_covers_tenant())
    return and_(condition, tenants.c.id == caller.tenant_id) if caller.tenant_id else condition


def still_entitled(
    connection: Connection, user_ids: Collection[str], tenant_ids: Collection[str]
) -> frozenset[tuple[str, str]]:
    """(person, tenant) for each of these tenants that each of these people may enter now."""
    rows = connection.execute(
        select(memberships.c.user_id, tenants.c.id)
        .join(memberships, memberships.c.organization_id == tenants.c.organization_id)
        .where(memberships.c.user_id.in_(user_ids), tenants.c.id.in_(tenant_ids), membership_covers_tenant())
    )
    return frozenset((user_id, tenant_id) for user_id, tenant_id in rows)


def enterable_tenant_ids(caller: Principal) -> Select[Any]:
    """The ids of the tenants a caller may enter."""
    if caller.kind == "workload":
        return select(tenants.c.id).where(tenants.c.id == caller.tenant_id)
    return (
        select(tenants.c.id)
        .join(memberships, memberships.c.organization_id == tenants.c.organization_id)
        .where(may_enter(caller))
    )

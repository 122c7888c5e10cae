"""The tenants that a principal may enter."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, select

from service.db.tables import memberships, tenants
from service.principal import Principal
from service.principals.conditions import membership_covers_tenant


def may_enter(principal: Principal) -> ColumnElement[bool]:
    """The tenants a principal may enter, over `tenants` joined with `memberships` of the principal's person.

    A key enters its one tenant, and only while its creator may.
    """
    condition = and_(memberships.c.user_id == principal.user_id, membership_covers_tenant())
    return and_(condition, tenants.c.id == principal.tenant_id) if principal.tenant_id else condition


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


def enterable_tenant_ids(principal: Principal) -> Select[Any]:
    """The ids of the tenants a principal may enter."""
    if principal.kind == "workload":
        return select(tenants.c.id).where(tenants.c.id == principal.tenant_id)
    return (
        select(tenants.c.id)
        .join(memberships, memberships.c.organization_id == tenants.c.organization_id)
        .where(may_enter(principal))
    )

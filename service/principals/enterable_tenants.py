"""SQL conditions for memberships and for the tenants that a principal may enter."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, or_, select

from service.db.tables import membership_tenants, memberships, tenants, users
from service.principal import Principal


def membership_covers_tenant() -> ColumnElement[bool]:
    """Return the condition that a membership covers a tenant: it is unlimited or names the tenant."""
    named = (
        select(membership_tenants.c.tenant_id)
        .where(membership_tenants.c.user_id == memberships.c.user_id, membership_tenants.c.tenant_id == tenants.c.id)
        .exists()
    )
    return or_(memberships.c.limited.is_(False), named)


def entitled_membership() -> ColumnElement[bool]:
    """Return the condition for a membership that entitles an existing person to a tenant."""
    return and_(
        memberships.c.user_id == users.c.id,
        memberships.c.organization_id == tenants.c.organization_id,
        users.c.deleted_at.is_(None),
        membership_covers_tenant(),
    )


def may_enter(principal: Principal) -> ColumnElement[bool]:
    """Return the condition for tenants that a person or key may enter, over `tenants` joined with `memberships`.

    A key may enter its own tenant while its creator may.
    """
    condition = and_(memberships.c.user_id == principal.user_id, membership_covers_tenant())
    return and_(condition, tenants.c.id == principal.tenant_id) if principal.tenant_id else condition


def still_entitled(
    connection: Connection, user_ids: Collection[str], tenant_ids: Collection[str]
) -> frozenset[tuple[str, str]]:
    """Return the pairs (person, tenant) of current entitlements."""
    rows = connection.execute(
        select(memberships.c.user_id, tenants.c.id)
        .join(memberships, memberships.c.organization_id == tenants.c.organization_id)
        .where(memberships.c.user_id.in_(user_ids), tenants.c.id.in_(tenant_ids), membership_covers_tenant())
    )
    return frozenset((user_id, tenant_id) for user_id, tenant_id in rows)


def enterable_tenant_ids(principal: Principal) -> Select[Any]:
    if principal.kind == "workload":
        return select(tenants.c.id).where(tenants.c.id == principal.tenant_id)
    return (
        select(tenants.c.id)
        .join(memberships, memberships.c.organization_id == tenants.c.organization_id)
        .where(may_enter(principal))
    )

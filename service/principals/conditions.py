"""SQL conditions: live credentials, memberships, and the tenants that a principal may enter."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, or_, select

from service.db.tables import api_keys, membership_tenants, memberships, sessions, tenants, users
from service.principal import Principal

# Statements that use one of these conditions over `users` take the instant as the parameter `now`.
LIVE_KEY: ColumnElement[bool] = and_(
    api_keys.c.revoked_at.is_(None), api_keys.c.expires_at > bindparam("now"), users.c.deleted_at.is_(None)
)
OPEN_SESSION: ColumnElement[bool] = and_(sessions.c.ended_at.is_(None), sessions.c.expires_at > bindparam("now"))
LIVE_SESSION: ColumnElement[bool] = and_(OPEN_SESSION, users.c.deleted_at.is_(None))


def membership_covers_tenant() -> ColumnElement[bool]:
    """Return whether a membership covers the tenant of its row: a limited one covers only its named tenants."""
    named = (
        select(membership_tenants.c.tenant_id)
        .where(membership_tenants.c.user_id == memberships.c.user_id, membership_tenants.c.tenant_id == tenants.c.id)
        .exists()
    )
    return or_(memberships.c.limited.is_(False), named)


def entitled_membership() -> ColumnElement[bool]:
    """Return whether a membership entitles an existing person to a tenant, over `tenants`, `users`, `memberships`."""
    return and_(
        memberships.c.user_id == users.c.id,
        memberships.c.organization_id == tenants.c.organization_id,
        users.c.deleted_at.is_(None),
        membership_covers_tenant(),
    )


def may_enter(principal: Principal) -> ColumnElement[bool]:
    """Return the condition for tenants that a person or key may enter, over `tenants` joined with `memberships`.

    A key may enter its one tenant, and only while its creator may.
    """
    condition = and_(memberships.c.user_id == principal.user_id, membership_covers_tenant())
    return and_(condition, tenants.c.id == principal.tenant_id) if principal.tenant_id else condition


def still_entitled(
    connection: Connection, user_ids: Collection[str], tenant_ids: Collection[str]
) -> frozenset[tuple[str, str]]:
    """Return the pairs (person, tenant) of people who are entitled to tenants now."""
    rows = connection.execute(
        select(memberships.c.user_id, tenants.c.id)
        .join(memberships, memberships.c.organization_id == tenants.c.organization_id)
        .where(memberships.c.user_id.in_(user_ids), tenants.c.id.in_(tenant_ids), membership_covers_tenant())
    )
    return frozenset((user_id, tenant_id) for user_id, tenant_id in rows)


def enterable_tenant_ids(principal: Principal) -> Select[Any]:
    """Return a query for the ids of the tenants that a principal may enter."""
    if principal.kind == "workload":
        return select(tenants.c.id).where(tenants.c.id == principal.tenant_id)
    return (
        select(tenants.c.id)
        .join(memberships, memberships.c.organization_id == tenants.c.organization_id)
        .where(may_enter(principal))
    )

"""The SQL conditions that make a credential or a membership count."""

from sqlalchemy import ColumnElement, and_, bindparam, or_, select

from service.db.tables import api_keys, membership_tenants, memberships, sessions, tenants, users

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

"""API keys in the database: what people and screens read of them. Secrets are not among it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from service.clock import wire_time
from service.db.engine import Record
from service.db.tables import api_keys, tenants, users

_KEY = (
    select(
        *(column for column in api_keys.c if column.name != "key_hash"),
        tenants.c.display_name.label("tenant_name"),
        users.c.name.label("creator_name"),
        users.c.email.label("creator_email"),
    )
    .join(tenants, tenants.c.id == api_keys.c.tenant_id)
    .join(users, users.c.id == api_keys.c.user_id)
)


def of_tenant(connection: Connection, tenant_id: str) -> Sequence[Record]:
    """Every key of a tenant, whoever made it, the newest first."""
    query = _KEY.where(api_keys.c.tenant_id == tenant_id)
    return connection.execute(query.order_by(api_keys.c.created_at.desc(), api_keys.c.id)).all()


def one(connection: Connection, tenant_id: str, user_id: str | None, key_id: str) -> Record | None:
    """A key that this person made in this tenant."""
    return connection.execute(
        _KEY.where(api_keys.c.tenant_id == tenant_id, api_keys.c.user_id == user_id, api_keys.c.id == key_id)
    ).one_or_none()


def status(row: Record, at: datetime) -> str:
    """`active`, `revoked` or `expired`; a revoked key stays revoked when its expiry passes. checklist K36, K37"""
    if row.revoked_at is not None:
        return "revoked"
    return "active" if at < row.expires_at else "expired"


def wire(row: Record, at: datetime) -> dict[str, Any]:
    """The key object. contract: API key"""
    return {
        "id": row.id,
        "tenantId": row.tenant_id,
        "tenantName": row.tenant_name,
        "name": row.name,
        "description": row.description,
        "keyPrefix": row.key_prefix,
        "scopes": row.scopes,
        "rateLimit": row.rate_limit,
        "status": status(row, at),
        "createdAt": wire_time(row.created_at),
        "expiresAt": wire_time(row.expires_at),
        "revokedAt": wire_time(row.revoked_at) if row.revoked_at else None,
        "lastUsedAt": wire_time(row.last_used_at) if row.last_used_at else None,
        "creatorId": row.user_id,
        "creatorName": row.creator_name,
        "creatorEmail": row.creator_email,
    }

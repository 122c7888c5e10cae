"""Authenticates API keys."""

import hmac
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection, bindparam, select

from service.authn.secret_format import digest, lookup_prefix
from service.db.tables import api_keys, users
from service.principal import Principal
from service.principals.live_credentials import LIVE_KEY


def find(connection: Connection, secret_key: bytes, secret: str, at: datetime) -> Principal | None:
    """Return the principal of a live key, without a request."""
    key_hash = digest(secret_key, secret)
    # The query excludes invalid keys, so the response time does not reveal the reason.
    row = connection.execute(_KEY, {"prefix": lookup_prefix(secret), "hash": key_hash, "now": at}).one_or_none()
    if row is None or not hmac.compare_digest(key_hash, row.key_hash):
        return None
    return Principal(
        kind="api_key",
        request_id="",
        user_id=row.user_id,
        email=row.email,
        key_id=row.id,
        tenant_id=row.tenant_id,
        scopes=tuple(row.scopes),
        expires_at=row.expires_at,
        rate_limit=row.rate_limit,
        last_used_at=row.last_used_at,
    )


def confirm(connection: Connection, principal: Principal, at: datetime) -> Principal | None:
    """Return the principal of a valid key with its current scopes, None if invalid."""
    scopes = connection.scalar(_SCOPES, {"id": principal.key_id, "now": at})
    return None if scopes is None else replace(principal, scopes=tuple(scopes))


# Built once: building a statement costs as much as running it.
_KEY = (
    select(
        api_keys.c.id,
        api_keys.c.user_id,
        api_keys.c.tenant_id,
        api_keys.c.key_hash,
        api_keys.c.scopes,
        api_keys.c.rate_limit,
        api_keys.c.expires_at,
        api_keys.c.last_used_at,
        users.c.email,
    )
    .join(users, users.c.id == api_keys.c.user_id)
    .where(
        api_keys.c.key_prefix == bindparam("prefix"),
        api_keys.c.key_hash == bindparam("hash"),
        LIVE_KEY,
    )
)
_SCOPES = (
    select(api_keys.c.scopes)
    .join(users, users.c.id == api_keys.c.user_id)
    .where(
        api_keys.c.id == bindparam("id"),
        LIVE_KEY,
    )
)

"""API keys, and tokens of workload identities.

A token of a workload identity is issued in exchange for a service-account token of a cluster. Every request compares a
revision, so removal of the identity and changes of its grants take effect immediately.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import Connection, bindparam, insert, select

from service.authn import secret_format
from service.authn.secret_format import WORKLOAD_TOKEN_PREFIX, digest, lookup_prefix
from service.db.tables import api_keys, users, workload_identities, workload_tokens
from service.digests import are_equal
from service.principal import Principal
from service.principals.live_credentials import LIVE_KEY, workload_has_grant

WORKLOAD_TOKEN_LIFETIME = timedelta(minutes=15)


def find_api_key(connection: Connection, secret_key: bytes, secret: str, at: datetime) -> Principal | None:
    """Return the principal of a live key, without a request."""
    key_hash = digest(secret_key, secret)
    # The query excludes invalid keys, so the response time does not reveal the reason.
    row = connection.execute(_KEY, {"prefix": lookup_prefix(secret), "hash": key_hash, "now": at}).one_or_none()
    if row is None or not are_equal(key_hash, row.key_hash):
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


def confirm_api_key(connection: Connection, principal: Principal, at: datetime) -> Principal | None:
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


def is_workload_token(token: str) -> bool:
    return secret_format.is_well_formed(token, WORKLOAD_TOKEN_PREFIX)


def issue_workload_token(
    connection: Connection, secret_key: bytes, identity_id: str, *, at: datetime, until: datetime
) -> str:
    """Issue a token that expires at `until`."""
    token = secret_format.mint(WORKLOAD_TOKEN_PREFIX)
    connection.execute(
        insert(workload_tokens).values(
            token_hash=secret_format.digest(secret_key, token), identity_id=identity_id, issued_at=at, expires_at=until
        )
    )
    return token


def find_workload_token(connection: Connection, secret_key: bytes, token: str, at: datetime) -> Principal | None:
    """Return the principal of a valid token of an identity with grants, without a request."""
    token_hash = secret_format.digest(secret_key, token)
    row = connection.execute(
        _TOKEN.where(workload_tokens.c.token_hash == token_hash, workload_tokens.c.expires_at > at)
    ).one_or_none()
    if row is None or not workload_has_grant(connection, row.tenant_id, row.id, row.scopes):
        return None
    return Principal(
        kind="workload",
        request_id="",
        workload_id=row.id,
        tenant_id=row.tenant_id,
        scopes=tuple(row.scopes),
        expires_at=row.expires_at,
        token_hash=token_hash,
    )


def confirm_workload_token(connection: Connection, principal: Principal, at: datetime) -> Principal | None:
    """Return the principal of a valid token with the current scopes, None if invalid."""
    valid = _TOKEN.where(workload_tokens.c.token_hash == principal.token_hash, workload_tokens.c.expires_at > at)
    row = connection.execute(valid).one_or_none()
    if row is None or not workload_has_grant(connection, row.tenant_id, row.id, row.scopes):
        return None
    return replace(principal, scopes=tuple(row.scopes))


_TOKEN = select(
    workload_identities.c.id,
    workload_identities.c.tenant_id,
    workload_identities.c.scopes,
    workload_tokens.c.expires_at,
).join(workload_identities, workload_identities.c.id == workload_tokens.c.identity_id)

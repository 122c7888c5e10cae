"""Tokens of workload identities, issued in exchange for service-account tokens of a cluster.

Every request compares a revision, so removal of the identity and changes of its grants take effect immediately.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import Connection, insert, select

from service.authn import secret_format
from service.authn.secret_format import WORKLOAD_TOKEN_PREFIX
from service.db.tables import workload_identities, workload_tokens
from service.principal import Principal
from service.principals.live_credentials import workload_has_grant

LIFETIME = timedelta(minutes=15)


def is_well_formed(token: str) -> bool:
    return secret_format.is_well_formed(token, WORKLOAD_TOKEN_PREFIX)


def issue(connection: Connection, secret_key: bytes, identity_id: str, *, at: datetime, until: datetime) -> str:
    """Issue a token that expires at `until`."""
    token = secret_format.mint(WORKLOAD_TOKEN_PREFIX)
    connection.execute(
        insert(workload_tokens).values(
            token_hash=secret_format.digest(secret_key, token), identity_id=identity_id, issued_at=at, expires_at=until
        )
    )
    return token


def find(connection: Connection, secret_key: bytes, token: str, at: datetime) -> Principal | None:
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


def confirm(connection: Connection, principal: Principal, at: datetime) -> Principal | None:
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

"""Tokens of workload identities, which a service account of a cluster gets in exchange for its own token.

A token is `fmw_` and the format of an API key; only its keyed digest is stored. The identity is read on every request,
so that its removal and changes of its grants take effect immediately.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import Connection, delete, insert, select

from service import errors
from service.authn import api_keys
from service.authn.request_limit import RequestLimit
from service.db.engine import Database
from service.db.tables import workload_identities, workload_tokens
from service.principal import Principal
from service.principals.grants import policies_for_principal

KIND = "workload_identity"
TYPE_PREFIX = "fmw_"
LIFETIME = timedelta(minutes=15)


def is_well_formed(token: str) -> bool:
    """Return whether a bearer token has the format and the checksum of a workload token."""
    return api_keys.is_well_formed(token, TYPE_PREFIX)


def issue(connection: Connection, secret_key: bytes, identity_id: str, *, at: datetime, until: datetime) -> str:
    """Issue a token that expires at `until`, and delete expired tokens."""
    token = api_keys.mint(TYPE_PREFIX)
    # Concurrent sweeps skip the rows of each other.
    expired = select(workload_tokens.c.token_hash).where(workload_tokens.c.expires_at <= at)
    expired = expired.with_for_update(skip_locked=True)
    connection.execute(delete(workload_tokens).where(workload_tokens.c.token_hash.in_(expired)))
    connection.execute(
        insert(workload_tokens).values(
            token_hash=api_keys.digest(secret_key, token), identity_id=identity_id, issued_at=at, expires_at=until
        )
    )
    return token


def authenticate(
    database: Database,
    secret_key: bytes,
    request_limit: RequestLimit,
    token: str,
    *,
    at: datetime,
    request_id: str,
    peer_uid: int | None,
) -> Principal:
    """Return the principal of a well-formed token, and count the request.

    Raises:
        ApiError: 401, the same for an unknown or expired token and for an identity without grants; 429 for an identity
            with too many requests.
    """
    token_hash = api_keys.digest(secret_key, token)
    with database.read_committed() as connection:
        row = connection.execute(
            _TOKEN.where(workload_tokens.c.token_hash == token_hash, workload_tokens.c.expires_at > at)
        ).one_or_none()
        if row is None or not has_grant(connection, row.tenant_id, row.id, row.scopes):
            raise errors.authentication_required()
        request_limit.require(connection, row.id)
    return Principal(
        kind="workload",
        request_id=request_id,
        workload_id=row.id,
        tenant_id=row.tenant_id,
        scopes=tuple(row.scopes),
        peer_uid=peer_uid,
        expires_at=row.expires_at,
        token_hash=token_hash,
    )


def confirm(connection: Connection, principal: Principal, at: datetime) -> Principal | None:
    """Check in the transaction of a change that the token is still valid, and lock its rows.

    Returns:
        The principal with the current scopes of the identity; None if the token is no longer valid.
    """
    valid = _TOKEN.where(workload_tokens.c.token_hash == principal.token_hash, workload_tokens.c.expires_at > at)
    row = connection.execute(valid.with_for_update(read=True)).one_or_none()
    if row is None or not has_grant(connection, row.tenant_id, row.id, row.scopes):
        return None
    return replace(principal, scopes=tuple(row.scopes))


def has_grant(connection: Connection, tenant_id: str, identity_id: str, scopes: list[str]) -> bool:
    """Return whether an identity has scopes, or a policy of its own or of a group."""
    return bool(scopes) or bool(policies_for_principal(connection, tenant_id, KIND, identity_id))


_TOKEN = select(
    workload_identities.c.id,
    workload_identities.c.tenant_id,
    workload_identities.c.scopes,
    workload_tokens.c.expires_at,
).join(workload_identities, workload_identities.c.id == workload_tokens.c.identity_id)

"""Tokens of workload identities: what a service account of a cluster exchanges its own token for. contract: Workload
identity; hostile A12

A token is `fmw_` and the form of an API key's secret; stored is only its keyed digest, with the identity and the
instant it ends. The identity's row is read with every request, so that its removal and its grants act on the next one.
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
MARK = "fmw_"
LIFETIME = timedelta(minutes=15)


def well_formed(token: str) -> bool:
    """Whether a bearer token can be one of these."""
    return api_keys.well_formed(token, MARK)


def issue(connection: Connection, secret_key: bytes, identity_id: str, *, at: datetime, until: datetime) -> str:
    """A new token of an identity, good until an instant; tokens that ended are forgotten."""
    token = api_keys.mint(MARK)
    # Several may sweep at once, and a row that somebody else is at is not worth waiting for.
    ended = select(workload_tokens.c.token_hash).where(workload_tokens.c.expires_at <= at)
    ended = ended.with_for_update(skip_locked=True)
    connection.execute(delete(workload_tokens).where(workload_tokens.c.token_hash.in_(ended)))
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
    """Return the caller of a well-formed token, and count the request.

    Raises:
        Refusal: 401, in the same words for an unknown or ended token and for an identity without any grant left; 429
            for an identity with too many requests.
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


def confirm(connection: Connection, caller: Principal, at: datetime) -> Principal | None:
    """Check on the connection of a change that a caller's token is still good; the caller with the scopes of now.

    The rows stay as they are until the change is committed.
    """
    live = _TOKEN.where(workload_tokens.c.token_hash == caller.token_hash, workload_tokens.c.expires_at > at)
    row = connection.execute(live.with_for_update(read=True)).one_or_none()
    if row is None or not has_grant(connection, row.tenant_id, row.id, row.scopes):
        return None
    return replace(caller, scopes=tuple(row.scopes))


def has_grant(connection: Connection, tenant_id: str, identity_id: str, scopes: list[str]) -> bool:
    """Whether an identity has any grant: scopes, or a policy of its own or of a group."""
    return bool(scopes) or bool(policies_for_principal(connection, tenant_id, KIND, identity_id))


_TOKEN = select(
    workload_identities.c.id,
    workload_identities.c.tenant_id,
    workload_identities.c.scopes,
    workload_tokens.c.expires_at,
).join(workload_identities, workload_identities.c.id == workload_tokens.c.identity_id)

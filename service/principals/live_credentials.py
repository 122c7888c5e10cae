"""Conditions for live API keys, sessions and tokens of workload identities."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    bindparam,
    select,
)

from service.db.tables import (
    api_keys,
    sessions,
    users,
    workload_identities,
    workload_tokens,
)
from service.principals.grants import policies_for_principal

# All conditions take the parameter `now`; the LIVE conditions need a join with `users`.
LIVE_KEY: ColumnElement[bool] = and_(
    api_keys.c.revoked_at.is_(None), api_keys.c.expires_at > bindparam("now"), users.c.deleted_at.is_(None)
)
OPEN_SESSION: ColumnElement[bool] = and_(sessions.c.ended_at.is_(None), sessions.c.expires_at > bindparam("now"))
LIVE_SESSION: ColumnElement[bool] = and_(OPEN_SESSION, users.c.deleted_at.is_(None))


@dataclass(frozen=True)
class CredentialIds:
    sessions: frozenset[str]
    keys: frozenset[str]
    workloads: frozenset[str]


def select_live(connection: Connection, credentials: CredentialIds, now: datetime) -> CredentialIds:
    """Return the credentials that are not ended, revoked or expired, of an existing person or with a grant."""
    live_sessions = (
        connection.execute(
            select(sessions.c.id).join(users).where(sessions.c.id.in_(credentials.sessions), LIVE_SESSION), {"now": now}
        ).scalars()
        if credentials.sessions
        else ()
    )
    live_keys = (
        connection.execute(
            select(api_keys.c.id).join(users).where(api_keys.c.id.in_(credentials.keys), LIVE_KEY), {"now": now}
        ).scalars()
        if credentials.keys
        else ()
    )
    # All tokens of an identity have the same rights, so any live token is sufficient.
    bound = (
        connection.execute(
            select(workload_identities.c.tenant_id, workload_identities.c.id, workload_identities.c.scopes).where(
                workload_identities.c.id.in_(
                    select(workload_tokens.c.identity_id).where(
                        workload_tokens.c.identity_id.in_(credentials.workloads), workload_tokens.c.expires_at > now
                    )
                )
            )
        ).all()
        if credentials.workloads
        else ()
    )
    live_workloads = (row.id for row in bound if workload_has_grant(connection, row.tenant_id, row.id, row.scopes))
    return CredentialIds(frozenset(live_sessions), frozenset(live_keys), frozenset(live_workloads))


def workload_has_grant(connection: Connection, tenant_id: str, identity_id: str, scopes: list[str]) -> bool:
    """Return whether an identity has scopes or a policy. Without both, its tokens are invalid."""
    return bool(scopes) or bool(policies_for_principal(connection, tenant_id, "workload_identity", identity_id))

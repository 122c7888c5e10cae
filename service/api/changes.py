"""Opens the write transaction of a route and authorizes its principal again inside it.

The credential, the membership or a policy may be revoked after the first authorization, while the request waits. So
routes open their write transaction with `change`.

On PostgreSQL, the rows that the decision depends on are locked until the commit, so that a revocation takes effect
before the decision or after the change. All transactions lock in the same order, to avoid deadlocks: organizations,
tenant, person, membership, credential, and at the commit the revisions. The locks of tenant and
person are exclusive, because a stream of shared locks could starve a revocation. SQLite allows a single writer; there
an unchanged revision replaces the second authorization.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from sqlalchemy import Connection, select

from service.api.enforcement import enforce, require_operation
from service.authn import api_keys, sessions, workload_tokens
from service.authz.authority_cache import read_revisions
from service.authz.authorize import authorize
from service.authz.context import AuthorizationContext
from service.authz.entitlements import Entitlements
from service.context import Platform
from service.db.tables import membership_tenants, memberships, organizations, tenants, users
from service.errors import authentication_required

C = TypeVar("C", bound=AuthorizationContext)
_CONFIRM = {"session": sessions.confirm, "api_key": api_keys.confirm, "workload": workload_tokens.confirm}


@contextmanager
def change(platform: Platform, context: C, *, lock_organization: bool = False) -> Iterator[tuple[Connection, C]]:
    """Begin a write transaction; yield its connection and the renewed context.

    Args:
        lock_organization: lock the organization of the path, or all organizations of the person if the path has none.

    Raises:
        ApiError: 401 or 403, as for a new request.
    """
    with platform.database.write() as connection:
        if platform.database.kind == "postgresql":
            _lock(connection, context, lock_organization)
        yield connection, _confirm(platform, connection, context)


def _lock(connection: Connection, context: AuthorizationContext, lock_organization: bool) -> None:
    """Lock the rows that the decision depends on, except the credential, which `confirm` locks."""
    principal = context.principal
    of_person = memberships.c.user_id == principal.user_id
    if lock_organization:
        of_path = organizations.c.id == context.organization_id
        all_of_person = organizations.c.id.in_(select(memberships.c.organization_id).where(of_person))
        several = select(organizations.c.id).where(of_path if context.organization_id else all_of_person)
        connection.execute(several.order_by(organizations.c.id).with_for_update())
    if tenant_id := context.tenant_id or principal.tenant_id:
        connection.execute(select(tenants.c.id).where(tenants.c.id == tenant_id).with_for_update(key_share=True))
    if principal.kind == "session":
        connection.execute(select(users.c.id).where(users.c.id == principal.user_id).with_for_update(key_share=True))
    if principal.user_id and context.organization_id:
        theirs = select(memberships.c.role).where(of_person, memberships.c.organization_id == context.organization_id)
        connection.execute(theirs.with_for_update(read=True))
        if tenant_id:
            limits = select(membership_tenants.c.tenant_id).where(
                membership_tenants.c.user_id == principal.user_id, membership_tenants.c.tenant_id == tenant_id
            )
            connection.execute(limits.with_for_update(read=True))


def _confirm(platform: Platform, connection: Connection, context: C) -> C:
    """Authenticate and authorize a request again; if no revision has changed, check only times and conditions."""
    now, rule, confirm = platform.clock.now(), context.rule, _CONFIRM.get(context.principal.kind)
    if rule is None or confirm is None:
        raise RuntimeError("a change needs the access that the guard has decided")
    facts = replace(context.facts, current_time=now.timestamp())
    # PostgreSQL also locks the credential here.
    if platform.database.kind == "sqlite" and _is_unchanged(connection, context, now):
        if context.grants is not None:
            require_operation(rule, context, context.grants, facts)
        return replace(context, facts=facts)
    principal = confirm(connection, context.principal, now)
    if principal is None:
        raise authentication_required()
    if not rule.needs_database:
        return replace(context, principal=principal)
    entitlements = Entitlements(principal, platform.decisions, connection)
    fresh = authorize(rule, entitlements, context.path)
    if not isinstance(fresh, type(context)):
        raise RuntimeError("a change needs the context that the route policy gives")  # noqa: TRY004
    grants = enforce(rule, entitlements, fresh, facts)
    return replace(fresh, rule=rule, path=context.path, facts=facts, grants=grants, catalogue=context.catalogue)


def _is_unchanged(connection: Connection, context: AuthorizationContext, at: datetime) -> bool:
    """Return whether the credential is valid at a time, and no revision of its entitlements has changed."""
    expires_at, token_ends_at = context.principal.expires_at, context.principal.token_ends_at
    if (expires_at is not None and at >= expires_at) or (token_ends_at is not None and at.timestamp() >= token_ends_at):
        return False
    return bool(context.revisions) and read_revisions(connection, context.revisions) == context.revisions

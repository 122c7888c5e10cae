"""Opens the write transaction of a route and authorizes its principal again inside it.

The guard authorizes before the body is parsed and before a request waits for its turn or for the database. Meanwhile
the credential, the membership or a policy may be revoked. So every route that changes something opens its transaction
with `change`: it checks the credential and applies the route policy once more, on the connection of the change.

On PostgreSQL the rows that the decision depends on are locked until the commit, so that a revocation happens either
before the decision or after the change. Every transaction takes these locks in the same order: organizations, tenant,
person, membership, credential. Changes lock the tenant and the person exclusively: exclusive locks are granted in
turn, while a stream of shared ones could keep a revocation waiting. SQLite has one writer at a time.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from sqlalchemy import Connection, select

from service.api.enforcement import enforce
from service.authn import api_keys, sessions, workload_tokens
from service.authz.authorize import authorize
from service.authz.context import AuthorizationContext
from service.context import Platform
from service.db.tables import membership_tenants, memberships, organizations, tenants, users
from service.errors import authentication_required

C = TypeVar("C", bound=AuthorizationContext)
_CONFIRM = {"session": sessions.confirm, "api_key": api_keys.confirm, "workload": workload_tokens.confirm}


@contextmanager
def change(platform: Platform, context: C, *, lock_organization: bool = False) -> Iterator[tuple[Connection, C]]:
    """Begin the write transaction of a route and yield it with the context as it is now.

    Args:
        lock_organization: serialize such changes in the organization of the path, or in all organizations of the person
            if the path names none.

    Raises:
        ApiError: 401 or 403, as for a new request with this credential.
    """
    with platform.database.write() as connection:
        if platform.database.kind == "postgresql":
            _lock(connection, context, lock_organization)
        yield connection, _confirm(platform, connection, context)


def _lock(connection: Connection, context: AuthorizationContext, lock_organization: bool) -> None:
    """Lock the rows that the decision depends on, except the credential, which is locked as it is read."""
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
    """Authenticate and authorize a request again."""
    now, rule, confirm = platform.clock.now(), context.rule, _CONFIRM.get(context.principal.kind)
    if rule is None or confirm is None:
        raise RuntimeError("a change needs the access that the guard has decided")
    principal = confirm(connection, context.principal, now)
    if principal is None:
        raise authentication_required()
    if not rule.needs_database:
        return replace(context, principal=principal)
    fresh = authorize(rule, principal, connection, context.path)
    if not isinstance(fresh, type(context)):
        raise RuntimeError("a change needs the context that the route policy gives")  # noqa: TRY004
    facts = replace(context.facts, current_time=now.timestamp())
    fresh = replace(fresh, rule=rule, path=context.path, facts=facts)
    return enforce(platform, connection, rule, fresh)

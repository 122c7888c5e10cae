"""The write transaction of a route, with the decision about its caller made again inside it.

The guard decides before the body is parsed and before a request waits for its turn or for the database. The credential,
the membership or a policy may be gone when the change is made. So every route that changes something opens its
transaction with `change`: it checks that the credential is still good and applies the route's rule once more, on the
connection of the change.

On PostgreSQL the rows that the decision depends on are locked until the commit, so that a revocation happens either
before the decision or after the change. Every transaction takes these locks in the same order: organizations, tenant,
person, membership, credential. Changes lock the tenant and the person exclusively: exclusive locks are granted in
turn, while a stream of shared ones could keep a revocation waiting. SQLite has one writer at a time.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from sqlalchemy import Connection, select

from service.api.enforcement import enforce
from service.authn import api_keys, sessions, workload_tokens
from service.authz.authorize import AuthorizationContext, authorize
from service.context import Platform
from service.db.tables import membership_tenants, memberships, organizations, tenants, users
from service.errors import authentication_required

_CONFIRM = {"session": sessions.confirm, "api_key": api_keys.confirm, "workload": workload_tokens.confirm}


@contextmanager
def change(
    platform: Platform, access: AuthorizationContext, *, lock_organization: bool = False
) -> Iterator[tuple[Connection, AuthorizationContext]]:
    """Begin the change of a route: its transaction, and the access of its caller as it is now.

    Args:
        lock_organization: let one such change at a time happen in the organization of the path, or in all
            organizations of the person if the path names none.

    Raises:
        Refusal: 401 or 403, as for a new request with this credential.
    """
    with platform.database.write() as connection:
        if platform.database.kind == "postgresql":
            _lock(connection, access, lock_organization)
        yield connection, _confirm(platform, connection, access)


def _lock(connection: Connection, access: AuthorizationContext, lock_organization: bool) -> None:
    """Lock what the decision depends on, except the credential, which is locked as it is read."""
    caller = access.caller
    of_person = memberships.c.user_id == caller.user_id
    if lock_organization:
        of_path = organizations.c.id == access.organization_id
        all_of_person = organizations.c.id.in_(select(memberships.c.organization_id).where(of_person))
        several = select(organizations.c.id).where(of_path if access.organization_id else all_of_person)
        connection.execute(several.order_by(organizations.c.id).with_for_update())
    if tenant_id := access.tenant_id or caller.tenant_id:
        connection.execute(select(tenants.c.id).where(tenants.c.id == tenant_id).with_for_update(key_share=True))
    if caller.kind == "session":
        connection.execute(select(users.c.id).where(users.c.id == caller.user_id).with_for_update(key_share=True))
    if caller.user_id and access.organization_id:
        theirs = select(memberships.c.role).where(of_person, memberships.c.organization_id == access.organization_id)
        connection.execute(theirs.with_for_update(read=True))
        if tenant_id:
            limits = select(membership_tenants.c.tenant_id).where(
                membership_tenants.c.user_id == caller.user_id, membership_tenants.c.tenant_id == tenant_id
            )
            connection.execute(limits.with_for_update(read=True))


def _confirm(platform: Platform, connection: Connection, access: AuthorizationContext) -> AuthorizationContext:
    """Decide about a request again: its credential, then the rule of its route."""
    now, rule, confirm = platform.clock.now(), access.rule, _CONFIRM.get(access.caller.kind)
    if rule is None or confirm is None:
        raise RuntimeError("a change needs the access that the guard has decided")
    caller = confirm(connection, access.caller, now)
    if caller is None:
        raise authentication_required()
    if not rule.needs_database:
        return replace(access, caller=caller)
    fresh = authorize(rule, caller, connection, access.path)
    facts = replace(access.facts, current_time=now.timestamp())
    fresh = replace(fresh, rule=rule, path=access.path, facts=facts)
    enforce(platform, connection, rule, fresh)
    return fresh

"""May they: the one place that turns stored facts into a permission. design: Service; checklist N05, N06, N10, N11

What a decision looks at is the route's line in the table of rules, the credential, the ids in the path and the
database. Nothing from a body or a query reaches it (hostile A20).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, select
from starlette.requests import Request

from client.policy.model import NO_FACTS, Facts
from service import errors
from service.authz.entitlement import may_enter
from service.authz.route_policies import RoutePolicy
from service.catalogue.operations import access_levels, enforced_scopes, scope_of
from service.catalogue.resource_types import kinds
from service.db.tables import memberships, tenants, users
from service.errors import ApiError
from service.principal import Principal
from service.principals.grants import membership_covers_tenant
from service.validation import canonical_id


@dataclass(frozen=True, slots=True)
class AuthorizationContext:
    """What `authorize` found out for a route: the caller, and the seat in the tenant or organization of the path.

    Ids are canonical (lower-case, hyphenated), whatever the path said. `role` is the caller's in that organization,
    None for a workload. `action` is the operation of the catalogue that was asked for; `facts` is what is known of the
    request beside its target. `rule` and `path` are what was decided, so that a change can decide it again.
    """

    caller: Principal
    organization_id: str | None = None
    tenant_id: str | None = None
    role: str | None = None
    action: str | None = None
    facts: Facts = NO_FACTS
    rule: RoutePolicy | None = None
    path: Mapping[str, Any] = field(default_factory=dict)


async def get_context(request: Request) -> AuthorizationContext:
    """The dependency that hands a route what its guard has decided before the body was read."""
    access: AuthorizationContext = request.scope["frost.access"]
    return access


def authorize(
    rule: RoutePolicy, caller: Principal, connection: Connection | None, path: Mapping[str, Any]
) -> AuthorizationContext:
    """Apply a rule to a caller whose credential is good; without a connection, one that looks nothing up.

    Raises:
        Refusal: 400 for an id that is none, 403 for everything that is not theirs.
    """
    if rule.who == "person" and caller.kind != "session":
        raise errors.session_required()
    if rule.who == "person_or_key" and caller.kind not in ("session", "api_key"):
        raise errors.session_or_api_key_required()
    if rule.who == "key" and caller.kind != "api_key":
        raise errors.api_key_required()
    action, scope = requested_target(rule, path)
    if caller.kind == "api_key" or (caller.kind == "workload" and caller.scopes):
        require_scope(caller, scope)
    # The guard leaves the connection out only where the rule looks nothing up; anything else must not pass.
    assert connection is not None or not rule.looks_up
    access = AuthorizationContext(caller) if connection is None else _resolve_membership(rule, caller, connection, path)
    return access if action is None else replace(access, action=action)


def requested_target(rule: RoutePolicy, path: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The operation of the catalogue and the scope a rule asks for; of a kind of resource, those of the kind.

    Raises:
        Refusal: flat 404 for a kind that does not exist, 400 for what cannot be done with its resources.
    """
    if rule.on_kind is None:
        return rule.action, rule.scope
    kind = kinds().get(path["kind"])
    if kind is None:
        raise errors.not_found()
    action = kind.operation(rule.on_kind)
    level = access_levels().get(action)
    if level is None:
        raise ApiError(
            400,
            "OPERATION_NOT_SUPPORTED",
            f"{rule.on_kind} is nothing that can be done with a resource of this kind",
            details={"kind": kind.name, "operation": rule.on_kind},
        )
    return action, scope_of(action, level)


def _resolve_membership(
    rule: RoutePolicy, caller: Principal, connection: Connection, path: Mapping[str, Any]
) -> AuthorizationContext:
    if rule.scope_of == "tenant":
        named = _named_tenant(rule, caller, connection, path)
        return _in_tenant(rule, caller, connection, canonical_id(named, "tenant"))
    if rule.scope_of == "organization":
        return _in_organization(rule, caller, connection, canonical_id(path["organization_id"], "organization"))
    return AuthorizationContext(caller)


def home_tenant(connection: Connection, caller: Principal) -> str | None:
    """Return the credential's own tenant: that of a key or workload, or a person's default tenant, None without one."""
    if caller.tenant_id:
        return caller.tenant_id
    return connection.scalar(select(users.c.default_tenant_id).where(users.c.id == caller.user_id))


def _named_tenant(rule: RoutePolicy, caller: Principal, connection: Connection, path: Mapping[str, Any]) -> str:
    """Return the tenant that a route acts on, as the path or the credential names it."""
    if not rule.home:
        return str(path["tenant_id"])
    tenant_id = home_tenant(connection, caller)
    if tenant_id is None:
        raise errors.no_home_tenant()
    return tenant_id


def _role_refused(rule: RoutePolicy) -> ApiError:
    if rule.forbidden is not None:
        return ApiError(403, "FORBIDDEN", rule.forbidden)
    return errors.permission_denied(rule.scope_of or "tenant")


def belongs_to(
    connection: Connection, caller: Principal, organization_id: str | None, tenant_id: str | None
) -> tuple[str | None, str | None]:
    """Narrow the organization and the tenant that a request names to those that its caller belongs to now.

    A key and a workload belong to their one tenant and its organization. A person
    who may not enter a tenant belongs to its organization alone.
    """
    if caller.tenant_id:
        own = connection.scalar(select(tenants.c.organization_id).where(tenants.c.id == caller.tenant_id))
        is_own = tenant_id == caller.tenant_id if tenant_id else organization_id == own
        return (own, tenant_id) if is_own else (None, None)
    if tenant_id:
        seat = connection.execute(
            select(tenants.c.organization_id, membership_covers_tenant().label("enters"))
            .join(memberships, memberships.c.organization_id == tenants.c.organization_id)
            .where(tenants.c.id == tenant_id, memberships.c.user_id == caller.user_id)
        ).one_or_none()
        return (seat.organization_id, tenant_id if seat.enters else None) if seat else (None, None)
    of_person = memberships.c.user_id == caller.user_id
    membership = select(memberships.c.organization_id).where(
        of_person, memberships.c.organization_id == organization_id
    )
    return connection.scalar(membership), None


def _workload_in(
    rule: RoutePolicy, caller: Principal, connection: Connection, place: ColumnElement[bool]
) -> str | None:
    """The organization of a workload's one tenant, if that is the place; no workload has a role there."""
    query = select(tenants.c.organization_id).where(tenants.c.id == caller.tenant_id, place)
    organization_id = connection.scalar(query)
    if organization_id is not None and rule.roles is not None:
        raise _role_refused(rule)
    return organization_id


def _in_tenant(rule: RoutePolicy, caller: Principal, connection: Connection, tenant_id: str) -> AuthorizationContext:
    if caller.kind == "workload":
        organization_id = _workload_in(rule, caller, connection, tenants.c.id == tenant_id)
        if organization_id is None:
            raise errors.tenant_access_denied()
        return AuthorizationContext(caller, organization_id, tenant_id)
    seat = connection.execute(_MEMBERSHIP, {"tenant": tenant_id, "user": caller.user_id}).one_or_none()
    # A key enters its one tenant, whatever others its creator may.
    if seat is None or (caller.tenant_id and caller.tenant_id != tenant_id):
        raise errors.tenant_access_denied()
    if rule.roles is not None and seat.role not in rule.roles:
        raise _role_refused(rule)
    return AuthorizationContext(caller, seat.organization_id, tenant_id, seat.role)


# Asked at nearly every request, so made once: making a statement costs as much as running it.
_MEMBERSHIP = (
    select(tenants.c.organization_id, memberships.c.role)
    .join(memberships, memberships.c.organization_id == tenants.c.organization_id)
    .where(tenants.c.id == bindparam("tenant"), memberships.c.user_id == bindparam("user"), membership_covers_tenant())
)


def _in_organization(
    rule: RoutePolicy, caller: Principal, connection: Connection, organization_id: str
) -> AuthorizationContext:
    if caller.kind == "workload":
        if _workload_in(rule, caller, connection, tenants.c.organization_id == organization_id) is None:
            raise errors.permission_denied("organization")
        return AuthorizationContext(caller, organization_id)
    membership = select(memberships.c.role).where(
        memberships.c.organization_id == organization_id, memberships.c.user_id == caller.user_id
    )
    if caller.tenant_id:
        # A key reaches the organization only through its one tenant, and only while its creator may enter that.
        membership = membership.join(tenants, tenants.c.organization_id == memberships.c.organization_id).where(
            may_enter(caller)
        )
    role = connection.scalar(membership)
    if role is None or (rule.roles is not None and role not in rule.roles):
        raise errors.permission_denied("organization")
    return AuthorizationContext(caller, organization_id, None, role)


def require_scope(caller: Principal, needed: str | None) -> None:
    """Refuse a key that lacks the scope; `svc:*` covers every verb of `svc`, `write` does not cover `read`.

    Scopes that no service asks for give nothing: a key with only such is denied everywhere (checklist K12).
    """
    enforced = enforced_scopes().keys() & set(caller.scopes)
    if not enforced:
        raise errors.insufficient_scope(None)
    if needed is not None and needed not in enforced and f"{needed.partition(':')[0]}:*" not in enforced:
        raise errors.insufficient_scope(needed)

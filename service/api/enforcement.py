"""Enforces roles and policies on the platform's own routes.

A decision uses the operation of the route policy, ids from the path, the client address, the time and stored resources.
It ignores the query, and uses a body only for the members of a resource to create or change.
"""

from datetime import datetime

from sqlalchemy import Connection
from starlette.requests import Request

from client.policy.coverage import operation_bounds
from client.policy.matching import parse_operation
from client.policy.model import RequestContext, parse_address
from service import errors
from service.authz.context import AuthorizationContext, TenantContext
from service.authz.decisions import CompiledGrants, Decision, possible
from service.authz.entitlements import KINDS, Entitlements
from service.authz.route_policies import RoutePolicy
from service.context import Platform
from service.db.engine import Record
from service.http_server.client import address_of
from service.principals.grants import PrincipalGrants


def enforce(
    rule: RoutePolicy, entitlements: Entitlements, context: AuthorizationContext, facts: RequestContext
) -> CompiledGrants | None:
    """Require that role and policies allow the operation of a route; return the grants used, if any.

    Raises:
        ApiError: 403 INSUFFICIENT_PERMISSIONS with the operation.
        NotLoaded: the entitlements lack the grants.
    """
    if context.action is None or (context.principal.kind == "session" and not rule.enforced_for_users):
        return None
    grants = grants_of(entitlements, context)
    require_operation(rule, context, grants, facts)
    return grants


def require_operation(
    rule: RoutePolicy, context: AuthorizationContext, grants: CompiledGrants, facts: RequestContext
) -> None:
    """Require that grants allow the operation of a route under the facts of a request.

    If the policy is `enforced_for_users`, the target is not known yet: require a role that allows the operation on some
    target. The route then decides about its target with `require`.

    Raises:
        ApiError: 403 INSUFFICIENT_PERMISSIONS with the operation.
    """
    action = str(context.action)
    if not rule.enforced_for_users:
        decision = decide_for_machine_principal(grants, rule, action, facts)
        if decision is not None and not decision.allowed:
            raise errors.insufficient_permissions(action, decision.part, decision.reason)
    elif context.principal.kind != "workload" and action not in possible(
        context.role, grants.principal.tenant_id, grants.catalogue
    ):
        raise errors.insufficient_permissions(action, "role", "no_match")


def decide_for_machine_principal(
    grants: CompiledGrants, rule: RoutePolicy, action: str, facts: RequestContext
) -> Decision | None:
    """Decide about an operation of a key or workload on its own tenant or organization.

    Returns:
        None for a route without a scope, unless a policy denies the operation or cannot be read.
    """
    target = target_of(action, grants.principal)
    if rule.scope is not None:
        return grants.decide(action, target, facts)
    decision = grants.by_policies(action, target, facts)
    return None if decision is None or decision.reason in ("allowed", "no_match") else decision


def require(
    platform: Platform, connection: Connection, context: TenantContext, target: str, facts: RequestContext
) -> None:
    """Raise 403 INSUFFICIENT_PERMISSIONS unless the grants allow the operation of the route on a target."""
    grants, action = load_grants(platform, connection, context), str(context.action)
    decision = grants.decide(action, target, facts)
    if not decision.allowed:
        raise errors.insufficient_permissions(action, decision.part, decision.reason)


def require_somewhere(grants: CompiledGrants, context: AuthorizationContext) -> None:
    """Raise 403 INSUFFICIENT_PERMISSIONS unless the policies allow the operation of the route on some target."""
    action, masks = str(context.action), grants.catalogue.operations.masks
    if grants.unreadable:
        raise errors.insufficient_permissions(action, "policies", "unreadable_policy")
    if grants.policies is not None:
        bounds = operation_bounds(masks, grants.policies.rules, grants.principal.tenant_id).possible
        if not bounds & masks.for_pattern(parse_operation(action)):
            raise errors.insufficient_permissions(action, "policies", "no_match")


def load_grants(platform: Platform, connection: Connection, context: AuthorizationContext) -> CompiledGrants:
    """Return the grants of the principal in the tenant of the route, or of its key or workload.

    Grants that the authorization loaded are reused; `change` loads them in its transaction.
    """
    if context.grants is not None:
        return context.grants
    return grants_of(Entitlements(context.principal, platform.decisions, connection), context)


def grants_of(entitlements: Entitlements, context: AuthorizationContext) -> CompiledGrants:
    """Return the grants of the principal in the tenant of the route, or of its key or workload."""
    if isinstance(context, TenantContext):
        return entitlements.grants(context.tenant_id, context.organization_id, context.role)
    tenant_id = str(entitlements.principal.tenant_id)
    membership = entitlements.membership_in(tenant_id)
    organization_id = membership.organization_id if membership else entitlements.own_organization()
    return entitlements.grants(tenant_id, organization_id, membership.role if membership else None)


def target_of(action: str, grants: PrincipalGrants) -> str:
    """Return the full name of the principal's tenant or organization; with id `*` for a create operation."""
    service, kind, verb = action.split(":")
    # Singletons of a tenant, such as its default tags, have the id of the tenant.
    name = grants.organization_id if kind == "organizations" else grants.tenant_id
    return f"frn:{service}:*:{grants.tenant_id}:{kind}/{'*' if verb == 'create' else name}"


def target_in(context: TenantContext, row: Record | None, region: str = "*") -> str:
    """Return the full name of a resource; with id `*` without a row, for a resource to be created."""
    service, kind, _ = str(context.action).split(":")
    target_region = region if row is None else row.region
    return f"frn:{service}:{target_region}:{context.tenant_id}:{kind}/{'*' if row is None else row.id}"


def request_context(
    platform: Platform, request: Request, context: AuthorizationContext, at: datetime
) -> RequestContext:
    """Return the request context, without region and tags. Over the unix socket, it has no address."""
    principal = context.principal
    address = address_of(request.scope, platform.settings.proxies)
    return RequestContext(
        source_ip=parse_address(address) if address else None,
        current_time=at.timestamp(),
        principal_type=KINDS[principal.kind],
        tenant=context.tenant_id or principal.tenant_id,
        request_tags={},
        resource_tags={},
    )

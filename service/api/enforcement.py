"""Enforces roles and policies on the platform's own routes.

A decision uses the operation of the route policy, checked ids from the path, the connection and stored resources. It
ignores the query, and reads from a body only the members of a resource to create or change.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from sqlalchemy import Connection
from starlette.requests import Request

from client.policy.coverage import operation_bounds
from client.policy.matching import parse_operation
from client.policy.model import PrincipalType, RequestContext, parse_address
from service import errors
from service.authz.context import AuthorizationContext, TenantContext
from service.authz.decisions import CompiledGrants, Decision
from service.authz.route_policies import RoutePolicy
from service.authz.scopes import possible
from service.context import Platform
from service.db.engine import Record
from service.http_server.client_address import address_of
from service.principals.grants import PrincipalGrants, membership_in, organization_id_of

C = TypeVar("C", bound=AuthorizationContext)
KINDS: Mapping[str, PrincipalType] = {"session": "user", "api_key": "api_key", "workload": "workload_identity"}


def enforce(platform: Platform, connection: Connection, rule: RoutePolicy, context: C) -> C:
    """Refuse a principal whose role or policies do not allow the operation of a route.

    If the role of people applies too, the target is unknown here: refuse a principal whose role allows the
    operation on no target in the tenant, and the route decides about the target with `require`.

    Returns:
        The context with the grants that the decision used.

    Raises:
        ApiError: 403 INSUFFICIENT_PERMISSIONS naming the operation.
    """
    kind = context.principal.kind
    if context.action is None or (kind == "session" and not rule.enforced_for_users):
        return context
    grants = load_grants(platform, connection, context)
    if not rule.enforced_for_users:
        decision = decide_for_machine_principal(grants, rule, context.action, context.facts)
        if decision is not None and not decision.allowed:
            raise errors.insufficient_permissions(context.action, decision.part, decision.reason)
    elif kind != "workload" and context.action not in possible(
        context.role, grants.principal.tenant_id, grants.catalogue
    ):
        raise errors.insufficient_permissions(context.action, "role", "no_match")
    return replace(context, grants=grants)


def decide_for_machine_principal(
    grants: CompiledGrants, rule: RoutePolicy, action: str, facts: RequestContext
) -> Decision | None:
    """Return the decision for a key or workload on its own tenant or organization; None if no policy denies it."""
    target = target_of(action, grants.principal)
    if rule.scope is not None:
        return grants.decide(action, target, facts)
    # A route without a scope is open to every credential of the tenant, but a policy can deny it.
    decision = grants.by_policies(action, target, facts)
    return None if decision is None or decision.reason in ("allowed", "no_match") else decision


def require(
    platform: Platform, connection: Connection, context: TenantContext, target: str, facts: RequestContext
) -> None:
    """Refuse the operation of a route on one target.

    Raises:
        ApiError: 403 INSUFFICIENT_PERMISSIONS naming the operation.
    """
    grants = load_grants(platform, connection, context)
    _require(grants, replace(context, facts=facts), target)


def require_somewhere(grants: CompiledGrants, context: AuthorizationContext) -> None:
    """Refuse a principal whose policies allow the operation of a route on no target at all.

    Raises:
        ApiError: 403 INSUFFICIENT_PERMISSIONS naming the operation.
    """
    action, masks = str(context.action), grants.catalogue.operations.masks
    if grants.unreadable:
        raise errors.insufficient_permissions(action, "policies", "unreadable_policy")
    if grants.policies is not None:
        bounds = operation_bounds(masks, grants.policies.rules, grants.principal.tenant_id).possible
        if not bounds & masks.for_pattern(parse_operation(action)):
            raise errors.insufficient_permissions(action, "policies", "no_match")


def _require(compiled: CompiledGrants, context: AuthorizationContext, target: str) -> None:
    action = str(context.action)
    decision = compiled.decide(action, target, context.facts)
    if not decision.allowed:
        raise errors.insufficient_permissions(action, decision.part, decision.reason)


def load_grants(platform: Platform, connection: Connection, context: AuthorizationContext) -> CompiledGrants:
    """Return the grants of the principal in the tenant of the route, else in the tenant of its key or workload.

    The context has them if its authorization needed them: those of a read are of the moment of its authorization, those
    of `change` are read in the transaction of the change.
    """
    if context.grants is not None:
        return context.grants
    principal = context.principal
    kind = KINDS[principal.kind]
    if isinstance(context, TenantContext):
        tenant_id, organization_id, role = context.tenant_id, context.organization_id, context.role
    else:
        tenant_id = str(principal.tenant_id)
        membership = membership_in(connection, tenant_id, principal.user_id)
        role = membership.role if membership else None
        organization_id = membership.organization_id if membership else organization_id_of(connection, tenant_id)
    principal_id = str(principal.key_id or principal.workload_id or principal.user_id)
    grants = PrincipalGrants.load(connection, kind, principal_id, tenant_id, organization_id, role, principal.scopes)
    return platform.decisions.compiled(connection, grants)


def target_of(action: str, grants: PrincipalGrants) -> str:
    """Return the target of a route on the principal's own tenant or organization; `*` for one to be created."""
    service, kind, verb = action.split(":")
    # A resource that each tenant has once, such as its default tags, has the id of the tenant.
    name = grants.organization_id if kind == "organizations" else grants.tenant_id
    return f"frn:{service}:*:{grants.tenant_id}:{kind}/{'*' if verb == 'create' else name}"


def target_in(context: TenantContext, row: Record | None, region: str = "*") -> str:
    """Return the target of a route on a resource of the tenant; `*` without a row, for one to be created."""
    service, kind, _ = str(context.action).split(":")
    target_region = region if row is None else row.region
    return f"frn:{service}:{target_region}:{context.tenant_id}:{kind}/{'*' if row is None else row.id}"


def request_context(platform: Platform, request: Request, context: AuthorizationContext) -> RequestContext:
    """Return the request context. Tenants have no region and no tags; over the socket there is no address."""
    principal = context.principal
    address = address_of(request.scope, platform.settings.proxies)
    return RequestContext(
        source_ip=parse_address(address) if address else None,
        current_time=platform.clock.now().timestamp(),
        principal_type=KINDS[principal.kind],
        tenant=context.tenant_id or principal.tenant_id,
        request_tags={},
        resource_tags={},
    )

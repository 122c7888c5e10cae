"""Decisions enforced on the platform's own routes: what a principal asks for, put to what stands behind the principal.

The question is made from the rule's operation, the ids the guard has checked, the connection and what is stored of a
resource; nothing from a query reaches it, and of a body only what a resource is to be (hostile A20, D04).
"""

from collections.abc import Mapping
from dataclasses import replace

from sqlalchemy import Connection
from starlette.requests import Request

from client.policy.coverage import operation_bounds
from client.policy.matching import read_operation
from client.policy.model import Facts, PrincipalType, read_address
from service import errors
from service.authz.context import AuthorizationContext, TenantContext
from service.authz.decisions import CompiledGrants, Decision
from service.authz.route_policies import RoutePolicy
from service.authz.scopes import possible
from service.context import Platform
from service.db.engine import Record
from service.http_server.client_address import address_of
from service.principal import Principal
from service.principals.grants import PrincipalGrants, organization_id_of, role_in

KINDS: Mapping[str, PrincipalType] = {"session": "user", "api_key": "api_key", "workload": "workload_identity"}


def enforce(platform: Platform, connection: Connection, rule: RoutePolicy, context: AuthorizationContext) -> None:
    """Refuse a principal whose role or policies do not allow the operation of a route.

    Where people are asked too, the target is not known yet: refused is here who could do it to nothing in the tenant,
    and the route asks again with `require`.

    Raises:
        Refusal: 403 INSUFFICIENT_PERMISSIONS naming the operation.
    """
    if context.action is None:
        return
    if rule.of_people:
        if context.principal.kind != "workload":
            known = platform.decisions.known(connection)
            if context.action not in possible(context.role, str(context.tenant_id), known):
                raise errors.insufficient_permissions(context.action, "role", "no_match")
    elif context.principal.kind != "session":
        tenant_id = str(context.principal.tenant_id)
        ready = load_grants(platform, connection, context.principal, tenant_id)
        said = decide_for_machine_principal(ready, rule, context.action, context.facts)
        if said is not None and not said.allowed:
            raise errors.insufficient_permissions(context.action, said.part, said.reason)


def decide_for_machine_principal(
    ready: CompiledGrants, rule: RoutePolicy, action: str, facts: Facts
) -> Decision | None:
    """What a machine's standing says to an operation on its own tenant or organization; None: nothing against it."""
    target = target_of(action, ready.principal)
    if rule.scope is not None:
        return ready.decide(action, target, facts)
    # Every credential of the tenant has it, so no policy need give it; one can still take it away.
    said = ready.by_policies(action, target, facts)
    return None if said is None or said.reason in ("allowed", "no_match") else said


def require(platform: Platform, connection: Connection, context: TenantContext, target: str, facts: Facts) -> None:
    """Refuse the operation of a route on one target.

    Raises:
        Refusal: 403 INSUFFICIENT_PERMISSIONS naming the operation.
    """
    grants = load_grants(platform, connection, context.principal, context.tenant_id)
    _require(grants, replace(context, facts=facts), target)


def require_somewhere(ready: CompiledGrants, context: AuthorizationContext) -> None:
    """Refuse the operation of a route to whom policies give it on nothing at all; otherwise each target decides.

    Raises:
        Refusal: 403 INSUFFICIENT_PERMISSIONS naming the operation.
    """
    action, masks = str(context.action), ready.known.catalogue.masks
    if ready.unreadable:
        raise errors.insufficient_permissions(action, "policies", "unreadable_policy")
    if ready.policies is not None:
        given = operation_bounds(masks, ready.policies.rules, ready.principal.tenant_id).possible
        if not given & masks.of(read_operation(action)):
            raise errors.insufficient_permissions(action, "policies", "no_match")


def _require(compiled: CompiledGrants, context: AuthorizationContext, target: str) -> None:
    action = str(context.action)
    decision = compiled.decide(action, target, context.facts)
    if not decision.allowed:
        raise errors.insufficient_permissions(action, decision.part, decision.reason)


def load_grants(platform: Platform, connection: Connection, principal: Principal, tenant_id: str) -> CompiledGrants:
    """Return the grants of a principal in a tenant: role, scopes and policies as they are on this connection."""
    kind = KINDS[principal.kind]
    grants = PrincipalGrants.load(
        connection,
        kind,
        str(principal.key_id or principal.workload_id or principal.user_id),
        tenant_id,
        organization_id_of(connection, tenant_id),
        None if kind == "workload_identity" else role_in(connection, tenant_id, principal.user_id),
        principal.scopes,
    )
    return platform.decisions.compiled(connection, grants)


def target_of(action: str, standing: PrincipalGrants) -> str:
    """Return the target of a route on the principal's own tenant or organization; `*` for one to be created."""
    service, kind, verb = action.split(":")
    # What a tenant has one of, such as its default tags, goes by the tenant's own id.
    name = standing.organization_id if kind == "organizations" else standing.tenant_id
    return f"frn:{service}:*:{standing.tenant_id}:{kind}/{'*' if verb == 'create' else name}"


def target_in(context: TenantContext, row: Record | None, region: str = "*") -> str:
    """The name of a resource of the tenant as the operation of the route is asked of it; None: one not made yet."""
    service, kind, _ = str(context.action).split(":")
    place = region if row is None else row.region
    return f"frn:{service}:{place}:{context.tenant_id}:{kind}/{'*' if row is None else row.id}"


def request_context(platform: Platform, request: Request, context: AuthorizationContext) -> Facts:
    """What is known of a request. Tenants have no region and carry no tags; over the socket there is no address."""
    principal = context.principal
    address = address_of(request.scope, platform.settings.proxies)
    return Facts(
        source_ip=read_address(address) if address else None,
        current_time=platform.clock.now().timestamp(),
        principal_type=KINDS[principal.kind],
        tenant=context.tenant_id or principal.tenant_id,
        request_tags={},
        resource_tags={},
    )

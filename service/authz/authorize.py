"""Authorizes a request: applies the route policy to the authenticated principal.

A decision uses the route policy, the credential, the ids in the path and the database, never a body or a query.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, select

from service import errors
from service.authz.context import AuthorizationContext, OrganizationContext, TenantContext
from service.authz.decisions import covers, has_enforced_scope
from service.authz.route_policies import RoutePolicy
from service.catalogue.operations import access_levels, scope_of
from service.catalogue.resource_types import kinds
from service.db.tables import memberships, tenants, users
from service.errors import ApiError
from service.principal import Principal
from service.principals.conditions import may_enter, membership_covers_tenant
from service.principals.grants import membership_in
from service.validation import canonical_id


def authorize(
    rule: RoutePolicy, principal: Principal, connection: Connection | None, path: Mapping[str, Any]
) -> AuthorizationContext:
    """Apply a route policy to an authenticated principal. A policy that reads no database needs no connection.

    Raises:
        ApiError: 400 for an invalid id, 403 without the right credential, entitlement, role or scope.
    """
    if rule.who == "person" and principal.kind != "session":
        raise errors.session_required()
    if rule.who == "person_or_key" and principal.kind not in ("session", "api_key"):
        raise errors.session_or_api_key_required()
    if rule.who == "key" and principal.kind != "api_key":
        raise errors.api_key_required()
    action, scope = requested_target(rule, path)
    if principal.kind == "api_key" or (principal.kind == "workload" and principal.scopes):
        require_scope(principal, scope)
    # Only a route policy that reads no database may be applied without a connection.
    assert connection is not None or not rule.needs_database
    context = (
        AuthorizationContext(principal)
        if connection is None
        else _resolve_membership(rule, principal, connection, path)
    )
    return context if action is None else replace(context, action=action)


def requested_target(rule: RoutePolicy, path: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the operation and the scope that a route policy needs, for the resource type in the path if there is one.

    Raises:
        ApiError: flat 404 for an unknown resource type, 400 for an operation that it does not support.
    """
    if rule.resource_action is None:
        return rule.permission, rule.scope
    kind = kinds().get(path["kind"])
    if kind is None:
        raise errors.not_found()
    action = kind.operation(rule.resource_action)
    level = access_levels().get(action)
    if level is None:
        raise ApiError(
            400,
            "OPERATION_NOT_SUPPORTED",
            f"{rule.resource_action} is nothing that can be done with a resource of this kind",
            details={"kind": kind.name, "operation": rule.resource_action},
        )
    return action, scope_of(action, level)


def _resolve_membership(
    rule: RoutePolicy, principal: Principal, connection: Connection, path: Mapping[str, Any]
) -> AuthorizationContext:
    if rule.tenancy == "tenant":
        tenant = _named_tenant(rule, principal, connection, path)
        return _in_tenant(rule, principal, connection, canonical_id(tenant, "tenant"))
    if rule.tenancy == "organization":
        return _in_organization(rule, principal, connection, canonical_id(path["organization_id"], "organization"))
    return AuthorizationContext(principal)


def home_tenant(connection: Connection, principal: Principal) -> str | None:
    """Return the credential's own tenant: that of a key or workload, or a person's default tenant, None without one."""
    if principal.tenant_id:
        return principal.tenant_id
    return connection.scalar(select(users.c.default_tenant_id).where(users.c.id == principal.user_id))


def _named_tenant(rule: RoutePolicy, principal: Principal, connection: Connection, path: Mapping[str, Any]) -> str:
    """Return the tenant that a route acts on, as the path or the credential names it."""
    if not rule.home:
        return str(path["tenant_id"])
    tenant_id = home_tenant(connection, principal)
    if tenant_id is None:
        raise errors.no_home_tenant()
    return tenant_id


def _role_refused(rule: RoutePolicy) -> ApiError:
    if rule.forbidden_message is not None:
        return ApiError(403, "FORBIDDEN", rule.forbidden_message)
    return errors.permission_denied(rule.tenancy or "tenant")


def belongs_to(
    connection: Connection, principal: Principal, organization_id: str | None, tenant_id: str | None
) -> tuple[str | None, str | None]:
    """Narrow the organization and the tenant of a request to those that its principal belongs to now.

    A key and a workload belong to their tenant and its organization. A person without entitlement to the tenant
    belongs to its organization only.
    """
    if principal.tenant_id:
        own = connection.scalar(select(tenants.c.organization_id).where(tenants.c.id == principal.tenant_id))
        is_own = tenant_id == principal.tenant_id if tenant_id else organization_id == own
        return (own, tenant_id) if is_own else (None, None)
    if tenant_id:
        membership = connection.execute(
            select(tenants.c.organization_id, membership_covers_tenant().label("enters"))
            .join(memberships, memberships.c.organization_id == tenants.c.organization_id)
            .where(tenants.c.id == tenant_id, memberships.c.user_id == principal.user_id)
        ).one_or_none()
        return (membership.organization_id, tenant_id if membership.enters else None) if membership else (None, None)
    of_person = memberships.c.user_id == principal.user_id
    own = select(memberships.c.organization_id).where(of_person, memberships.c.organization_id == organization_id)
    return connection.scalar(own), None


def _workload_in(
    rule: RoutePolicy, principal: Principal, connection: Connection, condition: ColumnElement[bool]
) -> str | None:
    """Return the organization of a workload's tenant if `condition` matches it. A workload has no role."""
    query = select(tenants.c.organization_id).where(tenants.c.id == principal.tenant_id, condition)
    organization_id = connection.scalar(query)
    if organization_id is not None and rule.roles is not None:
        raise _role_refused(rule)
    return organization_id


def _in_tenant(rule: RoutePolicy, principal: Principal, connection: Connection, tenant_id: str) -> TenantContext:
    if principal.kind == "workload":
        organization_id = _workload_in(rule, principal, connection, tenants.c.id == tenant_id)
        if organization_id is None:
            raise errors.tenant_access_denied()
        return TenantContext(principal, organization_id, tenant_id)
    membership = membership_in(connection, tenant_id, principal.user_id)
    # A key may only enter its own tenant.
    if membership is None or (principal.tenant_id and principal.tenant_id != tenant_id):
        raise errors.tenant_access_denied()
    if rule.roles is not None and membership.role not in rule.roles:
        raise _role_refused(rule)
    return TenantContext(principal, membership.organization_id, tenant_id, membership.role)


def _in_organization(
    rule: RoutePolicy, principal: Principal, connection: Connection, organization_id: str
) -> OrganizationContext:
    if principal.kind == "workload":
        if _workload_in(rule, principal, connection, tenants.c.organization_id == organization_id) is None:
            raise errors.permission_denied("organization")
        return OrganizationContext(principal, organization_id)
    membership = select(memberships.c.role).where(
        memberships.c.organization_id == organization_id, memberships.c.user_id == principal.user_id
    )
    if principal.tenant_id:
        # A key is entitled to the organization through its own tenant, while its creator may enter that.
        membership = membership.join(tenants, tenants.c.organization_id == memberships.c.organization_id).where(
            may_enter(principal)
        )
    role = connection.scalar(membership)
    if role is None or (rule.roles is not None and role not in rule.roles):
        raise errors.permission_denied("organization")
    return OrganizationContext(principal, organization_id, None, role)


def require_scope(principal: Principal, needed: str | None) -> None:
    """Refuse a principal without the scope; without a needed one, a principal that has no enforced scope.

    Raises:
        ApiError: 403 INSUFFICIENT_SCOPE.
    """
    if not has_enforced_scope(principal.scopes):
        raise errors.insufficient_scope(None)
    if needed is not None and not covers(principal.scopes, needed):
        raise errors.insufficient_scope(needed)

"""Authorization of a request: applies a route policy to the credential and the ids in the path, and returns a context.

The body and the query are not used.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from sqlalchemy import Connection, select

from client.policy.model import EMPTY_CONTEXT, RequestContext
from service import errors
from service.authz.decisions import CatalogueSnapshot, CompiledGrants
from service.authz.entitlements import Entitlements
from service.authz.route_policies import RoutePolicy
from service.catalogue.operations import access_levels, covers, has_enforced_scope, scope_of
from service.catalogue.resource_types import kinds
from service.db.tables import memberships, tenants
from service.errors import ApiError
from service.principal import Principal
from service.principals.grants import membership_covers_tenant
from service.validation import canonical_id


@dataclass(frozen=True, slots=True)
class AuthorizationContext:
    """An authorized request; of a route without a tenant or organization unless it is a subclass.

    Ids are canonical. `role` is the role in the organization, None for a workload. `action` is the required operation.
    `facts` describe the request without its target. `grants` are set if the decision needed them, `catalogue` for a
    tenant. `revisions` (by domain), `rule` and `path` are used to authorize a change again in its transaction.
    """

    principal: Principal
    organization_id: str | None = None
    tenant_id: str | None = None
    role: str | None = None
    action: str | None = None
    facts: RequestContext = EMPTY_CONTEXT
    grants: CompiledGrants | None = None
    catalogue: CatalogueSnapshot | None = None
    revisions: Mapping[str, int] = field(default_factory=dict)
    rule: RoutePolicy | None = None
    path: Mapping[str, Any] = field(default_factory=dict)

    def with_decision(
        self,
        facts: RequestContext,
        grants: CompiledGrants | None,
        catalogue: CatalogueSnapshot | None,
        revisions: Mapping[str, int],
        rule: RoutePolicy,
        path: Mapping[str, Any],
    ) -> Self:
        """Return the context with the inputs of the decision. `dataclasses.replace` would take three times as long."""
        principal, organization_id, tenant_id = self.principal, self.organization_id, self.tenant_id
        return type(self)(
            principal,
            organization_id,
            tenant_id,
            self.role,
            self.action,
            facts,
            grants,
            catalogue,
            revisions,
            rule,
            path,
        )


@dataclass(frozen=True, slots=True)
class TenantContext(AuthorizationContext):
    organization_id: str
    tenant_id: str


@dataclass(frozen=True, slots=True)
class OrganizationContext(AuthorizationContext):
    organization_id: str


def authorize(rule: RoutePolicy, entitlements: Entitlements, path: Mapping[str, Any]) -> AuthorizationContext:
    """Apply a route policy to a principal.

    Raises:
        ApiError: 400 for an invalid id, 403 without the required credential, entitlement, role or scope.
        NotLoaded: an entitlement is not in memory.
    """
    principal = entitlements.principal
    if rule.who == "person" and principal.kind != "session":
        raise errors.session_required()
    if rule.who == "person_or_key" and principal.kind not in ("session", "api_key"):
        raise errors.session_or_api_key_required()
    if rule.who == "key" and principal.kind != "api_key":
        raise errors.api_key_required()
    action, scope = requested_target(rule, path)
    if principal.kind == "api_key" or (principal.kind == "workload" and principal.scopes):
        require_scope(principal, scope)
    return _resolve_membership(rule, entitlements, path, action)


def requested_target(rule: RoutePolicy, path: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the required operation and scope, completed by a resource type in the path.

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
            f"{rule.resource_action} is not an operation on this kind of resource",
            details={"kind": kind.name, "operation": rule.resource_action},
        )
    return action, scope_of(action, level)


def _resolve_membership(
    rule: RoutePolicy, entitlements: Entitlements, path: Mapping[str, Any], action: str | None
) -> AuthorizationContext:
    if rule.tenancy == "tenant":
        return _in_tenant(rule, entitlements, canonical_id(_named_tenant(rule, entitlements, path), "tenant"), action)
    if rule.tenancy == "organization":
        return _in_organization(rule, entitlements, canonical_id(path["organization_id"], "organization"), action)
    return AuthorizationContext(entitlements.principal, action=action)


def _named_tenant(rule: RoutePolicy, entitlements: Entitlements, path: Mapping[str, Any]) -> str:
    if not rule.home:
        return str(path["tenant_id"])
    tenant_id = entitlements.home_tenant()
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
    """Return the organization and the tenant of a request, each only if the principal belongs to it now.

    Keys and workloads belong to their tenant and its organization. People may belong only to the organization.
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


def _in_tenant(rule: RoutePolicy, entitlements: Entitlements, tenant_id: str, action: str | None) -> TenantContext:
    principal = entitlements.principal
    if principal.tenant_id and principal.tenant_id != tenant_id:
        raise errors.tenant_access_denied()
    if principal.kind == "workload":
        _require_no_role(rule)
        return TenantContext(principal, entitlements.own_organization(), tenant_id, action=action)
    membership = entitlements.membership_in(tenant_id)
    if membership is None:
        raise errors.tenant_access_denied()
    if rule.roles is not None and membership.role not in rule.roles:
        raise _role_refused(rule)
    return TenantContext(principal, membership.organization_id, tenant_id, membership.role, action)


def _in_organization(
    rule: RoutePolicy, entitlements: Entitlements, organization_id: str, action: str | None
) -> OrganizationContext:
    principal = entitlements.principal
    if principal.kind == "workload":
        if entitlements.own_organization() != organization_id:
            raise errors.permission_denied("organization")
        _require_no_role(rule)
        return OrganizationContext(principal, organization_id, action=action)
    role = entitlements.role_in_organization(organization_id)
    if role is None or (rule.roles is not None and role not in rule.roles):
        raise errors.permission_denied("organization")
    return OrganizationContext(principal, organization_id, None, role, action)


def _require_no_role(rule: RoutePolicy) -> None:
    """Refuse a workload, which has no role, on a route that requires one."""
    if rule.roles is not None:
        raise _role_refused(rule)


def require_scope(principal: Principal, needed: str | None) -> None:
    """Require a scope; without `needed`, require any enforced scope.

    Raises:
        ApiError: 403 INSUFFICIENT_SCOPE.
    """
    if not has_enforced_scope(principal.scopes):
        raise errors.insufficient_scope(None)
    if needed is not None and not covers(principal.scopes, needed):
        raise errors.insufficient_scope(needed)

"""The result of authorizing a request: its principal, and the tenant or organization that the route acts on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from client.policy.model import EMPTY_CONTEXT, RequestContext
from service.authz.decisions import CompiledGrants
from service.authz.route_policies import RoutePolicy
from service.principal import Principal


@dataclass(frozen=True, slots=True)
class AuthorizationContext:
    """A request whose route policy allows its principal; by itself, one of a route without a tenant or organization.

    Ids are in canonical form. `role` is the principal's role in the organization, None for a workload. `action` is the
    operation of the catalogue that the route needs. `facts` describes the request without its target. `grants` are
    those of the principal if the decision needed them. `rule` and `path` allow a change to be authorized again in its
    transaction.
    """

    principal: Principal
    organization_id: str | None = None
    tenant_id: str | None = None
    role: str | None = None
    action: str | None = None
    facts: RequestContext = EMPTY_CONTEXT
    grants: CompiledGrants | None = None
    rule: RoutePolicy | None = None
    path: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TenantContext(AuthorizationContext):
    """The context of a route that acts on a tenant."""

    organization_id: str
    tenant_id: str


@dataclass(frozen=True, slots=True)
class OrganizationContext(AuthorizationContext):
    """The context of a route that acts on an organization."""

    organization_id: str

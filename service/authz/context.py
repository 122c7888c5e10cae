"""The result of authorizing a request."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from client.policy.model import EMPTY_CONTEXT, RequestContext
from service.authz.decisions import CatalogueSnapshot, CompiledGrants
from service.authz.route_policies import RoutePolicy
from service.principal import Principal


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

"""Interactive sessions: port forwards, database consoles, shells, cluster proxies.

There is no backend: a route decides whether the principal may open a session to a resource, and audits it.
"""

from dataclasses import replace
from typing import Annotated

from fastapi import Depends
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse

from service import errors
from service.api.changes import change
from service.api.enforcement import load_grants, require, require_somewhere, target_in
from service.api.protected_route import protected_router
from service.api.responses import audit_in_tenant
from service.authz.authorize import AuthorizationContext, get_context
from service.context import Platform, platform_of
from service.resources import queries
from service.validation import is_id

router = protected_router("interactive sessions")
INTERACTIVE = "/api/v1/tenants/{tenant_id}/interactive"
# Kinds that a port can be forwarded to.
LISTENING_KINDS = (
    "instance",
    "database",
    "cache",
    "kubernetes_cluster",
    "webserver",
    "message_broker",
    "load_balancer",
)

KINDS_BY_OPERATION = {
    "sessions:port-forwards:open": LISTENING_KINDS,
    "sessions:database-consoles:open": ("database",),
    "sessions:shells:open": ("instance",),
    "sessions:cluster-proxies:open": ("kubernetes_cluster",),
}
"""The resource kinds that each operation applies to."""

Granted = Annotated[AuthorizationContext, Depends(get_context)]
Here = Annotated[Platform, Depends(platform_of)]


class Opening(BaseModel):
    """The body that says to what."""

    model_config = ConfigDict(extra="forbid", strict=True)

    resource_id: str = Field(alias="resourceId")


@router.post(INTERACTIVE + "/port-forwards")
def forward_port(access: Granted, platform: Here, body: Opening) -> JSONResponse:
    """Authorize forwarding a local port to a resource."""
    return open_session(access, platform, body.resource_id)


@router.post(INTERACTIVE + "/database-consoles")
def open_database_console(access: Granted, platform: Here, body: Opening) -> JSONResponse:
    """Authorize a database console."""
    return open_session(access, platform, body.resource_id)


@router.post(INTERACTIVE + "/shells")
def open_shell(access: Granted, platform: Here, body: Opening) -> JSONResponse:
    """Authorize a shell on an instance."""
    return open_session(access, platform, body.resource_id)


@router.post(INTERACTIVE + "/cluster-proxies")
def open_cluster_proxy(access: Granted, platform: Here, body: Opening) -> JSONResponse:
    """Authorize a proxy to the API of a Kubernetes cluster."""
    return open_session(access, platform, body.resource_id)


def open_session(access: AuthorizationContext, platform: Platform, resource_id: str) -> JSONResponse:
    """Authorize a session to a resource of one of the operation's kinds.

    Raises:
        ApiError: flat 404, 403 INSUFFICIENT_PERMISSIONS.
    """
    now, tenant_id, kinds = platform.clock.now(), str(access.tenant_id), KINDS_BY_OPERATION[str(access.action)]
    with change(platform, access) as (connection, access):
        row = queries.find_of_kinds(connection, tenant_id, kinds, resource_id) if is_id(resource_id) else None
        if row is None:
            require_somewhere(load_grants(platform, connection, access.caller, tenant_id), access)
            raise errors.not_found()
        context = replace(access.facts, region=row.region, resource_tags=row.tags)
        require(platform, connection, access, target_in(access, row), context)
        details = {"operation": access.action}
        audit_in_tenant(connection, access, "interactive.open", f"{row.kind}:{row.id}", now, details)
    return JSONResponse(
        {"decision": "allowed", "operation": access.action, "resourceId": row.id, "resourceKind": row.kind}
    )

"""Routes that authorize and audit interactive sessions. There is no backend."""

from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field

from service import errors
from service.api.changes import change
from service.api.dependencies import PlatformDep, TenantContextDep
from service.api.enforcement import load_grants, require, require_somewhere, target_in
from service.api.protected_route import protected_router
from service.api.responses import audit_in_tenant
from service.audit.entries import AuditEvent
from service.authz.context import TenantContext
from service.authz.endpoints import INTERACTIVE, Permission
from service.context import Platform
from service.json_bodies import JSONResponse
from service.resources import queries
from service.validation import is_id

router = protected_router("interactive sessions")
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

KINDS_BY_OPERATION: dict[str, tuple[str, ...]] = {
    Permission.SESSIONS_PORT_FORWARDS_OPEN: LISTENING_KINDS,
    Permission.SESSIONS_DATABASE_CONSOLES_OPEN: ("database",),
    Permission.SESSIONS_SHELLS_OPEN: ("instance",),
    Permission.SESSIONS_CLUSTER_PROXIES_OPEN: ("kubernetes_cluster",),
}


class Opening(BaseModel):
    """The resource to open a session to."""

    model_config = ConfigDict(extra="forbid", strict=True)

    resource_id: str = Field(alias="resourceId")


@router.post(f"{INTERACTIVE}/port-forwards", operation_id="forwardPort")
def forward_port(context: TenantContextDep, platform: PlatformDep, body: Opening) -> JSONResponse:
    """Authorize forwarding a local port to a resource."""
    return open_session(context, platform, body.resource_id)


@router.post(f"{INTERACTIVE}/database-consoles", operation_id="openDatabaseConsole")
def open_database_console(context: TenantContextDep, platform: PlatformDep, body: Opening) -> JSONResponse:
    """Authorize a database console."""
    return open_session(context, platform, body.resource_id)


@router.post(f"{INTERACTIVE}/shells", operation_id="openShell")
def open_shell(context: TenantContextDep, platform: PlatformDep, body: Opening) -> JSONResponse:
    """Authorize a shell on an instance."""
    return open_session(context, platform, body.resource_id)


@router.post(f"{INTERACTIVE}/cluster-proxies", operation_id="openClusterProxy")
def open_cluster_proxy(context: TenantContextDep, platform: PlatformDep, body: Opening) -> JSONResponse:
    """Authorize a proxy to the API of a Kubernetes cluster."""
    return open_session(context, platform, body.resource_id)


def open_session(context: TenantContext, platform: Platform, resource_id: str) -> JSONResponse:
    """Authorize and audit a session to a resource of the operation's kinds.

    Raises:
        ApiError: flat 404, 403 INSUFFICIENT_PERMISSIONS.
    """
    now, tenant_id, kinds = platform.clock.now(), context.tenant_id, KINDS_BY_OPERATION[str(context.action)]
    with change(platform, context, shared=True) as (connection, context):
        row = queries.find_of_kinds(connection, tenant_id, kinds, resource_id) if is_id(resource_id) else None
        if row is None:
            require_somewhere(load_grants(platform, connection, context), context)
            raise errors.not_found()
        request_context = replace(context.facts, region=row.region, resource_tags=row.tags)
        require(platform, connection, context, target_in(context, row), request_context)
        details = {"operation": context.action}
        audit_in_tenant(connection, context, AuditEvent.INTERACTIVE_OPEN, f"{row.kind}:{row.id}", now, details)
    return JSONResponse(
        {"decision": "allowed", "operation": context.action, "resourceId": row.id, "resourceKind": row.kind}
    )

"""Interactive sessions over HTTP: forwarding, database console, shell, cluster proxy. contract: Scope rules

Nothing lies behind them here: a route answers whether the caller may open one to a resource, decided like everything
else, and writes that into the audit log.
"""

from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse

from service import errors
from service.api.changes import change
from service.api.dependencies import PlatformDep, TenantContextDep
from service.api.enforcement import load_grants, require, require_somewhere, target_in
from service.api.protected_route import protected_router
from service.api.responses import audit_in_tenant
from service.audit.events import AuditEvent
from service.authz.context import TenantContext
from service.authz.paths import INTERACTIVE
from service.authz.permissions import Permission
from service.context import Platform
from service.resources import queries
from service.validation import is_id

router = protected_router("interactive sessions")
# What a port can be forwarded to: whatever listens.
LISTENING = ("instance", "database", "cache", "kubernetes_cluster", "webserver", "message_broker", "load_balancer")

OPENED_TO: dict[str, tuple[str, ...]] = {
    Permission.SESSIONS_PORT_FORWARDS_OPEN: LISTENING,
    Permission.SESSIONS_DATABASE_CONSOLES_OPEN: ("database",),
    Permission.SESSIONS_SHELLS_OPEN: ("instance",),
    Permission.SESSIONS_CLUSTER_PROXIES_OPEN: ("kubernetes_cluster",),
}
"""The kinds of resource that each operation is done to."""


class Opening(BaseModel):
    """The body that says to what."""

    model_config = ConfigDict(extra="forbid", strict=True)

    resource_id: str = Field(alias="resourceId")


@router.post(f"{INTERACTIVE}/port-forwards", operation_id="forwardPort")
def forward_port(context: TenantContextDep, platform: PlatformDep, body: Opening) -> JSONResponse:
    """Whether a local port may be forwarded to a resource."""
    return opened(context, platform, body.resource_id)


@router.post(f"{INTERACTIVE}/database-consoles", operation_id="openDatabaseConsole")
def open_database_console(context: TenantContextDep, platform: PlatformDep, body: Opening) -> JSONResponse:
    """Whether the console of a database may be opened."""
    return opened(context, platform, body.resource_id)


@router.post(f"{INTERACTIVE}/shells", operation_id="openShell")
def open_shell(context: TenantContextDep, platform: PlatformDep, body: Opening) -> JSONResponse:
    """Whether a shell on an instance may be opened."""
    return opened(context, platform, body.resource_id)


@router.post(f"{INTERACTIVE}/cluster-proxies", operation_id="openClusterProxy")
def open_cluster_proxy(context: TenantContextDep, platform: PlatformDep, body: Opening) -> JSONResponse:
    """Whether a proxy to the API of a Kubernetes cluster may be opened."""
    return opened(context, platform, body.resource_id)


def opened(context: TenantContext, platform: Platform, resource_id: str) -> JSONResponse:
    """The decision on a resource of one of the kinds that the operation is done to.

    Raises:
        Refusal: flat 404, 403 INSUFFICIENT_PERMISSIONS.
    """
    now, tenant_id, kinds = platform.clock.now(), context.tenant_id, OPENED_TO[str(context.action)]
    with change(platform, context) as (connection, context):
        row = queries.any_kind(connection, tenant_id, kinds, resource_id) if is_id(resource_id) else None
        if row is None:
            require_somewhere(load_grants(platform, connection, context), context)
            raise errors.not_found()
        facts = replace(context.facts, region=row.region, resource_tags=row.tags)
        require(platform, connection, context, target_in(context, row), facts)
        details = {"operation": context.action}
        audit_in_tenant(connection, context, AuditEvent.INTERACTIVE_OPEN, f"{row.kind}:{row.id}", now, details)
    return JSONResponse(
        {"decision": "allowed", "operation": context.action, "resourceId": row.id, "resourceKind": row.kind}
    )

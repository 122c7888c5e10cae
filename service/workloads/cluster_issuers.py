"""Routes of cluster issuers, which sign the service-account tokens of a cluster."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from sqlalchemy import Connection
from starlette.responses import Response

from service import errors, validation
from service.api.changes import change
from service.api.dependencies import PlatformDep, TenantContextDep
from service.api.protected_route import protected_router
from service.api.responses import audit_in_tenant, no_content, or_404
from service.audit.entries import AuditEvent
from service.authz.paths import CLUSTER_ISSUER
from service.clock import wire_time
from service.db.engine import Record
from service.json_response import JSONResponse
from service.principals import queries
from service.workloads import cluster_token, issuer_validation
from service.workloads.queries import delete_issuer, delete_tokens, find_issuer, save_issuer

router = protected_router("workload identities")


class ClusterIssuer(BaseModel):
    """The issuer and signing keys of a cluster."""

    model_config = ConfigDict(extra="forbid", strict=True)

    issuer: Annotated[str, StringConstraints(min_length=1, max_length=300)]
    keys: list[dict[str, Any]] = Field(description="public JSON Web Keys, each with a `kid`; one to ten")


@router.put(CLUSTER_ISSUER, operation_id="setIssuer")
def set_issuer(context: TenantContextDep, platform: PlatformDep, cluster_id: str, body: ClusterIssuer) -> JSONResponse:
    """Set the issuer and public keys of a cluster.

    Removing a key or changing the issuer revokes the tokens of its workloads.
    """
    tenant_id, now = context.tenant_id, platform.clock.now()
    issuer, keys = issuer_validation.validate_issuer(body.issuer), issuer_validation.validate_public_keys(body.keys)
    with change(platform, context) as (connection, context):
        require_cluster(connection, tenant_id, cluster_id)
        before = find_issuer(connection, tenant_id, cluster_id)
        if before and (before.issuer != issuer or any(key not in keys for key in before.keys)):
            delete_tokens(connection, tenant_id, cluster_id)
        values = {"issuer": issuer, "keys": keys, "changed_by": context.principal.user_id, "changed_at": now}
        save_issuer(connection, tenant_id, cluster_id, values)
        details = {"issuer": issuer, "keyIds": [key["kid"] for key in keys]}
        audit_in_tenant(
            connection, context, AuditEvent.WORKLOAD_IDENTITY_ISSUER_SET, f"cluster:{cluster_id}", now, details
        )
        return JSONResponse(wire(or_404(find_issuer(connection, tenant_id, cluster_id))))


@router.get(CLUSTER_ISSUER, operation_id="getIssuer")
def get_issuer(context: TenantContextDep, platform: PlatformDep, cluster_id: str) -> JSONResponse:
    """Return the issuer of a cluster and the required audience of its tokens."""
    with platform.database.read() as connection:
        return JSONResponse(wire(or_404(find_issuer(connection, context.tenant_id, cluster_id))))


@router.delete(CLUSTER_ISSUER, operation_id="removeIssuer", status_code=204)
def remove_issuer(context: TenantContextDep, platform: PlatformDep, cluster_id: str) -> Response:
    """Delete the issuer of a cluster and revoke the tokens of its workloads."""
    tenant_id, now = context.tenant_id, platform.clock.now()
    with change(platform, context) as (connection, context):
        or_404(find_issuer(connection, tenant_id, cluster_id))
        delete_issuer(connection, tenant_id, cluster_id)
        audit_in_tenant(connection, context, AuditEvent.WORKLOAD_IDENTITY_ISSUER_REMOVE, f"cluster:{cluster_id}", now)
    return no_content()


def require_cluster(connection: Connection, tenant_id: str, cluster_id: str) -> None:
    if not validation.is_id(cluster_id) or not queries.cluster_exists(connection, tenant_id, cluster_id):
        raise errors.not_found()


def wire(row: Record) -> dict[str, Any]:
    return {
        "clusterId": row.cluster_id,
        "issuer": row.issuer,
        "audience": cluster_token.audience(row.cluster_id),
        "keyIds": [key["kid"] for key in row.keys],
        "changedAt": wire_time(row.changed_at),
    }

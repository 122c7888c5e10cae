"""Routes of tenants."""

from typing import Annotated, Any, Literal
from uuid import uuid4

from fastapi import Depends
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection
from starlette.responses import JSONResponse

from service import validation as service_validation
from service.api.changes import change
from service.api.idempotency import IdempotencyKey, resolve_idempotency_key
from service.api.protected_route import protected_router
from service.audit import entries
from service.authz.authorize import AuthorizationContext, get_context, home_tenant
from service.authz.entitlement import enterable_tenant_ids
from service.catalogue.quota_types import quota_types
from service.clock import wire_time
from service.context import Platform, platform_of
from service.db.engine import Record
from service.db.platform_state import failing_listings
from service.jobs.worker import Worker, get_worker
from service.principal import Principal
from service.quotas import queries as quotas
from service.quotas import usage
from service.tenants import provisioning
from service.tenants import queries as tenants_queries
from service.tenants import validation as tenants_validation

router = protected_router("tenants")
CREATE = "tenant.create"

Granted = Annotated[AuthorizationContext, Depends(get_context)]
Here = Annotated[Platform, Depends(platform_of)]
AWorker = Annotated[Worker, Depends(get_worker)]
Include = Literal["usage"] | None


class TenantName(BaseModel):
    """The body that creates or renames a tenant."""

    model_config = ConfigDict(extra="forbid", strict=True)

    display_name: str = Field(alias="displayName", description="1 to 128 characters; need not be unique")


@router.get("/api/v1/tenants")
def list_tenants(access: Granted, platform: Here, include: Include = None) -> JSONResponse:
    """List the tenants that the caller may enter, by organization and name."""
    return tenants_response(platform, access.caller, None, include)


@router.get("/api/v1/organizations/{organization_id}/tenants")
def list_organization_tenants(access: Granted, platform: Here, include: Include = None) -> JSONResponse:
    """List the tenants of an organization that the caller may enter, by name."""
    return tenants_response(platform, access.caller, access.organization_id, include)


@router.post("/api/v1/organizations/{organization_id}/tenants", status_code=201)
def create_tenant(
    access: Granted, platform: Here, worker: AWorker, body: TenantName, idempotency_key: IdempotencyKey = None
) -> JSONResponse:
    """Create a tenant. The answer comes while it is being provisioned; the operation shows the progress.

    The same body under the same `Idempotency-Key` returns the same tenant, another body 409.
    """
    principal, organization_id, now = access.caller, str(access.organization_id), platform.clock.now()
    name = service_validation.display_name(body.display_name)
    new_id = str(uuid4())
    run_id = None
    with change(platform, access, lock_organization=True) as (connection, access):
        tenant_id = resolve_idempotency_key(
            connection, access, idempotency_key, CREATE, (organization_id, name), new_id, now
        )
        if tenant_id == new_id:
            slug = service_validation.slug(name)
            slug = service_validation.free_slug(slug, tenants_queries.slugs_like(connection, organization_id, slug))
            tenants_queries.add(
                connection,
                tenant_id=tenant_id,
                organization_id=organization_id,
                display_name=name,
                slug=slug,
                at=now,
            )
            run_id = provisioning.plan(connection, tenant_id=tenant_id, started_by=principal.user_id, at=now)
            entries.record(
                connection,
                principal,
                operation=CREATE,
                target=f"tenant:{tenant_id}",
                organization_id=organization_id,
                tenant_id=tenant_id,
                details={"displayName": name, "slug": slug},
                at=now,
            )
        document = tenant(tenants_queries.get_created(connection, principal, tenant_id))
    if run_id:
        worker.submit(run_id)
    return JSONResponse(document, 201)


@router.get("/api/v1/tenants/{tenant_id}")
def get_tenant(access: Granted, platform: Here) -> JSONResponse:
    """Return a tenant."""
    with platform.database.read() as connection:
        return JSONResponse(tenant(tenants_queries.get(connection, access.caller, str(access.tenant_id))))


@router.patch("/api/v1/tenants/{tenant_id}")
def rename_tenant(access: Granted, platform: Here, body: TenantName) -> JSONResponse:
    """Change the display name, which need not be unique. Id and slug never change."""
    tenant_id, now = str(access.tenant_id), platform.clock.now()
    name = service_validation.display_name(body.display_name)
    with change(platform, access) as (connection, access):
        before = tenants_queries.get(connection, access.caller, tenant_id).display_name
        tenants_queries.rename(connection, tenant_id, name, now)
        entries.record(
            connection,
            access.caller,
            operation="tenant.rename",
            target=f"tenant:{tenant_id}",
            organization_id=access.organization_id,
            tenant_id=tenant_id,
            details={"from": before, "to": name},
            at=now,
        )
        return JSONResponse(tenant(tenants_queries.get(connection, access.caller, tenant_id)))


def tenants_response(
    platform: Platform, principal: Principal, organization_id: str | None, include: Include
) -> JSONResponse:
    """Return a list of tenants. The number of statements does not depend on the number of tenants."""
    with platform.database.read() as connection:
        rows = tenants_queries.visible(connection, principal, organization_id)
        documents = [tenant(row) for row in rows]
        if include == "usage":
            add_usage(connection, principal, documents)
        default = home_tenant(connection, principal)
    return JSONResponse({"tenants": documents, "defaultTenantId": default or ""})


def add_usage(connection: Connection, principal: Principal, documents: list[dict[str, Any]]) -> None:
    """Set `tightestQuota` of each tenant, null if nothing is limited and nothing in use."""
    types = quota_types()
    limits = quotas.limits(connection, enterable_tenant_ids(principal))
    counted = usage.counted(connection, enterable_tenant_ids(principal), types.values())
    failing = failing_listings(connection)
    for document in documents:
        tenant_id = document["id"]
        unknown = {kind for failing_tenant, kind in failing if failing_tenant == tenant_id}
        quota = tenants_validation.tightest(limits.get(tenant_id, {}), counted.get(tenant_id, {}), types, unknown)
        document["tightestQuota"] = quota and {
            "resourceType": quota.resource_type,
            "used": quota.used,
            "limit": quota.limit,
            "unit": quota.unit,
        }


def tenant(row: Record) -> dict[str, Any]:
    """Return a tenant as JSON. It names the operation only while the tenant is being provisioned."""
    document = {
        "id": row.id,
        "displayName": row.display_name,
        "slug": row.slug,
        "status": row.status,
        "organizationId": row.organization_id,
        "organizationName": row.organization_name,
        "role": row.role,
        "defaultTagCount": len(row.default_tags),
        "createdAt": wire_time(row.created_at),
        "updatedAt": wire_time(row.updated_at),
    }
    if row.status == tenants_validation.PROVISIONING and row.run_id:
        document |= {"operationId": row.operation_id, "runId": row.run_id}
    return document

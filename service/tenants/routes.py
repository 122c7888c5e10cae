"""Routes of tenants, and their SQL, limited to a principal, a tenant or an organization."""

from datetime import datetime
from typing import Any, Literal
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection, Select, and_, insert, literal, or_, select

from service import validation as service_validation
from service.api.changes import change, resolve_idempotency_key
from service.api.dependencies import ContextDep, IdempotencyKey, OrganizationContextDep, PlatformDep, TenantContextDep
from service.api.protected_route import protected_router
from service.api.responses import created
from service.audit import entries
from service.audit.entries import AuditEvent
from service.authz.endpoints import ORGANIZATION_TENANTS, TENANT, TENANTS
from service.authz.entitlements import Entitlements
from service.catalogue.resource_types import quota_types
from service.clock import wire_time
from service.context import Platform
from service.db.engine import Record
from service.db.statements import failing_listings, records, update_row
from service.db.tables import (
    default_tag_versions,
    memberships,
    operations,
    organizations,
    tenants,
)
from service.errors import permission_denied, tenant_access_denied
from service.jobs.queries import OPEN
from service.jobs.worker import WorkerDep
from service.json_bodies import JSONResponse, ListResponse
from service.principal import Principal
from service.principals.grants import enterable_tenant_ids, may_enter
from service.quotas import limits as quotas
from service.tenants import provisioning
from service.tenants.provisioning import PROVISIONING

router = protected_router("tenants")

Include = Literal["usage"] | None


def load_tenant(connection: Connection, principal: Principal, tenant_id: str) -> Record:
    """Return a tenant, or raise 403 if the principal may not enter it."""
    row = connection.execute(_enterable(principal).where(tenants.c.id == tenant_id)).one_or_none()
    if row is None:
        raise tenant_access_denied()
    return row


def load_created_tenant(connection: Connection, principal: Principal, tenant_id: str) -> Record:
    """Return a tenant created in this transaction, also to an API key, which cannot enter it.

    Raises:
        ApiError: 403 without a membership of the person.
    """
    row = connection.execute(
        _TENANT_WITH_ROLE.where(tenants.c.id == tenant_id, memberships.c.user_id == principal.user_id)
    ).one_or_none()
    if row is None:
        raise permission_denied("organization")
    return row


def slugs_like(connection: Connection, organization_id: str, slug: str) -> frozenset[str]:
    """Return the slugs in an organization that `free_slug` could return."""
    prefix = slug[:40]
    return frozenset(
        connection.scalars(
            select(tenants.c.slug).where(
                tenants.c.organization_id == organization_id,
                or_(tenants.c.slug == slug, tenants.c.slug.startswith(prefix, autoescape=True)),
            )
        )
    )


def insert_tenant(
    connection: Connection, *, tenant_id: str, organization_id: str, display_name: str, slug: str, at: datetime
) -> None:
    """Insert a tenant in status `provisioning`."""
    connection.execute(
        insert(tenants).values(
            id=tenant_id,
            organization_id=organization_id,
            display_name=display_name,
            slug=slug,
            status=PROVISIONING,
            default_tags={},
            created_at=at,
            updated_at=at,
        )
    )
    connection.execute(insert(default_tag_versions).values(tenant_id=tenant_id, version=1, tags={}, changed_at=at))


def update_name(connection: Connection, tenant_id: str, display_name: str, at: datetime) -> None:
    update_row(connection, tenants, {"id": tenant_id}, {"display_name": display_name, "updated_at": at})


# A tenant with its organization and open provisioning run.
_TENANT = (
    select(
        tenants.c.id,
        tenants.c.display_name,
        tenants.c.slug,
        tenants.c.status,
        tenants.c.organization_id,
        organizations.c.name.label("organization_name"),
        tenants.c.default_tags,
        tenants.c.created_at,
        tenants.c.updated_at,
        operations.c.operation_id,
        operations.c.run_id,
    )
    .join(organizations, organizations.c.id == tenants.c.organization_id)
    .outerjoin(
        operations,
        and_(
            operations.c.tenant_id == tenants.c.id,
            operations.c.kind == provisioning.KIND,
            operations.c.status.in_(OPEN),
        ),
    )
)


_TENANT_WITH_ROLE = _TENANT.join(memberships, memberships.c.organization_id == tenants.c.organization_id).add_columns(
    memberships.c.role
)


_TENANT_OF_WORKLOAD = _TENANT.add_columns(literal("workload").label("role"))


def _enterable(principal: Principal) -> Select[Any]:
    """Select the tenants that a principal may enter, with its role (`workload` for workloads)."""
    if principal.kind == "workload":
        return _TENANT_OF_WORKLOAD.where(tenants.c.id == principal.tenant_id)
    return _TENANT_WITH_ROLE.where(may_enter(principal))


def visible_tenants(connection: Connection, principal: Principal, organization_id: str | None = None) -> list[Record]:
    """Return the tenants that a principal may enter, by organization, name and id."""
    query = _enterable(principal)
    if organization_id is not None:
        query = query.where(tenants.c.organization_id == organization_id)
    return sorted(
        records(connection, query),
        key=lambda row: (row.organization_name.casefold(), row.display_name.casefold(), row.id),
    )


class TenantName(BaseModel):
    """The name of a tenant."""

    model_config = ConfigDict(extra="forbid", strict=True)

    display_name: str = Field(alias="displayName", description="1 to 128 characters; need not be unique")


@router.get(TENANTS, operation_id="listTenants")
def list_tenants(context: ContextDep, platform: PlatformDep, include: Include = None) -> JSONResponse:
    """List the tenants that the principal may enter, by organization and name."""
    return tenants_response(platform, context.principal, None, include)


@router.get(ORGANIZATION_TENANTS, operation_id="listOrganizationTenants")
def list_organization_tenants(
    context: OrganizationContextDep, platform: PlatformDep, include: Include = None
) -> JSONResponse:
    """List the tenants of an organization that the principal may enter, by name."""
    return tenants_response(platform, context.principal, context.organization_id, include)


@router.post(ORGANIZATION_TENANTS, operation_id="createTenant", status_code=201)
def create_tenant(
    context: OrganizationContextDep,
    platform: PlatformDep,
    worker: WorkerDep,
    body: TenantName,
    idempotency_key: IdempotencyKey = None,
) -> JSONResponse:
    """Create a tenant and start its provisioning; the operation in the response has the progress.

    A repeated request with the same `Idempotency-Key` returns the same tenant; with another body, 409.
    """
    principal, organization_id, now = context.principal, context.organization_id, platform.clock.now()
    name = service_validation.display_name(body.display_name)
    new_id = str(uuid4())
    run_id = None
    with change(platform, context) as (connection, context):
        tenant_id = resolve_idempotency_key(
            connection, context, idempotency_key, AuditEvent.TENANT_CREATE, (organization_id, name), new_id, now
        )
        if tenant_id == new_id:
            slug = service_validation.slug(name)
            slug = service_validation.free_slug(slug, slugs_like(connection, organization_id, slug))
            insert_tenant(
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
                event=AuditEvent.TENANT_CREATE,
                target=f"tenant:{tenant_id}",
                organization_id=organization_id,
                tenant_id=tenant_id,
                details={"displayName": name, "slug": slug},
                at=now,
            )
        document = tenant(load_created_tenant(connection, principal, tenant_id))
    if run_id:
        worker.submit(run_id)
    return created(document, TENANT, tenant_id=tenant_id)


@router.get(TENANT, operation_id="getTenant")
def get_tenant(context: TenantContextDep, platform: PlatformDep) -> JSONResponse:
    """Return a tenant."""
    with platform.database.read() as connection:
        return JSONResponse(tenant(load_tenant(connection, context.principal, context.tenant_id)))


@router.patch(TENANT, operation_id="renameTenant")
def rename_tenant(context: TenantContextDep, platform: PlatformDep, body: TenantName) -> JSONResponse:
    """Change the display name. Id and slug do not change."""
    tenant_id, now = context.tenant_id, platform.clock.now()
    name = service_validation.display_name(body.display_name)
    with change(platform, context) as (connection, context):
        before = load_tenant(connection, context.principal, tenant_id).display_name
        update_name(connection, tenant_id, name, now)
        entries.record(
            connection,
            context.principal,
            event=AuditEvent.TENANT_RENAME,
            target=f"tenant:{tenant_id}",
            organization_id=context.organization_id,
            tenant_id=tenant_id,
            details={"from": before, "to": name},
            at=now,
        )
        return JSONResponse(tenant(load_tenant(connection, context.principal, tenant_id)))


def tenants_response(
    platform: Platform, principal: Principal, organization_id: str | None, include: Include
) -> JSONResponse:
    """Return tenants with a fixed number of SQL statements."""
    with platform.database.read() as connection:
        rows = visible_tenants(connection, principal, organization_id)
        documents = [tenant(row) for row in rows]
        if include == "usage":
            add_usage(connection, principal, documents)
        default = Entitlements(principal, platform.decisions, connection).home_tenant()
    return ListResponse("tenants", documents, {"defaultTenantId": default or ""})


def add_usage(connection: Connection, principal: Principal, documents: list[dict[str, Any]]) -> None:
    """Set `tightestQuota` of each tenant, null without limits and usage."""
    types = quota_types()
    limits = quotas.stored_limits(connection, enterable_tenant_ids(principal))
    counted = quotas.counted(connection, enterable_tenant_ids(principal), types.values())
    failing = failing_listings(connection)
    for document in documents:
        tenant_id = document["id"]
        unknown = {kind for failing_tenant, kind in failing if failing_tenant == tenant_id}
        quota = quotas.tightest(limits.get(tenant_id, {}), counted.get(tenant_id, {}), types, unknown)
        document["tightestQuota"] = quota and {
            "resourceType": quota.resource_type,
            "title": types[quota.resource_type].title,
            "used": quota.used,
            "limit": quota.limit,
            "unit": quota.unit,
        }


def tenant(row: Record) -> dict[str, Any]:
    """Return a tenant as JSON, with the operation while it is `provisioning`."""
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
    if row.status == provisioning.PROVISIONING and row.run_id:
        document |= {"operationId": row.operation_id, "runId": row.run_id}
    return document

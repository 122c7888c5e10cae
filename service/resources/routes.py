"""Resource routes, the same for every kind.

Each operation is authorized by the scope of the kind's service (`compute:write` for every change, also start, stop and
restart), and by role and, for machine principals, policies with the region and tags of the resource.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Any
from uuid import uuid4

from fastapi import Depends, Header, Path
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from sqlalchemy import Connection
from starlette.responses import Response

from client.policy.model import RequestContext
from service import errors
from service import validation as service_validation
from service.api.changes import change
from service.api.dependencies import PageParamsDep, PlatformDep, TenantContextDep, page_of
from service.api.direct_call import immediate
from service.api.enforcement import load_grants, require, require_somewhere, target_in
from service.api.protected_route import protected_router
from service.api.responses import audit_in_tenant, created, no_content, or_404
from service.audit.entries import AuditEvent
from service.authz.context import TenantContext
from service.authz.endpoints import RESOURCE, RESOURCES
from service.catalogue.resource_types import Kind, kinds
from service.context import Platform
from service.db.engine import Record
from service.default_tags.queries import propagated
from service.default_tags.tag_rules import require_new_provider, with_defaults
from service.errors import ApiError
from service.json_bodies import JSONResponse
from service.principals.queries import CLUSTER
from service.quotas.limits import counted_attributes, require_quota
from service.resources import queries
from service.resources import validation as resources_validation
from service.resources.queries import MAX_DECISIONS, ListFilter
from service.validation import is_id
from service.workloads import cluster_issuers

router = protected_router("resources")
SEARCH_BATCH = 1_000
"""Resources to read at a time while the caller may list none of them."""
REGION = r"^[a-z]{2}-[a-z]{3}-[0-9]{1,2}$"

Provider = Annotated[
    str | None, Header(alias="X-FM-Provider-Version", description="The infrastructure-as-code provider of the request")
]
Tags = dict[str, str]


@immediate
def get_kind_or_404(
    kind: Annotated[str, Path(description="such as instance, volume, kubernetes_cluster")],
) -> Kind:
    return or_404(kinds().get(kind))


OfKind = Annotated[Kind, Depends(get_kind_or_404)]


class NewResource(BaseModel):
    """A new resource."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str
    region: Annotated[str, StringConstraints(pattern=REGION)]
    tags: Tags = Field(default_factory=dict)
    attributes: dict[str, int] = Field(
        default_factory=dict, description="attributes of the kind that quotas count, such as vcpu"
    )


class ResourceChange(BaseModel):
    """A change of a resource. Omitted members remain; tags are replaced as a whole."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str | None = None
    tags: Tags | None = None


@router.get(RESOURCES, operation_id="listResources")
def list_resources(
    context: TenantContextDep, platform: PlatformDep, kind: OfKind, paging: PageParamsDep
) -> JSONResponse:
    """List the resources of a kind that the caller may list, in the order of creation.

    A page with a `nextCursor` has at least one resource, but may have fewer than its limit. The status is 403 if the
    caller may list no resource or, with policies that name single resources, none of the next 5,000.
    """
    tenant_id = context.tenant_id
    page = page_of(platform, paging, "resources", tenant_id, kind.name)
    with platform.database.read() as connection:
        grants = load_grants(platform, connection, context)
        require_somewhere(grants, context)
        list_filter = ListFilter(grants, context)
        listed: list[Record] = []
        after, size = page.after, page.limit
        while not listed:
            rows, cursor = replace(page, limit=size).cut(
                queries.page(
                    connection, tenant_id, kind.name, after, size, list_filter.bounds.regions, list_filter.bounds.ids
                ),
                "created_at",
                "id",
            )
            for row in rows:
                if not list_filter.decide(row).allowed:
                    continue
                if len(listed) == page.limit:
                    cursor = page.cursor(listed[-1].created_at, listed[-1].id)
                    break
                listed.append(row)
            if not cursor:
                break
            if not listed and list_filter.exhausted:
                raise search_limit_error(context)
            after, size = (rows[-1].created_at, rows[-1].id), SEARCH_BATCH
        if not listed and page.after is None:
            for row in queries.page(connection, tenant_id, kind.name, None, 0):
                decision = grants.decide(str(context.action), target_in(context, row), request_context_of(context, row))
                if not decision.allowed:
                    raise errors.insufficient_permissions(str(context.action), decision.part, decision.reason)
    return JSONResponse({"resources": [resources_validation.wire(row, kind) for row in listed], "nextCursor": cursor})


def search_limit_error(context: TenantContext) -> ApiError:
    """Return the 403 for a listing in which none of `MAX_DECISIONS` resources was allowed."""
    return ApiError(
        403,
        "INSUFFICIENT_PERMISSIONS",
        f"{context.action} is allowed on none of the next {MAX_DECISIONS} resources",
        details={"reason": "no_match"},
        required_permission=str(context.action),
        hint="name the resources by id, or by region, in the policies of this credential",
    )


@router.post(RESOURCES, operation_id="createResource", status_code=201)
def create_resource(
    context: TenantContextDep, platform: PlatformDep, kind: OfKind, body: NewResource, provider: Provider = None
) -> JSONResponse:
    """Create a resource, with the tenant's default tags in addition to its own.

    Authorization uses the region and tags of the request, not the default tags, which take effect with a delay.
    """
    now, resource_id, tenant_id = platform.clock.now(), str(uuid4()), context.tenant_id
    tags = resources_validation.validate_tags(body.tags, kind)
    attributes = resources_validation.validate_attributes(body.attributes, counted_attributes(kind))
    values = {
        "id": resource_id,
        "tenant_id": tenant_id,
        "kind": kind.name,
        "name": service_validation.display_name(body.name, "name"),
        "region": body.region,
        "state": resources_validation.initial_state(kind),
        "relations": {},
        "attributes": attributes,
        "created_at": now,
        "updated_at": now,
    }
    with change(platform, context, shared=True) as (connection, context):
        request_context = replace(context.facts, region=body.region, request_tags=tags)
        defaults = propagated(connection, tenant_id, now - timedelta(seconds=platform.settings.tag_propagation))
        values["tags"] = with_defaults(kind, tags, defaults)
        require(platform, connection, context, target_in(context, None, body.region), request_context)
        if defaults:
            require_new_provider(provider)
        require_quota(connection, tenant_id, kind, attributes)
        row = queries.add(connection, values)
        details = {"name": values["name"], "region": body.region}
        audit_in_tenant(connection, context, AuditEvent.RESOURCE_CREATE, f"{kind.name}:{resource_id}", now, details)
        document = resources_validation.wire(row, kind)
        return created(document, RESOURCE, tenant_id=tenant_id, kind=kind.name, resource_id=resource_id)


@router.get(RESOURCE, operation_id="readResource")
def read_resource(context: TenantContextDep, platform: PlatformDep, kind: OfKind, resource_id: str) -> JSONResponse:
    """Return a resource."""
    with platform.database.read() as connection:
        return JSONResponse(
            resources_validation.wire(get_resource_or_404(connection, platform, context, kind, resource_id), kind)
        )


@router.patch(RESOURCE, operation_id="updateResource")
def update_resource(
    context: TenantContextDep, platform: PlatformDep, kind: OfKind, resource_id: str, body: ResourceChange
) -> JSONResponse:
    """Change the name or tags. Authorization uses the current and the new tags."""
    now = platform.clock.now()
    if body.name is None and body.tags is None:
        raise errors.invalid_input("nothing to change: give name or tags", reason="nothing")
    values: dict[str, Any] = {} if body.name is None else {"name": service_validation.display_name(body.name, "name")}
    if body.tags is not None:
        values["tags"] = resources_validation.validate_tags(body.tags, kind)
    with change(platform, context, shared=True) as (connection, context):
        request_context = replace(context.facts, request_tags=values.get("tags", {}))
        changed = replace(context, facts=request_context)
        row = get_resource_or_404(connection, platform, changed, kind, resource_id, lock=True)
        resources_validation.require_changeable(row, kind, retags="tags" in values)
        details = {name: {"from": getattr(row, name), "to": value} for name, value in values.items()}
        return update_and_audit(connection, context, kind, row, values, "update", now, details)


@router.delete(RESOURCE, operation_id="deleteResource", status_code=204)
def delete_resource(context: TenantContextDep, platform: PlatformDep, kind: OfKind, resource_id: str) -> Response:
    """Delete a resource; for a cluster, also its issuer and the tokens of its workloads."""
    now, tenant_id = platform.clock.now(), context.tenant_id
    with change(platform, context, shared=kind.name != CLUSTER) as (connection, context):
        row = get_resource_or_404(connection, platform, context, kind, resource_id, lock=True)
        resources_validation.require_changeable(row, kind, retags=False)
        if kind.name == CLUSTER:
            cluster_issuers.delete_issuer(connection, tenant_id, resource_id)
        queries.remove(connection, tenant_id, resource_id)
        audit_in_tenant(
            connection, context, AuditEvent.RESOURCE_DELETE, f"{kind.name}:{resource_id}", now, {"name": row.name}
        )
    return no_content()


@router.post(f"{RESOURCE}/start", operation_id="startResource")
def start_resource(context: TenantContextDep, platform: PlatformDep, kind: OfKind, resource_id: str) -> JSONResponse:
    """Start a stopped resource."""
    return change_power_state(context, platform, kind, resource_id, "start")


@router.post(f"{RESOURCE}/stop", operation_id="stopResource")
def stop_resource(context: TenantContextDep, platform: PlatformDep, kind: OfKind, resource_id: str) -> JSONResponse:
    """Stop a running resource."""
    return change_power_state(context, platform, kind, resource_id, "stop")


@router.post(f"{RESOURCE}/restart", operation_id="restartResource")
def restart_resource(context: TenantContextDep, platform: PlatformDep, kind: OfKind, resource_id: str) -> JSONResponse:
    """Restart a running resource."""
    return change_power_state(context, platform, kind, resource_id, "restart")


def change_power_state(
    context: TenantContext, platform: Platform, kind: Kind, resource_id: str, verb: str
) -> JSONResponse:
    now = platform.clock.now()
    with change(platform, context, shared=True) as (connection, context):
        row = get_resource_or_404(connection, platform, context, kind, resource_id, lock=True)
        state = resources_validation.next_state(verb, kind, row.state)
        details = {"from": row.state, "to": state}
        return update_and_audit(connection, context, kind, row, {"state": state}, verb, now, details)


def update_and_audit(
    connection: Connection,
    context: TenantContext,
    kind: Kind,
    row: Record,
    values: dict[str, Any],
    verb: str,
    now: datetime,
    details: dict[str, Any],
) -> JSONResponse:
    """Update and audit a resource; return the response."""
    tenant_id = context.tenant_id
    changed = or_404(queries.change(connection, tenant_id, row.id, values | {"updated_at": now}))
    audit_in_tenant(connection, context, AuditEvent(f"resource.{verb}"), f"{kind.name}:{row.id}", now, details)
    return JSONResponse(resources_validation.wire(changed, kind))


def get_resource_or_404(
    connection: Connection,
    platform: Platform,
    context: TenantContext,
    kind: Kind,
    resource_id: str,
    *,
    lock: bool = False,
) -> Record:
    """Return a resource on which the principal may perform the route's operation.

    Raises:
        ApiError: flat 404, 403 INSUFFICIENT_PERMISSIONS.
    """
    tenant_id = context.tenant_id
    row = queries.find(connection, tenant_id, kind.name, resource_id, lock=lock) if is_id(resource_id) else None
    if row is None:
        require_somewhere(load_grants(platform, connection, context), context)
        raise errors.not_found()
    require(platform, connection, context, target_in(context, row), request_context_of(context, row))
    return row


def request_context_of(context: TenantContext, row: Record) -> RequestContext:
    return replace(context.facts, region=row.region, resource_tags=row.tags)

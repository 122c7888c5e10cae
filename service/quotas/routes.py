"""Quotas over HTTP: what a tenant or an organization may have, and what is in use of it. contract: Quota

A tenant's are read with any credential that may enter it, whatever its scopes (checklist Q15), unless a policy denies
it; an organization's by people only (Q14).
"""

from typing import Annotated, Any

from fastapi import Depends
from starlette.responses import JSONResponse

from service.api.protected_route import protected_router
from service.authz.authorize import AuthorizationContext, get_context
from service.catalogue.quota_types import QuotaType, quota_types
from service.context import Platform, platform_of
from service.quotas import limits as quotas_limits
from service.quotas import queries, usage
from service.quotas.limits import IMAGES, OF_COMPUTE, Use

router = protected_router("quotas")
QUOTAS = "/api/v1/tenants/{tenant_id}/quotas"

Granted = Annotated[AuthorizationContext, Depends(get_context)]
Here = Annotated[Platform, Depends(platform_of)]


@router.get("/api/v1/tenants/{tenant_id}/quotas-report")
def report_tenant_quotas(access: Granted, platform: Here) -> JSONResponse:
    """Limit, use and what may be asked for at once of every resource type; images are told by the compute service."""
    tenant_id, organization_id = str(access.tenant_id), str(access.organization_id)
    types = [quota for quota in quota_types().values() if quota.resource_type not in IMAGES]
    with platform.database.read() as connection:
        limits = queries.limits_of(connection, tenant_id)
        used = usage.uses(connection, [tenant_id], types)[tenant_id]
        allocated = queries.allocated(connection, organization_id)
        at_most = queries.organization_limits(connection, organization_id)
    quotas = []
    for quota in types:
        name = quota.resource_type
        entry = to_json(quota, limits[name], used[name])
        bound = at_most[name]
        if bound is not None:
            entry["requestable"] = quotas_limits.requestable(limits[name], bound, allocated[name])
        quotas.append(entry)
    return JSONResponse({"report": {"scope": "tenant", "quotas": quotas}})


@router.get(QUOTAS)
def list_compute_limits(access: Granted, platform: Here) -> JSONResponse:
    """The limits of what the compute service counts, by its own names."""
    with platform.database.read() as connection:
        limits = queries.limits_of(connection, str(access.tenant_id))
    return JSONResponse({name: limits[resource_type] for name, resource_type in OF_COMPUTE.items()})


@router.get(QUOTAS + "/usage")
def list_compute_usage(access: Granted, platform: Here) -> JSONResponse:
    """What is in use of them; null is unknown."""
    tenant_id = str(access.tenant_id)
    types = [quota_types()[resource_type] for resource_type in OF_COMPUTE.values()]
    with platform.database.read() as connection:
        used = usage.uses(connection, [tenant_id], types)[tenant_id]
    return JSONResponse({name: _total(used[resource_type]) for name, resource_type in OF_COMPUTE.items()})


@router.get("/api/v1/organizations/{organization_id}/quotas-report")
def report_organization_quotas(access: Granted, platform: Here) -> JSONResponse:
    """The limits of an organization, what its tenants have of them, and what they use together.

    Every tenant counts, also those the caller cannot enter: of these only the limit is told. checklist Q11 to Q13
    """
    organization_id, types = str(access.organization_id), quota_types()
    with platform.database.read() as connection:
        names = queries.tenant_names(connection, access.caller, organization_id)
        tenant_ids = queries.tenant_ids_of(connection, organization_id)
        limits = queries.limits(connection, tenant_ids)
        used = usage.uses(connection, tenant_ids, list(types.values()))
        at_most = queries.organization_limits(connection, organization_id)
    quotas = []
    for name, quota in types.items():
        shares = {tenant_id: limits.get(tenant_id, {}).get(name, quota.limit) for tenant_id in tenant_ids}
        allocated, bound = sum(shares.values()), at_most[name]
        use = quotas_limits.sum_uses([used[tenant_id][name] for tenant_id in tenant_ids])
        # What cannot be requested is given to tenants one by one: the organization has what they have.
        entry = to_json(quota, allocated if bound is None else bound, use)
        entry["allocated"] = allocated
        entry["tenants"] = [
            {
                "tenantId": tenant_id,
                "displayName": names.get(tenant_id),
                "limit": share,
                "used": _total(used[tenant_id][name]) if tenant_id in names else None,
            }
            for tenant_id, share in shares.items()
        ]
        quotas.append(entry)
    return JSONResponse({"report": {"scope": "organization", "quotas": quotas}})


def to_json(quota: QuotaType, limit: int, use: Use | None) -> dict[str, Any]:
    """A quota on the wire. Unknown use is null, never 0. checklist Q03"""
    return {
        "resourceType": quota.resource_type,
        "title": quota.title,
        "used": _total(use),
        "creating": None if use is None else use.creating,
        "limit": limit,
        "unit": quota.unit,
    }


def _total(use: Use | None) -> int | None:
    return None if use is None else use.total

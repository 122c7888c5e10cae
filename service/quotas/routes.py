"""Routes of quotas: limits and use of a tenant or an organization.

Principals of a tenant need no scope to read its quotas, but a policy may deny it. Only people read those of an
organization.
"""

from typing import Any

from service.api.dependencies import OrganizationContextDep, PlatformDep, TenantContextDep
from service.api.protected_route import protected_router
from service.authz.endpoints import ORGANIZATION, QUOTAS, TENANT
from service.catalogue.resource_types import QuotaType, quota_types
from service.json_bodies import JSONResponse
from service.quotas import limits as quotas_limits
from service.quotas import quota_request
from service.quotas.limits import COMPUTE_NAMES, IMAGES, Use

router = protected_router("quotas")


@router.get(f"{TENANT}/quotas-report", operation_id="reportTenantQuotas")
def report_tenant_quotas(context: TenantContextDep, platform: PlatformDep) -> JSONResponse:
    """Report limit, use and `requestable` limit of every resource type except images, which the compute API reports."""
    tenant_id, organization_id = context.tenant_id, context.organization_id
    types = [quota for quota in quota_types().values() if quota.resource_type not in IMAGES]
    with platform.database.read() as connection:
        limits = quotas_limits.limits_of(connection, tenant_id)
        used = quotas_limits.uses(connection, [tenant_id], types)[tenant_id]
        allocated = quotas_limits.allocated(connection, organization_id)
        maximums = quotas_limits.organization_limits(connection, organization_id)
    quotas = []
    for quota in types:
        name = quota.resource_type
        entry = to_json(quota, limits[name], used[name])
        bound = maximums[name]
        if bound is not None:
            entry["requestable"] = quota_request.requestable(limits[name], bound, allocated[name])
        quotas.append(entry)
    return JSONResponse({"report": {"scope": "tenant", "quotas": quotas}})


@router.get(QUOTAS, operation_id="listComputeLimits")
def list_compute_limits(context: TenantContextDep, platform: PlatformDep) -> JSONResponse:
    """Return the limits of compute resources, by the names of the compute API."""
    with platform.database.read() as connection:
        limits = quotas_limits.limits_of(connection, context.tenant_id)
    return JSONResponse({name: limits[resource_type] for name, resource_type in COMPUTE_NAMES.items()})


@router.get(f"{QUOTAS}/usage", operation_id="listComputeUsage")
def list_compute_usage(context: TenantContextDep, platform: PlatformDep) -> JSONResponse:
    """Return the use of compute resources, by the names of the compute API; null is unknown."""
    tenant_id = context.tenant_id
    types = [quota_types()[resource_type] for resource_type in COMPUTE_NAMES.values()]
    with platform.database.read() as connection:
        used = quotas_limits.uses(connection, [tenant_id], types)[tenant_id]
    return JSONResponse({name: _total(used[resource_type]) for name, resource_type in COMPUTE_NAMES.items()})


@router.get(f"{ORGANIZATION}/quotas-report", operation_id="reportOrganizationQuotas")
def report_organization_quotas(context: OrganizationContextDep, platform: PlatformDep) -> JSONResponse:
    """Report the limits of an organization and of all its tenants, and their total use.

    Of tenants that the principal may not enter only the limit is shown.
    """
    organization_id, types = context.organization_id, quota_types()
    with platform.database.read() as connection:
        names = quotas_limits.tenant_names(connection, context.principal, organization_id)
        tenant_ids = quotas_limits.tenant_ids_of(connection, organization_id)
        limits = quotas_limits.stored_limits(connection, tenant_ids)
        used = quotas_limits.uses(connection, tenant_ids, list(types.values()))
        maximums = quotas_limits.organization_limits(connection, organization_id)
    quotas = []
    for name, quota in types.items():
        shares = {tenant_id: limits.get(tenant_id, {}).get(name, quota.limit) for tenant_id in tenant_ids}
        allocated, bound = sum(shares.values()), maximums[name]
        use = quotas_limits.sum_uses([used[tenant_id][name] for tenant_id in tenant_ids])
        # Without a limit of the organization, the sum of its tenants' limits is reported.
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

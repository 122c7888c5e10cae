"""Calls about tenants and their durable operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from client.transport.call import Call, Model, Request, new_idempotency_key, path, record, records

if TYPE_CHECKING:
    from client.models.tenants import Operation, Tenant, TenantList

TENANT: Model[Tenant] = Model("tenants.Tenant")
TENANT_LIST: Model[TenantList] = Model("tenants.TenantList")
OPERATION: Model[Operation] = Model("tenants.Operation")

NEEDS = ("id", "displayName", "status")


def list_all(usage: bool = False) -> Call[TenantList]:
    """List the principal's tenants in all organizations.

    Args:
        usage: Include `tightestQuota`, for which the platform computes a sum per tenant.
    """
    return record(Request("GET", "/v1/tenants", _include(usage)), TENANT_LIST, member="tenants")


def list_of(organization_id: str, usage: bool = False) -> Call[TenantList]:
    route = path("/v1/organizations/{}/tenants", organization_id)
    return record(Request("GET", route, _include(usage)), TENANT_LIST, member="tenants")


def get(tenant_id: str) -> Call[Tenant]:
    return record(Request("GET", path("/v1/tenants/{}", tenant_id)), TENANT, NEEDS)


def create(organization_id: str, display_name: str) -> Call[Tenant]:
    """Create a tenant. The response has status `provisioning` and the ids of the provisioning operation."""
    route = path("/v1/organizations/{}/tenants", organization_id)
    request = Request("POST", route, body={"displayName": display_name}, idempotency_key=new_idempotency_key())
    return record(request, TENANT, NEEDS)


def rename(tenant_id: str, display_name: str) -> Call[Tenant]:
    """Change the display name; the slug does not change."""
    request = Request("PATCH", path("/v1/tenants/{}", tenant_id), body={"displayName": display_name})
    return record(request, TENANT, NEEDS)


def operation(tenant_id: str, operation_id: str) -> Call[Operation]:
    """Get an operation by its operation id (the latest run) or its run id."""
    route = path("/v1/tenants/{}/operations/{}", tenant_id, operation_id)
    return record(Request("GET", route), OPERATION, ("operationId", "status"))


def operations(tenant_id: str) -> Call[list[Operation]]:
    """List the newest operations of a tenant, at most 50."""
    return records(Request("GET", path("/v1/tenants/{}/operations", tenant_id)), "operations", OPERATION)


def _include(usage: bool) -> tuple[tuple[str, str], ...]:
    return (("include", "usage"),) if usage else ()

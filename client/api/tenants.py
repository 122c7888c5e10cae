"""Calls about tenants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from client.transport.request import Call, Request, new_idempotency_key, path

if TYPE_CHECKING:
    from client.models.tenants import Tenant, TenantList
    from client.transport.async_client import AsyncClient

MODEL = "tenants.Tenant"
NEEDS = ("id", "displayName", "status")


def list_all(usage: bool = False) -> Call:
    """List the principal's tenants in all organizations.

    Args:
        usage: Include `tightestQuota`, for which the platform computes a sum per tenant.
    """
    return Call(Request("GET", "/v1/tenants", _include(usage)), "tenants", MODEL)


def list_of(organization_id: str, usage: bool = False) -> Call:
    route = path("/v1/organizations/{}/tenants", organization_id)
    return Call(Request("GET", route, _include(usage)), "tenants", MODEL)


def get(tenant_id: str) -> Call:
    return Call(Request("GET", path("/v1/tenants/{}", tenant_id)), model=MODEL, needs=NEEDS)


def create(organization_id: str, display_name: str) -> Call:
    """Create a tenant. The response has status `provisioning` and the ids of the provisioning operation."""
    route = path("/v1/organizations/{}/tenants", organization_id)
    request = Request("POST", route, body={"displayName": display_name}, idempotency_key=new_idempotency_key())
    return Call(request, model=MODEL, needs=NEEDS)


def rename(tenant_id: str, display_name: str) -> Call:
    """Change the display name; the slug does not change."""
    request = Request("PATCH", path("/v1/tenants/{}", tenant_id), body={"displayName": display_name})
    return Call(request, model=MODEL, needs=NEEDS)


def _include(usage: bool) -> tuple[tuple[str, str], ...]:
    return (("include", "usage"),) if usage else ()


class Tenants:
    """The calls of this module with models as results."""

    def __init__(self, http: AsyncClient) -> None:
        self._http = http

    async def list(self, *, usage: bool = False) -> TenantList:
        found: TenantList = await self._http.document(list_all(usage), "tenants.TenantList")
        return found

    async def list_of(self, organization_id: str, *, usage: bool = False) -> TenantList:
        found: TenantList = await self._http.document(list_of(organization_id, usage), "tenants.TenantList")
        return found

    async def get(self, tenant_id: str) -> Tenant:
        found: Tenant = await self._http.record(get(tenant_id))
        return found

    async def create(self, organization_id: str, display_name: str) -> Tenant:
        found: Tenant = await self._http.record(create(organization_id, display_name))
        return found

    async def rename(self, tenant_id: str, display_name: str) -> Tenant:
        found: Tenant = await self._http.record(rename(tenant_id, display_name))
        return found

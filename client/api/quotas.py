"""Calls about quotas and quota requests."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from client.transport.request import MOST, Call, Request, new_idempotency_key, path, query

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from client.models.quotas import OrganizationQuota, Quota, QuotaRequest
    from client.transport.async_client import AsyncClient

REQUEST = "quotas.QuotaRequest"
BOUND_EXCEEDED = "QUOTA_BOUND_EXCEEDED"
PENDING = "QUOTA_REQUEST_PENDING"
IMAGES = (("image", "Custom images", "images", "count"), ("image_storage", "Image storage", "imageStorageGb", "gb"))
"""Resource types for which only the compute service has figures: type, title, member of its responses, unit."""
UNREQUESTABLE = frozenset(resource_type for resource_type, *_ in IMAGES)
"""Types whose limits only support can change."""


def report(tenant_id: str) -> Call:
    """Get a tenant's quotas except images; `complete` merges it with the next two calls."""
    return Call(
        Request("GET", path("/v1/tenants/{}/quotas-report", tenant_id)), model="quotas.Report", needs=("report",)
    )


def limits(tenant_id: str) -> Call:
    """Get the compute service's limits as a flat object."""
    return Call(Request("GET", path("/v1/tenants/{}/quotas", tenant_id)), model="quotas.Figures")


def usage(tenant_id: str) -> Call:
    """Get the use of these limits in the same form; null is unknown."""
    return Call(Request("GET", path("/v1/tenants/{}/quotas/usage", tenant_id)), model="quotas.Figures")


def complete(report: Mapping[str, Any], limits: Mapping[str, Any], usage: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Merge the three responses into a tenant's quotas: those of the report, then the images."""
    found = quotas_of(report)
    known = {one.get("resourceType") for one in found}
    for resource_type, title, member, unit in IMAGES:
        limit, used = limits.get(member), usage.get(member)
        if _is_count(limit) and resource_type not in known:
            counted = used if _is_count(used) else None
            found.append({"resourceType": resource_type, "title": title, "used": counted, "limit": limit, "unit": unit})
    return found


def quotas_of(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the quotas in a report. Raises FrostError if the report is invalid."""
    inner = answer.get("report")
    found = inner.get("quotas") if isinstance(inner, Mapping) else None
    if not isinstance(found, Sequence) or not all(_is_quota(one) for one in found):
        from client.errors import FrostError
        from client.transport.responses import BAD_ANSWER

        raise FrostError("the answer is no quota report", code=BAD_ANSWER, hint="check api_endpoint: frost config show")
    return [dict(one) for one in found]


def _is_quota(value: object) -> bool:
    if not isinstance(value, Mapping) or not _is_count(value.get("limit")):
        return False
    named = all(isinstance(value.get(name), str) for name in ("resourceType", "unit"))
    figures = (value.get(name) for name in ("used", "creating", "requestable", "allocated"))
    return named and all(figure is None or _is_count(figure) for figure in figures)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def organization_report(organization_id: str) -> Call:
    """Get the quotas of an organization and its tenants; for people only."""
    route = path("/v1/organizations/{}/quotas-report", organization_id)
    return Call(Request("GET", route), model="quotas.Report", needs=("report",))


def request(tenant_id: str, resource_type: str, limit: int, reason: str) -> Call:
    """Request a limit for a tenant. The platform approves or denies it immediately."""
    return _request(path("/v1/tenants/{}/quota-requests", tenant_id), resource_type, limit, reason)


def request_page(tenant_id: str, *, limit: int | None = None, cursor: str = "") -> Call:
    """List a page of a tenant's requests, newest first, and of its organization's pending ones."""
    route = path("/v1/tenants/{}/quota-requests", tenant_id)
    return Call(Request("GET", route, query(limit, cursor)), "requests", REQUEST)


def request_organization(organization_id: str, resource_type: str, limit: int, reason: str) -> Call:
    """Request a limit for an organization, which the operator must review; for people only."""
    return _request(path("/v1/organizations/{}/quota-requests", organization_id), resource_type, limit, reason)


def organization_request_page(organization_id: str, *, limit: int | None = None, cursor: str = "") -> Call:
    """List a page of an organization's requests, newest first; for people only."""
    route = path("/v1/organizations/{}/quota-requests", organization_id)
    return Call(Request("GET", route, query(limit, cursor)), "requests", REQUEST)


def _request(route: str, resource_type: str, limit: int, reason: str) -> Call:
    body = {"resourceType": resource_type, "limit": limit, "reason": reason}
    request = Request("POST", route, body=body, idempotency_key=new_idempotency_key())
    return Call(request, model="quotas.RequestAnswer", needs=("request",))


class Quotas:
    """The calls of this module with models as results."""

    def __init__(self, http: AsyncClient) -> None:
        self._http = http

    async def of_tenant(self, tenant_id: str) -> builtins.list[Quota]:
        """Return all quotas of a tenant, including images, from three concurrent requests."""
        import asyncio

        from client.transport.async_client import modelled

        answers = await asyncio.gather(*(self._http.call(ask(tenant_id)) for ask in (report, limits, usage)))
        return [modelled(one, "quotas.Quota") for one in complete(*answers)]

    async def of_organization(self, organization_id: str) -> builtins.list[OrganizationQuota]:
        from client.transport.async_client import modelled

        answer = await self._http.call(organization_report(organization_id))
        return [modelled(one, "quotas.OrganizationQuota") for one in quotas_of(answer)]

    async def request(self, tenant_id: str, resource_type: str, limit: int, reason: str) -> QuotaRequest:
        """Request a limit, decided immediately. Raises FrostError BOUND_EXCEEDED if it requires a review."""
        found: QuotaRequest = (await self._http.record(request(tenant_id, resource_type, limit, reason))).request
        return found

    def requests(self, tenant_id: str) -> AsyncIterator[builtins.list[QuotaRequest]]:
        return self._http.pages(lambda cursor: request_page(tenant_id, limit=MOST, cursor=cursor))

    async def request_organization(
        self, organization_id: str, resource_type: str, limit: int, reason: str
    ) -> QuotaRequest:
        """Request a limit, which requires a review. Raises FrostError PENDING if the type has a pending request."""
        call = request_organization(organization_id, resource_type, limit, reason)
        found: QuotaRequest = (await self._http.record(call)).request
        return found

    def organization_requests(self, organization_id: str) -> AsyncIterator[builtins.list[QuotaRequest]]:
        return self._http.pages(lambda cursor: organization_request_page(organization_id, limit=MOST, cursor=cursor))

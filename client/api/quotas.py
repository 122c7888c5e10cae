"""Calls about quotas and quota requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from client.transport.call import (
    Call,
    Model,
    Request,
    malformed_response,
    member_record,
    new_idempotency_key,
    page_query,
    path,
    record,
    records,
)

if TYPE_CHECKING:
    from client.models.quotas import Figures, OrganizationQuota, Quota, QuotaRequest, Report
    from client.transport.call import Ask

REPORT: Model[Report] = Model("quotas.Report")
FIGURES: Model[Figures] = Model("quotas.Figures")
QUOTA_REQUEST: Model[QuotaRequest] = Model("quotas.QuotaRequest")
QUOTA: Model[Quota] = Model("quotas.Quota")
ORGANIZATION_QUOTA: Model[OrganizationQuota] = Model("quotas.OrganizationQuota")

BOUND_EXCEEDED = "QUOTA_BOUND_EXCEEDED"
PENDING = "QUOTA_REQUEST_PENDING"
IMAGES = (("image", "Custom images", "images", "count"), ("image_storage", "Image storage", "imageStorageGb", "gb"))
"""Resource types for which only the compute service has figures: type, title, member of its responses, unit."""
UNREQUESTABLE = frozenset(resource_type for resource_type, *_ in IMAGES)
"""Types whose limits only support can change."""


def report(tenant_id: str) -> Call[Report]:
    """Get a tenant's quotas except images. `load` asks for all quotas, and `complete` merges JSON responses."""
    return record(Request("GET", path("/v1/tenants/{}/quotas-report", tenant_id)), REPORT, ("report",))


def limits(tenant_id: str) -> Call[Figures]:
    """Get the compute service's limits as a flat object."""
    return record(Request("GET", path("/v1/tenants/{}/quotas", tenant_id)), FIGURES)


def usage(tenant_id: str) -> Call[Figures]:
    """Get the use of these limits in the same form; null is unknown."""
    return record(Request("GET", path("/v1/tenants/{}/quotas/usage", tenant_id)), FIGURES)


def complete(report: Mapping[str, Any], limits: Mapping[str, Any], usage: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Merge the three responses into a tenant's quotas: those of the report, then the images."""
    quotas = quotas_of(report)
    reported = {quota.get("resourceType") for quota in quotas}
    for resource_type, title, member, unit in IMAGES:
        limit, used = limits.get(member), usage.get(member)
        if _is_count(limit) and resource_type not in reported:
            used = used if _is_count(used) else None
            quotas.append({"resourceType": resource_type, "title": title, "used": used, "limit": limit, "unit": unit})
    return quotas


async def load(ask: Ask, tenant_id: str) -> list[Quota]:
    """Ask for all quotas of a tenant, including images, with three concurrent requests."""
    import asyncio

    answers = await asyncio.gather(ask(report(tenant_id)), ask(limits(tenant_id)), ask(usage(tenant_id)))
    return [QUOTA.parse(quota) for quota in complete(*(answer.wire() for answer in answers))]


def quotas_of(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the quotas in a report. Raises FrostError if the report is invalid."""
    inner = document.get("report")
    quotas = inner.get("quotas") if isinstance(inner, Mapping) else None
    if not isinstance(quotas, Sequence) or not all(_is_quota(quota) for quota in quotas):
        raise malformed_response("the response is not a quota report")
    return [dict(quota) for quota in quotas]


def _is_quota(value: object) -> bool:
    if not isinstance(value, Mapping) or not _is_count(value.get("limit")):
        return False
    labelled = all(isinstance(value.get(name), str) for name in ("resourceType", "unit"))
    figures = (value.get(name) for name in ("used", "creating", "requestable", "allocated"))
    return labelled and all(figure is None or _is_count(figure) for figure in figures)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def organization_report(organization_id: str) -> Call[list[OrganizationQuota]]:
    """Get the quotas of an organization and its tenants; for people only."""
    request = Request("GET", path("/v1/organizations/{}/quotas-report", organization_id))
    return Call(
        request, lambda document: [ORGANIZATION_QUOTA.parse(quota) for quota in quotas_of(document)], needs=("report",)
    )


def request(tenant_id: str, resource_type: str, limit: int, reason: str) -> Call[QuotaRequest]:
    """Request a limit for a tenant. The platform approves or denies it immediately."""
    return _request(path("/v1/tenants/{}/quota-requests", tenant_id), resource_type, limit, reason)


def request_page(tenant_id: str, *, limit: int | None = None, cursor: str = "") -> Call[list[QuotaRequest]]:
    """List a page of a tenant's requests, newest first, and of its organization's pending ones."""
    route = path("/v1/tenants/{}/quota-requests", tenant_id)
    return records(Request("GET", route, page_query(limit, cursor)), "requests", QUOTA_REQUEST)


def request_organization(organization_id: str, resource_type: str, limit: int, reason: str) -> Call[QuotaRequest]:
    """Request a limit for an organization, which the operator must review; for people only."""
    return _request(path("/v1/organizations/{}/quota-requests", organization_id), resource_type, limit, reason)


def organization_request_page(
    organization_id: str, *, limit: int | None = None, cursor: str = ""
) -> Call[list[QuotaRequest]]:
    """List a page of an organization's requests, newest first; for people only."""
    route = path("/v1/organizations/{}/quota-requests", organization_id)
    return records(Request("GET", route, page_query(limit, cursor)), "requests", QUOTA_REQUEST)


def _request(route: str, resource_type: str, limit: int, reason: str) -> Call[QuotaRequest]:
    body = {"resourceType": resource_type, "limit": limit, "reason": reason}
    request = Request("POST", route, body=body, idempotency_key=new_idempotency_key())
    return member_record(request, "request", QUOTA_REQUEST)

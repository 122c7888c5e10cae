"""Quotas of tenants and organizations, and quota requests."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from client.models.base import Instant, Person, Wire


class BaseQuota(Wire):
    """A quota of a resource type, in `unit` (count, gb, mb).

    `used` includes `creating`, the part that is being created; None is unknown, not 0.
    """

    resource_type: str
    title: str = ""
    used: int | None = None
    creating: int | None = None
    limit: int
    unit: str = "count"

    @property
    def name(self) -> str:
        """The title, or the resource type if it has no title."""
        return self.title or self.resource_type


class Quota(BaseQuota):
    """A tenant's quota. `requestable` is the highest limit without review; None if the limit cannot be requested."""

    requestable: int | None = None


class Report(Wire):
    """The quotas of a tenant or an organization, for which the members of `report` differ."""

    report: dict[str, Any]


class Figures(Wire):
    """The limits of the compute service, or their use. None is unknown."""

    images: int | None = None
    image_storage_gb: int | None = None


class TenantShare(Wire):
    """A tenant's share of an organization's quota; `display_name` is None if the principal may not enter the tenant."""

    tenant_id: str
    display_name: str | None = None
    limit: int
    used: int | None = None


class OrganizationQuota(BaseQuota):
    """An organization's quota; `allocated` is the sum of its tenants' limits, `used` None if any is unknown."""

    allocated: int = 0
    tenants: tuple[TenantShare, ...] = ()


class QuotaRequest(Wire):
    """A quota request and its decision: `status` is approved, denied, pending or rejected.

    `id` is empty if it was not stored because the limit is already in effect. Only the operator gets the organization's
    name. `limit_before` (`from` on the wire) is the limit at the time of the request, `limit` the requested one.
    """

    id: str
    scope: str = "tenant"
    tenant_id: str | None = None
    organization_id: str = ""
    organization_name: str = ""
    resource_type: str
    unit: str = "count"
    limit_before: int | None = Field(default=None, alias="from")
    limit: int
    reason: str = ""
    status: str
    decision: str | None = None
    details: dict[str, Any] | None = None
    requested_by: Person | None = None
    created_at: Instant | None = None
    decided_at: Instant | None = None
    decided_by: str | None = None


class RequestAnswer(Wire):
    """The response to a new quota request."""

    request: QuotaRequest

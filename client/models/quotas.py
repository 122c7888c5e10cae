"""Quotas of tenants and organizations, and requests to change them. Source: contract: Quota; facts 2.11."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from client.models.base import Instant, Wire
from client.models.people import Person


class Quota(Wire):
    """What a tenant may have of a resource type, in `unit` (count, gb, mb).

    `used` holds what is being created too, `creating` how much of it that is; None is unknown, which is not 0.
    `requestable` is the highest limit without review; None where the limit cannot be requested at all.
    """

    resource_type: str
    title: str = ""
    used: int | None = None
    creating: int | None = None
    limit: int
    unit: str = "count"
    requestable: int | None = None


class Report(Wire):
    """What a tenant or an organization uses of what it may; the members of `report` depend on whose it is."""

    report: dict[str, Any]


class Figures(Wire):
    """What the compute service knows: its own limits, or what is used of them. None is unknown."""

    images: int | None = None
    image_storage_gb: int | None = None


class TenantShare(Wire):
    """A tenant's part in its organization's quota; `display_name` is None for a tenant that is not yours to enter."""

    tenant_id: str
    display_name: str | None = None
    limit: int
    used: int | None = None


class OrganizationQuota(Wire):
    """What an organization may have; `allocated` is the sum of its tenants' limits, `used` None if any is unknown."""

    resource_type: str
    title: str = ""
    used: int | None = None
    creating: int | None = None
    limit: int
    unit: str = "count"
    allocated: int = 0
    tenants: tuple[TenantShare, ...] = ()


class QuotaRequest(Wire):
    """A wish for another limit, and what was decided: `status` is approved, denied, pending or rejected.

    `id` is empty where nothing was stored: that was the limit already. The organization's name comes to staff only.
    `limit_before` (`from` on the wire) was the limit when it was asked, `limit` is the one that is asked for.
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
    """What became of a request that was just made."""

    request: QuotaRequest

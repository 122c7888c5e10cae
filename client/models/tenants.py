"""Tenants. Source: contract: Tenant; facts 1.6."""

from __future__ import annotations

from client.models.base import Instant, Wire


class TightestQuota(Wire):
    """The quota of a tenant that is nearest to its limit. `used` None: unknown, which is not 0 (contract: Quota)."""

    resource_type: str
    used: int | None = None
    limit: int
    unit: str = ""


class Tenant(Wire):
    """A tenant as its caller sees it.

    `status` is provisioning or active; the operation's ids are there only while it is provisioning; `tightest_quota`
    is there only when asked for, and None when the tenant has no quota.
    """

    id: str
    display_name: str
    slug: str
    status: str
    organization_id: str
    organization_name: str
    role: str
    default_tag_count: int = 0
    created_at: Instant
    updated_at: Instant
    operation_id: str | None = None
    run_id: str | None = None
    tightest_quota: TightestQuota | None = None


class TenantList(Wire):
    """The tenants a caller may use; `default_tenant_id` is empty when the caller has none."""

    tenants: list[Tenant]
    default_tenant_id: str | None = None

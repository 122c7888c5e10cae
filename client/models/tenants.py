"""Tenants."""

from __future__ import annotations

from client.models.base import Instant, Wire


class TightestQuota(Wire):
    """The tenant's quota nearest to its limit. `used` is None if unknown, which is not 0."""

    resource_type: str
    used: int | None = None
    limit: int
    unit: str = ""


class Tenant(Wire):
    """A tenant, with the principal's role.

    `status` is provisioning or active; the operation's ids are set only while provisioning; `tightest_quota` is set
    only if requested, and None if the tenant has no quota.
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
    """The principal's tenants; `default_tenant_id` is empty if there is no default tenant."""

    tenants: list[Tenant]
    default_tenant_id: str | None = None

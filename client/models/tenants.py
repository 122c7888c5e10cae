"""Tenants, their durable operations, and the entries of their audit log."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from client.models.base import Instant, Wire


class TightestQuota(Wire):
    """The tenant's quota nearest to its limit. `used` is None if unknown, which is not 0."""

    resource_type: str
    title: str = ""
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


class Step(Wire):
    """A step of an operation; `status` is pending, running, retrying, completed or failed."""

    name: str
    status: str
    attempts: int = 0
    started_at: Instant | None = None
    completed_at: Instant | None = None
    error: str | None = None


class Operation(Wire):
    """A run of a durable operation.

    `status` is pending, running, completed, failed or cancelled; `progress` is 0 to 100; `error` is a text for users,
    `error_code` is set for some failures only; `result` is set when completed, `counts` are the current counts.
    `stalled` marks an open run without progress for a minute. Only the operator gets `tenant_name`. `created_at` is
    None for a run that was started but not read yet.
    """

    operation_id: str
    run_id: str = ""
    status: str
    resource_type: str = ""
    resource_id: str | None = None
    tenant_id: str = ""
    tenant_name: str | None = None
    kind: str = ""
    progress: float = 0
    current_step: str | None = None
    steps: tuple[Step, ...] = ()
    created_at: Instant | None = None
    started_at: Instant | None = None
    completed_at: Instant | None = None
    updated_at: Instant | None = None
    seq: int = 0
    stalled: bool = False
    error: str | None = None
    error_code: str | None = None
    result: Any = None
    counts: Any = None
    started_by: str | None = None


class Actor(Wire):
    """The principal of an entry. `name` and `email` are set for a person who belongs to the organization.

    `kind` is session, api_key, workload, staff, platform or anonymous.
    """

    kind: str
    id: str = ""
    name: str | None = None
    email: str | None = None


class Entry(Wire):
    """An entry. `target` is the recorded text: `policy:ID`, or the path of a refused request.

    `target_kind` and `target_id` identify the target. Names are those of objects that still exist; `credential_name` is
    the name of a key or workload identity. `outcome` is done, refused or failed; `details` describe the change, and
    `detail_names` has the names of other objects in them, by id.
    """

    id: str
    at: Instant
    request_id: str = ""
    actor: Actor
    credential_id: str | None = None
    credential_name: str | None = None
    operation: str
    target: str = ""
    target_kind: str | None = None
    target_id: str | None = None
    target_name: str | None = None
    outcome: str
    details: dict[str, Any] = Field(default_factory=dict)
    detail_names: dict[str, str] = Field(default_factory=dict)

"""The platform's tables, as SQLAlchemy Core, the same on SQLite and PostgreSQL; a module an area.

This one knows them all: whoever asks for a table need not know its area, and `metadata` is whole.
"""

from service.db.tables.access import group_members, groups, policies, policy_attachments, policy_versions
from service.db.tables.columns import EPOCH, MICROSECOND, Document, metadata
from service.db.tables.identity import (
    api_keys,
    authorization_codes,
    cluster_issuers,
    device_codes,
    identities,
    membership_tenants,
    memberships,
    organizations,
    refresh_tokens,
    sessions,
    users,
    workload_identities,
    workload_tokens,
)
from service.db.tables.platform import (
    OF_NO_TENANT,
    OPEN_OPERATION,
    applied_tags,
    audit_head,
    audit_log,
    executors,
    idempotency_keys,
    open_operations,
    operations,
    organization_entries,
    platform_state,
    rate_limits,
)
from service.db.tables.tenancy import (
    PENDING_REQUEST,
    billing_accounts,
    catalogue_operations,
    default_tag_versions,
    isolation_projects,
    organization_quotas,
    pending_requests,
    quota_requests,
    resources,
    tenant_quotas,
    tenant_roles,
    tenants,
)

__all__ = [
    "EPOCH",
    "MICROSECOND",
    "Document",
    "api_keys",
    "applied_tags",
    "audit_head",
    "audit_log",
    "authorization_codes",
    "billing_accounts",
    "catalogue_operations",
    "cluster_issuers",
    "complete_for_postgresql",
    "default_tag_versions",
    "device_codes",
    "executors",
    "group_members",
    "groups",
    "idempotency_keys",
    "identities",
    "isolation_projects",
    "membership_tenants",
    "memberships",
    "metadata",
    "operations",
    "organization_quotas",
    "organizations",
    "platform_state",
    "policies",
    "policy_attachments",
    "policy_versions",
    "quota_requests",
    "rate_limits",
    "refresh_tokens",
    "resources",
    "sessions",
    "tenant_quotas",
    "tenant_roles",
    "tenants",
    "users",
    "workload_identities",
    "workload_tokens",
]


def complete_for_postgresql() -> None:
    """Say what only PostgreSQL is told of the tables; naming an option of a dialect loads it, which costs time."""
    open_operations.dialect_options["postgresql"]["where"] = OPEN_OPERATION
    pending_requests.dialect_options["postgresql"]["where"] = PENDING_REQUEST
    organization_entries.dialect_options["postgresql"]["where"] = OF_NO_TENANT

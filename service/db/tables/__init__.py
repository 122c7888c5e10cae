"""The platform's tables. Importing the package registers all of them in `metadata`."""

from service.db.tables.access import group_members, groups, policies, policy_attachments, policy_versions
from service.db.tables.columns import EPOCH, MICROSECOND, Document, metadata, read_json
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
    audit_checkpoints,
    audit_head,
    audit_log,
    executors,
    idempotency_keys,
    open_operations,
    operations,
    organization_entries,
    platform_state,
    rate_limits,
    revisions,
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
    "audit_checkpoints",
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
    "read_json",
    "refresh_tokens",
    "resources",
    "revisions",
    "sessions",
    "tenant_quotas",
    "tenant_roles",
    "tenants",
    "users",
    "workload_identities",
    "workload_tokens",
]


def complete_for_postgresql() -> None:
    """Set the PostgreSQL conditions of partial indexes. Not done on SQLite, because it imports the dialect."""
    open_operations.dialect_options["postgresql"]["where"] = OPEN_OPERATION
    pending_requests.dialect_options["postgresql"]["where"] = PENDING_REQUEST
    organization_entries.dialect_options["postgresql"]["where"] = OF_NO_TENANT

"""The platform's tables, as SQLAlchemy Core, the same on SQLite and PostgreSQL; a module an area.

This one knows them all: whoever asks for a table need not know its area, and `metadata` is whole.
"""

from service.db.tables.audit import OF_NO_TENANT, audit_head, audit_log, organization_entries
from service.db.tables.credentials import api_keys, authorization_codes, device_codes, refresh_tokens, sessions
from service.db.tables.installation import executors, idempotency_keys, platform_state, rate_limits
from service.db.tables.kinds import EPOCH, MICROSECOND, Document, metadata
from service.db.tables.operations import OPEN_OPERATION, applied_tags, open_operations, operations
from service.db.tables.people import identities, membership_tenants, memberships, organizations, users
from service.db.tables.policies import group_members, groups, policies, policy_attachments, policy_versions
from service.db.tables.quotas import (
    PENDING_REQUEST,
    organization_quotas,
    pending_requests,
    quota_requests,
    tenant_quotas,
)
from service.db.tables.resources import catalogue_operations, resources
from service.db.tables.tenants import billing_accounts, default_tag_versions, isolation_projects, tenant_roles, tenants
from service.db.tables.workloads import cluster_issuers, workload_identities, workload_tokens

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

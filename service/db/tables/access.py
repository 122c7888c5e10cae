"""Tables of groups and access policies. All have `tenant_id`, so that queries for a tenant need no join."""

from sqlalchemy import Column, ForeignKey, Index, Integer, String, Table, Text, UniqueConstraint

from service.db.tables.columns import Document, Instant, metadata

groups = Table(
    "groups",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("tenant_id", ForeignKey("tenants.id"), nullable=False),
    Column("name", String(128), nullable=False),
    Column("description", Text, nullable=False, default=""),
    Column("version", Integer, nullable=False, default=1),
    Column("created_by", ForeignKey("users.id"), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    UniqueConstraint("tenant_id", "name"),
    Index("ix_groups_tenant_made", "tenant_id", "created_at", "id"),
)

group_members = Table(
    "group_members",
    metadata,
    Column("group_id", ForeignKey("groups.id"), primary_key=True),
    Column("member_type", String(32), primary_key=True),  # api_key, workload_identity
    Column("member_id", String(36), primary_key=True),
    Column("tenant_id", ForeignKey("tenants.id"), nullable=False),
    Column("added_by", ForeignKey("users.id"), nullable=False),
    Column("added_at", Instant, nullable=False),
    Index("ix_group_members_member", "tenant_id", "member_type", "member_id"),
    Index("ix_group_members_added", "group_id", "added_at", "member_type", "member_id"),
)

policies = Table(
    "policies",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("tenant_id", ForeignKey("tenants.id"), nullable=False),
    Column("name", String(128), nullable=False),
    Column("description", Text, nullable=False, default=""),
    # Canonical JSON as text: JSONB would not preserve the order of members.
    Column("document", Text, nullable=False),
    Column("version", Integer, nullable=False, default=1),
    # The author of the current document. Their current role limits the policy.
    Column("authored_by", ForeignKey("users.id"), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Index("ix_policies_tenant_made", "tenant_id", "created_at", "id"),
)

# Includes the current version.
policy_versions = Table(
    "policy_versions",
    metadata,
    Column("policy_id", ForeignKey("policies.id"), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("tenant_id", ForeignKey("tenants.id"), nullable=False),
    Column("name", String(128), nullable=False),
    Column("description", Text, nullable=False),
    Column("document", Text, nullable=False),
    Column("authored_by", ForeignKey("users.id"), nullable=False),
    Column("changed_by", ForeignKey("users.id"), nullable=False),
    Column("changed_at", Instant, nullable=False),
    Column("change", String(16), nullable=False),  # create, update, rollback
    Column("changed", Document, nullable=False),  # members that differ from the previous version
    Column("rolled_back_to", Integer),
)

policy_attachments = Table(
    "policy_attachments",
    metadata,
    Column("policy_id", ForeignKey("policies.id"), primary_key=True),
    Column("attachee_type", String(32), primary_key=True),  # api_key, workload_identity, group
    Column("attachee_id", String(36), primary_key=True),
    Column("tenant_id", ForeignKey("tenants.id"), nullable=False),
    Column("attached_by", ForeignKey("users.id"), nullable=False),
    Column("attached_at", Instant, nullable=False),
    Index("ix_policy_attachments_attachee", "tenant_id", "attachee_type", "attachee_id"),
    Index("ix_policy_attachments_attached", "policy_id", "attached_at", "attachee_type", "attachee_id"),
)

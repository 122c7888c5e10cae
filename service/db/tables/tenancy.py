"""Tenants, their default tags, and what provisioning sets up for them.

Limits, and requests for other ones.

The inventory of resources, and the operations that there are on them.
"""

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, String, Table, Text, UniqueConstraint, text

from service.db.tables.columns import Document, Instant, metadata

tenants = Table(
    "tenants",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("organization_id", ForeignKey("organizations.id"), nullable=False),
    Column("display_name", String(200), nullable=False),
    Column("slug", String(48), nullable=False),
    Column("status", String(16), nullable=False),
    Column("default_tags", Document, nullable=False),
    Column("default_tags_version", Integer, nullable=False, default=1),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    UniqueConstraint("organization_id", "slug"),
)

# What a tenant's default tags were in each of their versions, the present one among them.
default_tag_versions = Table(
    "default_tag_versions",
    metadata,
    Column("tenant_id", ForeignKey("tenants.id"), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("tags", Document, nullable=False),
    # Nobody: the set the tenant came with.
    Column("changed_by", ForeignKey("users.id")),
    Column("changed_at", Instant, nullable=False),
)

# What provisioning sets up for a tenant, one table a step (quotas have their own).
isolation_projects = Table(
    "isolation_projects",
    metadata,
    Column("tenant_id", ForeignKey("tenants.id"), primary_key=True),
    Column("name", String(120), nullable=False, unique=True),
    Column("created_at", Instant, nullable=False),
)

tenant_roles = Table(
    "tenant_roles",
    metadata,
    Column("tenant_id", ForeignKey("tenants.id"), primary_key=True),
    Column("role", String(32), primary_key=True),
    Column("created_at", Instant, nullable=False),
)

billing_accounts = Table(
    "billing_accounts",
    metadata,
    Column("tenant_id", ForeignKey("tenants.id"), primary_key=True),
    Column("account_number", String(32), nullable=False, unique=True),
    Column("created_at", Instant, nullable=False),
)


tenant_quotas = Table(
    "tenant_quotas",
    metadata,
    Column("tenant_id", ForeignKey("tenants.id"), primary_key=True),
    Column("resource_type", String(64), primary_key=True),
    Column("limit", BigInteger, nullable=False),
)

# Only the limits that differ from what an organization starts at.
organization_quotas = Table(
    "organization_quotas",
    metadata,
    Column("organization_id", ForeignKey("organizations.id"), primary_key=True),
    Column("resource_type", String(64), primary_key=True),
    Column("limit", BigInteger, nullable=False),
)

# Requests for other limits: of a tenant, decided at once, or of an organization, reviewed by the platform's staff.
quota_requests = Table(
    "quota_requests",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("scope", String(16), nullable=False),  # tenant, organization
    Column("organization_id", ForeignKey("organizations.id"), nullable=False),
    Column("tenant_id", ForeignKey("tenants.id")),
    Column("resource_type", String(64), nullable=False),
    Column("limit_before", BigInteger, nullable=False),
    Column("limit", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("status", String(16), nullable=False),  # approved, denied; pending, then approved or rejected
    Column("decision", Text),
    Column("details", Document),
    Column("requested_by", ForeignKey("users.id"), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("decided_at", Instant),
    Column("decided_by", String(120)),  # platform, staff
    Index("ix_quota_requests_tenant_made", "tenant_id", "created_at", "id"),
    Index("ix_quota_requests_scope_made", "scope", "organization_id", "created_at", "id"),
)

PENDING_REQUEST = text("status = 'pending'")

# One at a time for a resource type of an organization.
pending_requests = Index(
    "uq_quota_requests_pending",
    quota_requests.c.organization_id,
    quota_requests.c.resource_type,
    unique=True,
    sqlite_where=PENDING_REQUEST,
)


resources = Table(
    "resources",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("tenant_id", ForeignKey("tenants.id"), nullable=False),
    Column("kind", String(64), nullable=False),
    Column("name", String(200), nullable=False),
    Column("region", String(32), nullable=False),
    Column("state", String(32), nullable=False),
    Column("tags", Document, nullable=False),
    # The managed service or parent that owns it: {"managed": true}, {"owner": {...}}, {"bootVolume": true} ...
    Column("relations", Document, nullable=False),
    # What quotas count: {"vcpu": 2, "ram": 4096} for an instance, {"sizeGb": 50} for a volume.
    Column("attributes", Document, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Index("ix_resources_tenant_kind", "tenant_id", "kind", "id"),
)

# Append-only: a row is never changed or removed.
catalogue_operations = Table(
    "catalogue_operations",
    metadata,
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("name", String(200), nullable=False, unique=True),
    Column("access_level", String(16), nullable=False),
    Column("description", Text, nullable=False),
)

"""Tenants, their default tags, and what provisioning sets up for them."""

from sqlalchemy import Column, ForeignKey, Integer, String, Table, UniqueConstraint

from service.db.tables.kinds import Document, Instant, metadata

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

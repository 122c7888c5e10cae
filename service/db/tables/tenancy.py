"""Tables of tenants, quotas, resources and the operation catalogue."""

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

# Includes the current version.
default_tag_versions = Table(
    "default_tag_versions",
    metadata,
    Column("tenant_id", ForeignKey("tenants.id"), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("tags", Document, nullable=False),
    # Null for the first stored version.
    Column("changed_by", ForeignKey("users.id")),
    Column("changed_at", Instant, nullable=False),
)

# Results of tenant provisioning, a table for each step.
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

# Only limits that differ from the defaults.
organization_quotas = Table(
    "organization_quotas",
    metadata,
    Column("organization_id", ForeignKey("organizations.id"), primary_key=True),
    Column("resource_type", String(64), primary_key=True),
    Column("limit", BigInteger, nullable=False),
)

# Requests for tenants are decided immediately, those for organizations by an operator.
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
    Column("status", String(16), nullable=False),  # tenant: approved, denied; organization: pending, approved, rejected
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
    # See service/catalogue/data/kinds.yaml.
    Column("relations", Document, nullable=False),
    # Measured by quotas: {"vcpu": 2, "ram": 4096} of an instance, {"sizeGb": 50} of a volume.
    Column("attributes", Document, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Index("ix_resources_tenant_kind", "tenant_id", "kind", "id"),
)

# Append-only.
catalogue_operations = Table(
    "catalogue_operations",
    metadata,
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("name", String(200), nullable=False, unique=True),
    Column("access_level", String(16), nullable=False),
    Column("description", Text, nullable=False),
)

"""Limits, and requests for other ones."""

from sqlalchemy import BigInteger, Column, ForeignKey, Index, String, Table, Text, text

from service.db.tables.kinds import Document, Instant, metadata

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

# One at a time for a resource type of an organization. checklist U21, U22
pending_requests = Index(
    "uq_quota_requests_pending",
    quota_requests.c.organization_id,
    quota_requests.c.resource_type,
    unique=True,
    sqlite_where=PENDING_REQUEST,
)

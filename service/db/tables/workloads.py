"""Workload identity: service accounts of clusters as principals, and what their tokens are checked against."""

from sqlalchemy import Column, ForeignKey, Index, String, Table, UniqueConstraint

from service.db.tables.kinds import Document, Instant, metadata

# A service account of a cluster of the tenant, as a principal. contract: Workload identity
workload_identities = Table(
    "workload_identities",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("tenant_id", ForeignKey("tenants.id"), nullable=False),
    Column("cluster_id", String(36), nullable=False),
    Column("namespace", String(63), nullable=False),
    Column("service_account", String(253), nullable=False),
    Column("scopes", Document, nullable=False),
    Column("created_by", ForeignKey("users.id"), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    UniqueConstraint("tenant_id", "cluster_id", "namespace", "service_account", name="uq_workload_identities_subject"),
    Index("ix_workload_identities_tenant_made", "tenant_id", "created_at", "id"),
)

# The signing keys of a cluster's service accounts, public parts only: what a workload's own token is checked against.
cluster_issuers = Table(
    "cluster_issuers",
    metadata,
    Column("tenant_id", ForeignKey("tenants.id"), primary_key=True),
    Column("cluster_id", String(36), primary_key=True),
    Column("issuer", String(300), nullable=False),
    Column("keys", Document, nullable=False),
    Column("changed_by", ForeignKey("users.id"), nullable=False),
    Column("changed_at", Instant, nullable=False),
)

# What a workload exchanged its own token for.
workload_tokens = Table(
    "workload_tokens",
    metadata,
    Column("token_hash", String(64), primary_key=True),
    Column("identity_id", ForeignKey("workload_identities.id"), nullable=False, index=True),
    Column("issued_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False, index=True),
)

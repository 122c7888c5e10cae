"""The inventory of resources, and the operations that there are on them."""

from sqlalchemy import Column, ForeignKey, Index, Integer, String, Table, Text

from service.db.tables.kinds import Document, Instant, metadata

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

# Append-only: a row is never changed or removed (contract: Operation catalog entry).
catalogue_operations = Table(
    "catalogue_operations",
    metadata,
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("name", String(200), nullable=False, unique=True),
    Column("access_level", String(16), nullable=False),
    Column("description", Text, nullable=False),
)

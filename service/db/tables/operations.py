"""Durable work."""

from sqlalchemy import Column, ForeignKey, Index, Integer, String, Table, Text, text

from service.db.tables.kinds import Document, Instant, metadata

# Durable work. The row is the truth; the workflow engine only drives it. design: Durable operations
operations = Table(
    "operations",
    metadata,
    Column("run_id", String(36), primary_key=True),
    Column("operation_id", String(120), nullable=False, index=True),
    Column("tenant_id", ForeignKey("tenants.id"), nullable=False, index=True),
    Column("kind", String(64), nullable=False),
    Column("status", String(16), nullable=False),  # pending, running, completed, failed, cancelled
    Column("started_by", String(36)),
    Column("resource_type", String(64), nullable=False),
    Column("resource_id", String(120)),
    Column("progress", Integer, nullable=False, default=0),  # percent
    Column("current_step", String(120)),
    # One object a step: {"name", "status", "attempts", "startedAt", "completedAt", "error"}
    Column("steps", Document, nullable=False),
    Column("cursor", Text),
    Column("seq", Integer, nullable=False, default=0),
    Column("counts", Document, nullable=False),
    Column("snapshot", Document),
    Column("result", Document),
    Column("error", Text),
    Column("error_code", String(64)),
    Column("created_at", Instant, nullable=False),
    Column("started_at", Instant),
    Column("updated_at", Instant, nullable=False),
    Column("completed_at", Instant),
)

OPEN_OPERATION = text("status IN ('pending', 'running')")

open_operations = Index(
    "uq_operations_open",
    operations.c.tenant_id,
    operations.c.kind,
    unique=True,
    sqlite_where=OPEN_OPERATION,
)

# What an apply of default tags added to each resource, for its undo; kept for a tenant's last runs.
# In the order the runs go through, and without foreign keys: a run adds many, and a resource may be gone since.
applied_tags = Table(
    "applied_tags",
    metadata,
    Column("run_id", String(36), primary_key=True),
    Column("kind", String(64), primary_key=True),
    Column("resource_id", String(36), primary_key=True),
    Column("tenant_id", String(36), nullable=False),
    Column("keys", Document, nullable=False),
)

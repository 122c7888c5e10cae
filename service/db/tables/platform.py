"""The installation itself, its processes, and what was asked of it once already.

The audit log and its chain.

Durable work.
"""

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, String, Table, Text, text

from service.db.tables.columns import Document, Instant, RowNumber, metadata

# One row a fact about the installation itself: which world it holds, and since when.
platform_state = Table(
    "platform_state",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)

# Processes that run operations, on a database that several share; one not seen for long is dead.
executors = Table(
    "executors",
    metadata,
    Column("id", String(64), primary_key=True),
    # On the database's clock, so that the processes' own clocks need not agree.
    Column("seen_at", Instant, nullable=False),
)

# What was made under an `Idempotency-Key`: the same request again answers with the same thing, for a day.
idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("actor_id", String(36), primary_key=True),
    Column("operation", String(64), primary_key=True),
    Column("key", String(128), primary_key=True),
    Column("request_hash", String(64), nullable=False),
    Column("resource_id", String(36), nullable=False),
    Column("created_at", Instant, nullable=False),
    Index("ix_idempotency_keys_created_at", "created_at"),
)

# Per API key, the instant at which its allowance is whole again, on the database's clock.
# Unlogged on PostgreSQL: a crash there gives everybody a fresh minute, which is cheaper than a log entry a request.
rate_limits = Table(
    "rate_limits",
    metadata,
    Column("key_id", String(36), primary_key=True),
    Column("full_at", BigInteger, nullable=False),
)


audit_log = Table(
    "audit_log",
    metadata,
    Column("id", RowNumber, primary_key=True, autoincrement=True),
    Column("at", Instant, nullable=False),
    Column("request_id", String(64), nullable=False),
    Column("actor_kind", String(16), nullable=False),  # session, api_key, workload, staff, platform, anonymous
    Column("actor_id", String(120), nullable=False),
    Column("credential_id", String(120)),
    Column("organization_id", String(36)),
    Column("tenant_id", String(36)),
    Column("operation", String(120), nullable=False),
    Column("target", String(300), nullable=False),
    Column("outcome", String(16), nullable=False),  # done, refused, failed
    Column("details", Document, nullable=False),
    # The chain (service/audit/chain.py): keyed digests, of the entry before and of this one with that.
    # Empty: written by a version that knew no chain.
    Column("previous_hash", String(64)),
    Column("hash", String(64)),
    Index("ix_audit_log_tenant_at", "tenant_id", "at", "id"),
)

OF_NO_TENANT = text("tenant_id IS NULL")

organization_entries = Index(
    "ix_audit_log_organization_at",
    audit_log.c.organization_id,
    audit_log.c.at,
    audit_log.c.id,
    sqlite_where=OF_NO_TENANT,
)

# Where the chain of the audit log ends: one row, so that a removed end is missed too. Who adds entries locks it.
audit_head = Table(
    "audit_head",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("entries", BigInteger, nullable=False),
    Column("hash", String(64), nullable=False),
    Column("began_at", Instant, nullable=False),
    # While replicas of a version without the chain may still write beside it; empty where there were none.
    Column("unchained_until", Instant),
    # A keyed digest of the others.
    Column("seal", String(64), nullable=False),
)


# Durable work. The row is the truth; the workflow engine only drives it.
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

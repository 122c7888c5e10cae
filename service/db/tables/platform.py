"""Tables of the installation: facts, idempotency keys, rate limits, the audit log and jobs."""

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, String, Table, Text, text

from service.db.tables.columns import Document, Instant, RowNumber, metadata

platform_state = Table(
    "platform_state",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)

# Processes that run jobs on a shared database. If not seen for long, they are dead.
executors = Table(
    "executors",
    metadata,
    Column("id", String(64), primary_key=True),
    # By the clock of the database, because the clocks of processes may differ.
    Column("seen_at", Instant, nullable=False),
)

# Resources created with an `Idempotency-Key`. For a day, the same request returns the same resource.
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

# When the allowance of a credential or a failure counter is full again, in microseconds since 1970. Unlogged on
# PostgreSQL: a reset after a crash costs less than logging every lease.
rate_limits = Table(
    "rate_limits",
    metadata,
    Column("key_id", String(36), primary_key=True),
    Column("full_at", BigInteger, nullable=False),
    # The requests of the latest lease (service/authn/rate_limit.py).
    Column("leased", Integer),
)


# The revision of the data that authorization uses, by domain: an organization, a person, the catalogue, or a tenant for
# its new keys and workload identities. Triggers increase it in the transaction of each change (migrations 0013 and
# 0015), so that a process knows whether its cache is current.
revisions = Table(
    "revisions",
    metadata,
    Column("domain", String(36), primary_key=True),
    Column("revision", BigInteger, nullable=False),
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
    # Keyed digests (service/audit/chain.py). Null for entries of a version without the chain.
    Column("previous_hash", String(64)),
    Column("hash", String(64)),
    # The position in the chain, from 1. Null for entries that are not sealed, and for those of the release before.
    Column("sequence", BigInteger),
    # The writer's keyed digest of an entry that is not sealed (service/audit/sealer.py).
    Column("mac", String(64)),
    Index("ix_audit_log_tenant_at", "tenant_id", "at", "id"),
    Index("ix_audit_log_sequence", "sequence"),
)

WITHOUT_SEQUENCE = text("sequence IS NULL")

entries_without_sequence = Index("ix_audit_log_without_sequence", audit_log.c.id, sqlite_where=WITHOUT_SEQUENCE)

OF_NO_TENANT = text("tenant_id IS NULL")

organization_entries = Index(
    "ix_audit_log_organization_at",
    audit_log.c.organization_id,
    audit_log.c.at,
    audit_log.c.id,
    sqlite_where=OF_NO_TENANT,
)

# The end of the audit log's chain: a single row, locked by transactions that append to the chain.
audit_head = Table(
    "audit_head",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("entries", BigInteger, nullable=False),
    Column("hash", String(64), nullable=False),
    Column("began_at", Instant, nullable=False),
    # Until then, replicas of a version without the chain may write entries. Null if there were none.
    Column("unchained_until", Instant),
    # Keyed digest of the columns above, except `id`.
    Column("seal", String(64), nullable=False),
)

# Segments of the chain that were exported and dropped. The first begins with entry 1, each other after the one before.
audit_checkpoints = Table(
    "audit_checkpoints",
    metadata,
    Column("first_sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("last_sequence", BigInteger, nullable=False),
    Column("entries", BigInteger, nullable=False),
    # Of the entry before the first, and of the last one.
    Column("previous_hash", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    # SHA-256 of the exported lines.
    Column("export_digest", String(64), nullable=False),
    Column("dropped_at", Instant, nullable=False),
    # Keyed digest of the columns above.
    Column("seal", String(64), nullable=False),
)


# Jobs. These rows, not those of the workflow engine, are authoritative.
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
    # [{"name", "status", "attempts", "startedAt", "completedAt", "error"}, …]
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
    Column("completed_at", Instant, index=True),
)

OPEN_OPERATION = text("status IN ('pending', 'running')")

open_operations = Index(
    "uq_operations_open",
    operations.c.tenant_id,
    operations.c.kind,
    unique=True,
    sqlite_where=OPEN_OPERATION,
)

# Keys that a tenant's latest runs added to resources, in the order of the run. No foreign keys: a run inserts many
# rows, and resources may be deleted later.
applied_tags = Table(
    "applied_tags",
    metadata,
    Column("run_id", String(36), primary_key=True),
    Column("kind", String(64), primary_key=True),
    Column("resource_id", String(36), primary_key=True),
    Column("tenant_id", String(36), nullable=False),
    Column("keys", Document, nullable=False),
)

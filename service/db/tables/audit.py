"""The audit log and its chain."""

from sqlalchemy import BigInteger, Column, Index, Integer, String, Table, text

from service.db.tables.kinds import Document, Instant, RowNumber, metadata

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
    # The chain (service/access/audit_chain.py): keyed digests, of the entry before and of this one with that.
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

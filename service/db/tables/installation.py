"""The installation itself, its processes, and what was asked of it once already."""

from sqlalchemy import BigInteger, Column, Index, String, Table, Text

from service.db.tables.kinds import Instant, metadata

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

"""API keys, sessions, and the local issuer. Secrets are never stored: a column named `*_hash` holds a keyed digest."""

from sqlalchemy import Column, ForeignKey, Integer, String, Table, Text, UniqueConstraint

from service.db.tables.kinds import Document, Instant, metadata

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("tenant_id", ForeignKey("tenants.id"), nullable=False, index=True),
    Column("user_id", ForeignKey("users.id"), nullable=False, index=True),
    Column("name", String(100), nullable=False),
    Column("description", Text, nullable=False, default=""),
    Column("key_prefix", String(12), nullable=False, unique=True),
    Column("key_hash", String(64), nullable=False),
    Column("scopes", Document, nullable=False),
    Column("rate_limit", Integer, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    Column("revoked_at", Instant),
    Column("last_used_at", Instant),
)

# Sign-ins of people, whoever the issuer is. `subject` is the issuer's name for the session (claim sid).
sessions = Table(
    "sessions",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("issuer", String(300), nullable=False),
    Column("subject", String(200), nullable=False),
    Column("user_id", ForeignKey("users.id"), nullable=False, index=True),
    Column("device", String(200), nullable=False),
    Column("place", String(200), nullable=False),
    Column("started_at", Instant, nullable=False),
    Column("last_seen_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    Column("ended_at", Instant),
    Column("end_reason", String(32)),
    UniqueConstraint("issuer", "subject"),
)

# The local issuer. A refresh token works once; a second use of it ends its session.
refresh_tokens = Table(
    "refresh_tokens",
    metadata,
    Column("token_hash", String(64), primary_key=True),
    Column("session_id", ForeignKey("sessions.id"), nullable=False, index=True),
    Column("client_id", String(64), nullable=False),
    Column("scope", String(200), nullable=False),
    Column("issued_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    Column("used_at", Instant),
)

device_codes = Table(
    "device_codes",
    metadata,
    Column("device_code_hash", String(64), primary_key=True),
    Column("user_code", String(16), nullable=False, unique=True),
    Column("client_id", String(64), nullable=False),
    Column("scope", String(200), nullable=False),
    Column("device", String(200), nullable=False),
    Column("status", String(16), nullable=False),  # pending, approved, denied, used
    Column("user_id", ForeignKey("users.id")),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    Column("last_polled_at", Instant),
    Column("interval", Integer, nullable=False),
)

authorization_codes = Table(
    "authorization_codes",
    metadata,
    Column("code_hash", String(64), primary_key=True),
    Column("client_id", String(64), nullable=False),
    Column("user_id", ForeignKey("users.id"), nullable=False),
    Column("redirect_uri", String(300), nullable=False),
    Column("scope", String(200), nullable=False),
    Column("nonce", String(200)),
    Column("code_challenge", String(128), nullable=False),
    Column("device", String(200), nullable=False),
    Column("auth_time", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    Column("used_at", Instant),
    # The session the code was exchanged for: a replayed code ends it.
    Column("session_id", String(36)),
)

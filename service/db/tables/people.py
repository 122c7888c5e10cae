"""People and their organizations."""

from sqlalchemy import Boolean, Column, ForeignKey, String, Table, UniqueConstraint

from service.db.tables.kinds import Instant, metadata

users = Table(
    "users",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("email", String(320), nullable=False, unique=True),
    Column("name", String(200), nullable=False),
    # The home tenant of `/v1/me`; empty for somebody who was only invited into an organization.
    Column("default_tenant_id", String(36)),
    Column("created_at", Instant, nullable=False),
    Column("deleted_at", Instant),
    # When this person last ended all their sessions: an outside issuer's older sign-ins start none here any more.
    Column("sessions_revoked_at", Instant),
)

# Which account somebody of an outside issuer is: pinned at the first sign-in, so that the e-mail address alone, which
# the issuer may give to somebody else one day, never leads to an account again.
identities = Table(
    "identities",
    metadata,
    Column("issuer", String(300), primary_key=True),
    Column("subject", String(255), primary_key=True),
    Column("user_id", ForeignKey("users.id"), nullable=False),
    Column("linked_at", Instant, nullable=False),
    UniqueConstraint("issuer", "user_id"),
)

organizations = Table(
    "organizations",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("name", String(200), nullable=False),
    Column("slug", String(64), nullable=False, unique=True),
    Column("created_at", Instant, nullable=False),
)

memberships = Table(
    "memberships",
    metadata,
    Column("user_id", ForeignKey("users.id"), primary_key=True),
    Column("organization_id", ForeignKey("organizations.id"), primary_key=True, index=True),
    Column("role", String(32), nullable=False),
    # True: only the tenants of `membership_tenants`; owners and admins are never limited.
    Column("limited", Boolean, nullable=False, default=False),
    Column("created_at", Instant, nullable=False),
)

membership_tenants = Table(
    "membership_tenants",
    metadata,
    Column("user_id", String(36), primary_key=True),
    Column("tenant_id", ForeignKey("tenants.id"), primary_key=True, index=True),
)

"""The platform's tables, as SQLAlchemy Core, the same on SQLite and PostgreSQL.

Instants are stored as whole microseconds since 1970 in UTC (`Instant`), so that they compare and
index alike on both databases. Secrets are never stored: a column named `*_hash` holds a keyed digest.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    text,
)
from sqlalchemy.types import TypeEngine

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class Instant(TypeDecorator[datetime]):
    """An aware UTC datetime, stored as microseconds since 1970."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else (value - EPOCH) // MICROSECOND

    def process_result_value(self, value: Any | None, dialect: Dialect) -> datetime | None:
        return None if value is None else EPOCH + timedelta(microseconds=value)


class Document(TypeDecorator[Any]):
    """A JSON value; JSONB on PostgreSQL, whose dialect is loaded only there."""

    impl = JSON
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name != "postgresql":
            return dialect.type_descriptor(JSON())
        from sqlalchemy.dialects.postgresql import JSONB

        return dialect.type_descriptor(JSONB())


# SQLite numbers rows by itself only for a column declared exactly INTEGER.
RowNumber = BigInteger().with_variant(Integer(), "sqlite")

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# One row a fact about the installation itself: which world it holds, and since when.
platform_state = Table(
    "platform_state",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)

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

tenants = Table(
    "tenants",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("organization_id", ForeignKey("organizations.id"), nullable=False),
    Column("display_name", String(200), nullable=False),
    Column("slug", String(48), nullable=False),
    Column("status", String(16), nullable=False),
    Column("default_tags", Document, nullable=False),
    Column("default_tags_version", Integer, nullable=False, default=1),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    UniqueConstraint("organization_id", "slug"),
)

# What a tenant's default tags were in each of their versions, the present one among them.
default_tag_versions = Table(
    "default_tag_versions",
    metadata,
    Column("tenant_id", ForeignKey("tenants.id"), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("tags", Document, nullable=False),
    # Nobody: the set the tenant came with.
    Column("changed_by", ForeignKey("users.id")),
    Column("changed_at", Instant, nullable=False),
)

# What provisioning sets up for a tenant, one table a step (quotas have their own).
isolation_projects = Table(
    "isolation_projects",
    metadata,
    Column("tenant_id", ForeignKey("tenants.id"), primary_key=True),
    Column("name", String(120), nullable=False, unique=True),
    Column("created_at", Instant, nullable=False),
)

tenant_roles = Table(
    "tenant_roles",
    metadata,
    Column("tenant_id", ForeignKey("tenants.id"), primary_key=True),
    Column("role", String(32), primary_key=True),
    Column("created_at", Instant, nullable=False),
)

billing_accounts = Table(
    "billing_accounts",
    metadata,
    Column("tenant_id", ForeignKey("tenants.id"), primary_key=True),
    Column("account_number", String(32), nullable=False, unique=True),
    Column("created_at", Instant, nullable=False),
)

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


def complete_for_postgresql() -> None:
    """Say what only PostgreSQL is told of the tables; naming an option of a dialect loads it, which costs time."""
    open_operations.dialect_options["postgresql"]["where"] = OPEN_OPERATION
    pending_requests.dialect_options["postgresql"]["where"] = PENDING_REQUEST


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
    Column("tenant_id", String(36), index=True),
    Column("operation", String(120), nullable=False),
    Column("target", String(300), nullable=False),
    Column("outcome", String(16), nullable=False),  # done, refused, failed
    Column("details", Document, nullable=False),
)

# Access policies. Every row carries its tenant, so that no query needs a join to stay inside it. design: Service
groups = Table(
    "groups",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("tenant_id", ForeignKey("tenants.id"), nullable=False),
    Column("name", String(128), nullable=False),
    Column("description", Text, nullable=False, default=""),
    Column("version", Integer, nullable=False, default=1),
    Column("created_by", ForeignKey("users.id"), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    UniqueConstraint("tenant_id", "name"),
    Index("ix_groups_tenant_made", "tenant_id", "created_at", "id"),
)

group_members = Table(
    "group_members",
    metadata,
    Column("group_id", ForeignKey("groups.id"), primary_key=True),
    Column("member_type", String(32), primary_key=True),  # api_key, workload_identity
    Column("member_id", String(36), primary_key=True),
    Column("tenant_id", ForeignKey("tenants.id"), nullable=False),
    Column("added_by", ForeignKey("users.id"), nullable=False),
    Column("added_at", Instant, nullable=False),
    Index("ix_group_members_member", "tenant_id", "member_type", "member_id"),
    Index("ix_group_members_added", "group_id", "added_at", "member_type", "member_id"),
)

policies = Table(
    "policies",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("tenant_id", ForeignKey("tenants.id"), nullable=False),
    Column("name", String(128), nullable=False),
    Column("description", Text, nullable=False, default=""),
    # Canonical JSON as text: a JSON column would not keep the order of members.
    Column("document", Text, nullable=False),
    Column("version", Integer, nullable=False, default=1),
    # Whose present rights bound what it gives: who wrote the document that counts now.
    Column("authored_by", ForeignKey("users.id"), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Index("ix_policies_tenant_made", "tenant_id", "created_at", "id"),
)

# What a policy was in each of its versions, the present one among them.
policy_versions = Table(
    "policy_versions",
    metadata,
    Column("policy_id", ForeignKey("policies.id"), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("tenant_id", ForeignKey("tenants.id"), nullable=False),
    Column("name", String(128), nullable=False),
    Column("description", Text, nullable=False),
    Column("document", Text, nullable=False),
    Column("authored_by", ForeignKey("users.id"), nullable=False),
    Column("changed_by", ForeignKey("users.id"), nullable=False),
    Column("changed_at", Instant, nullable=False),
    Column("change", String(16), nullable=False),  # create, update, rollback
    Column("changed", Document, nullable=False),  # the members that differ from the version before
    Column("rolled_back_to", Integer),
)

policy_attachments = Table(
    "policy_attachments",
    metadata,
    Column("policy_id", ForeignKey("policies.id"), primary_key=True),
    Column("attachee_type", String(32), primary_key=True),  # api_key, workload_identity, group
    Column("attachee_id", String(36), primary_key=True),
    Column("tenant_id", ForeignKey("tenants.id"), nullable=False),
    Column("attached_by", ForeignKey("users.id"), nullable=False),
    Column("attached_at", Instant, nullable=False),
    Index("ix_policy_attachments_attachee", "tenant_id", "attachee_type", "attachee_id"),
    Index("ix_policy_attachments_attached", "policy_id", "attached_at", "attachee_type", "attachee_id"),
)

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

# Per API key, the instant at which its allowance is whole again, on the database's clock.
# Unlogged on PostgreSQL: a crash there gives everybody a fresh minute, which is cheaper than a log entry a request.
rate_limits = Table(
    "rate_limits",
    metadata,
    Column("key_id", String(36), primary_key=True),
    Column("full_at", BigInteger, nullable=False),
)

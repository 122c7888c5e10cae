"""Tables of users, organizations, credentials, groups and access policies.

Secrets are stored as keyed digests, in columns named `*_hash`. The tables of groups and policies have `tenant_id`, so
that queries for a tenant need no join.
"""

from sqlalchemy import Boolean, Column, ForeignKey, Index, Integer, String, Table, Text, UniqueConstraint

from service.db.tables.columns import Document, Instant, metadata

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
    # Canonical JSON as text: JSONB would not preserve the order of members.
    Column("document", Text, nullable=False),
    Column("version", Integer, nullable=False, default=1),
    # The author of the current document. Their current role limits the policy.
    Column("authored_by", ForeignKey("users.id"), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Index("ix_policies_tenant_made", "tenant_id", "created_at", "id"),
)

# Includes the current version.
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
    Column("changed", Document, nullable=False),  # members that differ from the previous version
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
users = Table(
    "users",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("email", String(320), nullable=False, unique=True),
    Column("name", String(200), nullable=False),
    # The tenant of routes without a tenant in the path; null if the user has none.
    Column("default_tenant_id", String(36)),
    Column("created_at", Instant, nullable=False),
    Column("deleted_at", Instant),
    # Sign-ins at an external issuer up to then start no session: the user ended all sessions then, or the session of
    # such a sign-in was removed (service/retention).
    Column("sessions_revoked_at", Instant),
)

# Subjects of an external issuer, linked to accounts at the first sign-in. The e-mail address is not used afterwards,
# because the issuer may reassign it.
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
    # True: only the tenants in `membership_tenants`; only for roles that are `limitable`.
    Column("limited", Boolean, nullable=False, default=False),
    Column("created_at", Instant, nullable=False),
)

membership_tenants = Table(
    "membership_tenants",
    metadata,
    Column("user_id", String(36), primary_key=True),
    Column("tenant_id", ForeignKey("tenants.id"), primary_key=True, index=True),
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

# `subject` is the `sid` claim of the local issuer, or the key of a sign-in at an external issuer.
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
    Column("expires_at", Instant, nullable=False, index=True),
    Column("ended_at", Instant, index=True),
    Column("end_reason", String(32)),
    UniqueConstraint("issuer", "subject"),
)

# The second use of a refresh token ends its session.
refresh_tokens = Table(
    "refresh_tokens",
    metadata,
    Column("token_hash", String(64), primary_key=True),
    Column("session_id", ForeignKey("sessions.id"), nullable=False, index=True),
    Column("client_id", String(64), nullable=False),
    Column("scope", String(200), nullable=False),
    Column("issued_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False, index=True),
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
    # The session started with the code. A replay of the code ends it.
    Column("session_id", String(36)),
)

# Service accounts of a tenant's clusters, as principals.
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

# Public keys that verify the service account tokens of a cluster.
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

# Access tokens issued in exchange for service account tokens.
workload_tokens = Table(
    "workload_tokens",
    metadata,
    Column("token_hash", String(64), primary_key=True),
    Column("identity_id", ForeignKey("workload_identities.id"), nullable=False, index=True),
    Column("issued_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False, index=True),
)

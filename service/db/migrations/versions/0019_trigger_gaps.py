"""Revisions also increase for statements that pass the triggers of 0013 and 0015.

- PostgreSQL: TRUNCATE fires no row triggers, and `session_replication_role = replica` fires only triggers that are
  enabled ALWAYS. The owner of the tables may do both, without being a superuser.
- SQLite: REPLACE removes rows without DELETE triggers, unless the connection has `recursive_triggers`, which a shell of
  an administrator has not. Triggers before the statement see the rows that it removes.

These statements are rare, so they increase all revisions, instead of those of the rows that disappear.

The functions may exist: a restore drops the tables of an earlier database, but not its functions.
"""

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

# With the columns of each key by which a row may replace another, in the order in which requests lock the tables.
TABLES = {
    "users": (("id",), ("email",)),
    "tenants": (("id",), ("organization_id", "slug")),
    "memberships": (("user_id", "organization_id"),),
    "membership_tenants": (("user_id", "tenant_id"),),
    "identities": (("issuer", "subject"), ("issuer", "user_id")),
    "sessions": (("id",), ("issuer", "subject")),
    "workload_identities": (("id",), ("tenant_id", "cluster_id", "namespace", "service_account")),
    "workload_tokens": (("token_hash",),),
    "api_keys": (("id",), ("key_prefix",)),
    "policies": (("id",),),
    "policy_attachments": (("policy_id", "attachee_type", "attachee_id"),),
    "group_members": (("group_id", "member_type", "member_id"),),
    "catalogue_operations": (("position",), ("name",)),
}
# Triggers of 0015, besides that of each table.
NEW_ROWS = ("workload_identities", "api_keys")
DOMAINS = (
    "SELECT domain FROM revisions UNION SELECT id FROM organizations UNION SELECT id FROM users"
    " UNION SELECT id FROM tenants UNION SELECT 'catalogue'"
)
SQLITE_NOW = "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)"
SQLITE_INCREASE = (
    f"INSERT INTO revisions (domain, revision) SELECT domain, {SQLITE_NOW} FROM ({DOMAINS}) WHERE true"  # noqa: S608
    " ON CONFLICT (domain) DO UPDATE SET revision = max(revision + 1, excluded.revision)"
)
# Without the locks of 0018: the lock table has no space for all domains.
INCREASE = f"""
CREATE OR REPLACE FUNCTION increase_all_revisions() RETURNS void
LANGUAGE sql SET search_path FROM CURRENT AS $$
INSERT INTO revisions AS stored (domain, revision)
SELECT domain, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FROM ({DOMAINS}) AS changed(domain) ORDER BY domain
ON CONFLICT (domain) DO UPDATE SET revision = greatest(stored.revision + 1, excluded.revision)
WHERE stored.xmin <> pg_current_xact_id()::xid
$$
"""  # noqa: S608
ON_TRUNCATE = """
CREATE OR REPLACE FUNCTION revise_truncated() RETURNS trigger
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM increase_all_revisions();
    RETURN NULL;
END
$$
"""


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for table, keys in TABLES.items():
            _create_sqlite_triggers(table, keys)
        return
    op.execute(INCREASE)
    op.execute(ON_TRUNCATE)
    for table in TABLES:
        # Before, because the rows of `organizations`, `users` and `tenants` may be truncated with it.
        op.execute(
            f"CREATE TRIGGER revise_{table}_truncate BEFORE TRUNCATE ON {table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION revise_truncated()"
        )
        names = [f"revise_{table}", f"revise_{table}_truncate"]
        if table in NEW_ROWS:
            names.append(f"revise_{table}_insert")
        for name in names:
            op.execute(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}")


def _create_sqlite_triggers(table: str, keys: tuple[tuple[str, ...], ...]) -> None:
    conditions = [" AND ".join(f"{column} = NEW.{column}" for column in key) for key in (*keys, ("rowid",))]
    other = " OR ".join(f"EXISTS (SELECT 1 FROM {table} WHERE {each})" for each in conditions)  # noqa: S608
    op.execute(
        f"CREATE TRIGGER revise_{table}_replace BEFORE INSERT ON {table} WHEN {other} BEGIN {SQLITE_INCREASE}; END"
    )
    columns = ", ".join(sorted({column for key in keys for column in key}))
    other = " OR ".join(
        f"EXISTS (SELECT 1 FROM {table} WHERE {each} AND rowid <> OLD.rowid)"  # noqa: S608
        for each in conditions
    )
    op.execute(
        f"CREATE TRIGGER revise_{table}_displace BEFORE UPDATE OF {columns} ON {table}"
        f" WHEN {other} BEGIN {SQLITE_INCREASE}; END"
    )

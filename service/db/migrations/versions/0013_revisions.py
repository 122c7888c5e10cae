"""Revisions of the data that authorization uses, increased by triggers. Additions only.

A revision is the time of the change in microseconds, or one more than before. So no number is used again after the
database was set back to an earlier state, such as by a failover.

The functions may exist: a restore drops the tables of an earlier database, but not its functions.
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

SQLITE_NOW = "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)"
OF_TENANT = "SELECT organization_id FROM tenants WHERE id = {row}.tenant_id"
OF_USER = "SELECT {row}.user_id"
# By table: the query of the domains of a row, the relevant columns, and whether new rows count. In the order
# in which requests lock the tables.
TABLES = {
    "users": (
        "SELECT {row}.id UNION SELECT organization_id FROM memberships WHERE user_id = {row}.id",
        "email, default_tenant_id, deleted_at",
        False,
    ),
    "tenants": ("SELECT {row}.organization_id", "organization_id", True),
    "memberships": (f"{OF_USER} UNION SELECT {{row}}.organization_id", "user_id, organization_id, role, limited", True),
    "membership_tenants": (f"{OF_TENANT} UNION {OF_USER}", "user_id, tenant_id", True),
    "identities": (OF_USER, "issuer, subject, user_id", False),
    "sessions": (OF_USER, "issuer, subject, user_id, expires_at, ended_at", False),
    "workload_identities": (OF_TENANT, "tenant_id, scopes", False),
    "workload_tokens": (
        "SELECT organization_id FROM tenants JOIN workload_identities ON workload_identities.tenant_id = tenants.id"
        " WHERE workload_identities.id = {row}.identity_id",
        "identity_id, expires_at",
        False,
    ),
    "api_keys": (
        OF_TENANT,
        "tenant_id, user_id, key_prefix, key_hash, scopes, rate_limit, expires_at, revoked_at",
        False,
    ),
    "policies": (OF_TENANT, "tenant_id, name, document, version, authored_by", True),
    "policy_attachments": (OF_TENANT, "policy_id, attachee_type, attachee_id, tenant_id", True),
    "group_members": (OF_TENANT, "group_id, member_type, member_id, tenant_id", True),
    "catalogue_operations": ("SELECT 'catalogue'", "name, description, access_level, position", True),
}
# Once per transaction and domain: a transaction may change thousands of rows.
INCREASE = """
CREATE OR REPLACE FUNCTION increase_revision(changed text) RETURNS void
LANGUAGE sql SET search_path FROM CURRENT AS $$
INSERT INTO revisions AS stored (domain, revision)
VALUES (changed, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
ON CONFLICT (domain) DO UPDATE SET revision = greatest(stored.revision + 1, excluded.revision)
WHERE stored.xmin <> pg_current_xact_id()::xid
$$
"""


def upgrade() -> None:
    op.create_table(
        "revisions",
        sa.Column("domain", sa.String(length=36), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("domain", name=op.f("pk_revisions")),
    )
    if op.get_bind().dialect.name == "sqlite":
        for table, (domains, columns, inserts) in TABLES.items():
            _create_sqlite_triggers(table, domains, columns, inserts)
        return
    op.execute(INCREASE)
    for table, (domains, columns, inserts) in TABLES.items():
        _create_postgresql_trigger(table, domains, columns, inserts)


def _create_sqlite_triggers(table: str, domains: str, columns: str, inserts: bool) -> None:
    events = {"update": (f"UPDATE OF {columns}", ("OLD", "NEW")), "delete": ("DELETE", ("OLD",))}
    if inserts:
        events["insert"] = ("INSERT", ("NEW",))
    for name, (event, rows) in events.items():
        changed = " UNION ".join(domains.format(row=row) for row in rows)
        body = (
            f"INSERT INTO revisions (domain, revision) SELECT *, {SQLITE_NOW} FROM ({changed}) WHERE true"  # noqa: S608
            " ON CONFLICT (domain) DO UPDATE SET revision = max(revision + 1, excluded.revision)"
        )
        op.execute(f"CREATE TRIGGER revise_{table}_{name} AFTER {event} ON {table} BEGIN {body}; END")


def _create_postgresql_trigger(table: str, domains: str, columns: str, inserts: bool) -> None:
    """Create the triggers of a table. They run at the commit, so that the revision is locked last and briefly."""
    increases = "PERFORM increase_revision(domain) FROM ({domains}) AS changed(domain) ORDER BY domain;"
    old, new = (increases.format(domains=domains.format(row=row)) for row in ("OLD", "NEW"))
    op.execute(
        f"CREATE OR REPLACE FUNCTION revise_{table}() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT"
        " AS $$ BEGIN"
        f" IF TG_OP <> 'INSERT' THEN {old} END IF;"
        f" IF TG_OP <> 'DELETE' THEN {new} END IF;"
        " RETURN NULL; END $$"
    )
    events = f"{'INSERT OR ' if inserts else ''}UPDATE OF {columns} OR DELETE"
    op.execute(
        f"CREATE CONSTRAINT TRIGGER revise_{table} AFTER {events} ON {table}"
        f" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION revise_{table}()"
    )

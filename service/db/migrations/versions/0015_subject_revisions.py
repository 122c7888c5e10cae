"""New keys and workload identities increase the revision of their tenant, so that unknown subjects can be cached.

Their changes and deletions increase the revision of the organization since migration 0013.
"""

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

TABLES = ("api_keys", "workload_identities")
SQLITE_NOW = "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)"


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for table in TABLES:
            op.execute(
                f"CREATE TRIGGER revise_{table}_insert AFTER INSERT ON {table} BEGIN"  # noqa: S608
                f" INSERT INTO revisions (domain, revision) VALUES (NEW.tenant_id, {SQLITE_NOW})"
                " ON CONFLICT (domain) DO UPDATE SET revision = max(revision + 1, excluded.revision); END"
            )
        return
    # The function may exist: a restore drops the tables of an earlier database, but not its functions.
    op.execute(
        "CREATE OR REPLACE FUNCTION revise_tenant() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT"
        " AS $$ BEGIN PERFORM increase_revision(NEW.tenant_id); RETURN NULL; END $$"
    )
    for table in TABLES:
        op.execute(
            f"CREATE CONSTRAINT TRIGGER revise_{table}_insert AFTER INSERT ON {table}"
            " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION revise_tenant()"
        )

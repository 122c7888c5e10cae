"""Locks of domains: the triggers take an exclusive lock before they increase a revision (PostgreSQL).

`service/db/revisions.py` describes the locks. Revisions of tenants are not locked, because no change depends on them.

The previous release locks rows before its triggers take these locks. While its replicas serve, PostgreSQL may end one
of two changes that wait for each other, and the client repeats it.

The functions may exist: a restore drops the tables of an earlier database, but not its functions.
"""

from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

# Separates these locks from others of the database.
SEED = 0x66726F73
# The function of migration 0013, under another name.
STORE = """
CREATE OR REPLACE FUNCTION store_revision(changed text) RETURNS void
LANGUAGE sql SET search_path FROM CURRENT AS $$
INSERT INTO revisions AS stored (domain, revision)
VALUES (changed, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
ON CONFLICT (domain) DO UPDATE SET revision = greatest(stored.revision + 1, excluded.revision)
WHERE stored.xmin <> pg_current_xact_id()::xid
$$
"""
INCREASE = f"""
CREATE OR REPLACE FUNCTION increase_revision(changed text) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(changed, {SEED}));
    PERFORM store_revision(changed);
END
$$
"""
OF_TENANT = """
CREATE OR REPLACE FUNCTION revise_tenant() RETURNS trigger
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM store_revision(NEW.tenant_id);
    RETURN NULL;
END
$$
"""
# The query has a snapshot of its own, taken after the locks.
LOCK = f"""
CREATE OR REPLACE FUNCTION lock_revisions(exclusive text[], shared text[])
RETURNS TABLE (domain text, revision bigint)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    locked text;
BEGIN
    FOR locked IN SELECT one FROM unnest(exclusive || shared) AS one ORDER BY one LOOP
        IF locked = ANY (exclusive) THEN
            PERFORM pg_advisory_xact_lock(hashtextextended(locked, {SEED}));
        ELSE
            PERFORM pg_advisory_xact_lock_shared(hashtextextended(locked, {SEED}));
        END IF;
    END LOOP;
    RETURN QUERY SELECT stored.domain::text, stored.revision FROM revisions AS stored
        WHERE stored.domain = ANY (exclusive || shared);
END
$$
"""  # noqa: S608


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        for function in (STORE, INCREASE, OF_TENANT, LOCK):
            op.execute(function)

"""The triggers that increase revisions (migrations 0013, 0015 and 0019): which must exist, and which do.

Grants are cached under revisions, so a cache may be outdated after a change without a trigger. A trigger with other
events, columns or statements than that of the migrations counts as missing.
"""

from collections.abc import Hashable
from hashlib import sha256
from typing import NamedTuple

from sqlalchemy import Connection, text

from service.db.trigger_digests import DIGESTS

TABLES = {
    "users": False,
    "tenants": True,
    "memberships": True,
    "membership_tenants": True,
    "identities": False,
    "sessions": False,
    "workload_identities": False,
    "workload_tokens": False,
    "api_keys": False,
    "policies": True,
    "policy_attachments": True,
    "group_members": True,
    "catalogue_operations": True,
}
"""By table: whether new rows increase the revisions of their organization or person."""
_COLUMNS = {
    "users": "default_tenant_id deleted_at email",
    "tenants": "organization_id",
    "memberships": "limited organization_id role user_id",
    "membership_tenants": "tenant_id user_id",
    "identities": "issuer subject user_id",
    "sessions": "ended_at expires_at issuer subject user_id",
    "workload_identities": "scopes tenant_id",
    "workload_tokens": "expires_at identity_id",
    "api_keys": "expires_at key_hash key_prefix rate_limit revoked_at scopes tenant_id user_id",
    "policies": "authored_by document name tenant_id version",
    "policy_attachments": "attachee_id attachee_type policy_id tenant_id",
    "group_members": "group_id member_id member_type tenant_id",
    "catalogue_operations": "access_level description name position",
}
"""By table: the columns whose updates increase revisions, sorted."""
TABLES_OF_SUBJECTS = ("workload_identities", "api_keys")
"""New rows increase the revision of their tenant."""

# Bits of `pg_trigger.tgtype`.
_ROW, _BEFORE, _INSERT, _DELETE, _UPDATE, _TRUNCATE = 1, 2, 4, 8, 16, 32
# Only triggers that also fire for replication, and without a condition.
_POSTGRESQL = text("""
SELECT pg_class.relname, pg_trigger.tgname, pg_proc.proname, pg_trigger.tgtype,
       ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = tgrelid AND attnum = ANY(tgattr)) AS columns,
       pg_trigger.xmin::text AS altered, pg_proc.xmin::text AS replaced, pg_class.relfilenode::text AS file
FROM pg_trigger
JOIN pg_class ON pg_class.oid = pg_trigger.tgrelid
JOIN pg_proc ON pg_proc.oid = pg_trigger.tgfoid
WHERE NOT pg_trigger.tgisinternal AND pg_trigger.tgenabled = 'A' AND pg_trigger.tgqual IS NULL
  AND pg_table_is_visible(pg_class.oid) AND pg_function_is_visible(pg_proc.oid)
""")
_SQLITE = text("SELECT tbl_name, name, sql FROM sqlite_master WHERE type = 'trigger'")
# As in migration 0019.
_INCREASE = {
    "postgresql": text("SELECT increase_all_revisions()"),
    "sqlite": text("""
INSERT INTO revisions (domain, revision)
SELECT domain, CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
FROM (SELECT domain FROM revisions UNION SELECT id FROM organizations UNION SELECT id FROM users
      UNION SELECT id FROM tenants UNION SELECT 'catalogue') WHERE true
ON CONFLICT (domain) DO UPDATE SET revision = max(revision + 1, excluded.revision)
"""),
}


class Trigger(NamedTuple):
    """A trigger of a table: the digest of its statement on SQLite, the other fields on PostgreSQL.

    Without columns, it fires for updates of any.
    """

    table: str
    name: str
    digest: str = ""
    function: str = ""
    events: int = 0
    columns: str = ""


class TriggerState(NamedTuple):
    """Expected triggers that do not work, and a value that differs after an alteration, also one that was undone.

    An alteration of a table counts: `ALTER TABLE … TYPE … USING` changes rows without triggers.
    """

    missing: tuple[Trigger, ...]
    alterations: Hashable


def read_triggers(connection: Connection) -> TriggerState:
    if connection.dialect.name == "sqlite":
        present = {Trigger(table, name, digest_of(sql)) for table, name, sql in connection.execute(_SQLITE)}
        alterations: Hashable = connection.exec_driver_sql("PRAGMA schema_version").scalar_one()
        return TriggerState(tuple(sorted(_expected_on_sqlite() - present)), alterations)
    expected = _expected_on_postgresql()
    rows = {
        Trigger(row.relname, row.tgname, "", row.proname, row.tgtype, " ".join(sorted(row.columns))): (
            row.altered,
            row.replaced,
            row.file,
        )
        for row in connection.execute(_POSTGRESQL)
    }
    altered = frozenset((trigger, rows.get(trigger)) for trigger in expected)
    return TriggerState(tuple(sorted(expected - rows.keys())), altered)


def digest_of(statement: str) -> str:
    """Return a digest of a statement, without its quotation marks of names and its line breaks."""
    return sha256(" ".join(statement.replace('"', "").split()).encode()).hexdigest()[:16]


def increase_all_revisions(connection: Connection) -> None:
    """Increase the revisions of all domains, so that no process uses what it cached."""
    connection.execute(_INCREASE[connection.dialect.name])


def _expected_on_sqlite() -> set[Trigger]:
    return {
        Trigger(table, name, DIGESTS[name])
        for table, inserts in TABLES.items()
        for event in ("update", "delete", "insert", "replace", "displace")
        if event != "insert" or inserts or table in TABLES_OF_SUBJECTS
        for name in (f"revise_{table}_{event}",)
    }


def _expected_on_postgresql() -> set[Trigger]:
    changes, truncated, insert = _ROW | _UPDATE | _DELETE, _BEFORE | _TRUNCATE, _ROW | _INSERT
    return {
        *(
            Trigger(
                table,
                f"revise_{table}",
                function=f"revise_{table}",
                events=changes | (_INSERT if inserts else 0),
                columns=_COLUMNS[table],
            )
            for table, inserts in TABLES.items()
        ),
        *(
            Trigger(table, f"revise_{table}_truncate", function="revise_truncated", events=truncated)
            for table in TABLES
        ),
        *(
            Trigger(table, f"revise_{table}_insert", function="revise_tenant", events=insert)
            for table in TABLES_OF_SUBJECTS
        ),
    }

"""The triggers that increase revisions (migrations 0013, 0015 and 0019): which must exist, and which do.

Grants are cached under revisions, so a cache may be outdated after a change without a trigger.
"""

from collections.abc import Hashable
from typing import NamedTuple

from sqlalchemy import Connection, text

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
TABLES_OF_SUBJECTS = ("workload_identities", "api_keys")
"""New rows increase the revision of their tenant."""

# Bits of `pg_trigger.tgtype`.
_ROW, _BEFORE, _INSERT, _DELETE, _UPDATE, _TRUNCATE = 1, 2, 4, 8, 16, 32
# Only triggers that also fire for replication, and without a condition.
_POSTGRESQL = text("""
SELECT pg_class.relname, pg_trigger.tgname, pg_proc.proname, pg_trigger.tgtype,
       pg_trigger.xmin::text AS altered, pg_proc.xmin::text AS replaced, pg_class.relfilenode::text AS file
FROM pg_trigger
JOIN pg_class ON pg_class.oid = pg_trigger.tgrelid
JOIN pg_proc ON pg_proc.oid = pg_trigger.tgfoid
WHERE NOT pg_trigger.tgisinternal AND pg_trigger.tgenabled = 'A' AND pg_trigger.tgqual IS NULL
  AND pg_table_is_visible(pg_class.oid) AND pg_function_is_visible(pg_proc.oid)
""")
_SQLITE = text("SELECT tbl_name, name FROM sqlite_master WHERE type = 'trigger' AND sql LIKE '%INTO revisions %'")
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
    """A trigger of a table; its function and the bits of its events on PostgreSQL."""

    table: str
    name: str
    function: str = ""
    events: int = 0


class TriggerState(NamedTuple):
    """Expected triggers that do not work, and a value that differs after an alteration, also one that was undone.

    An alteration of a table counts: `ALTER TABLE … TYPE … USING` changes rows without triggers.
    """

    missing: tuple[Trigger, ...]
    alterations: Hashable


def read_triggers(connection: Connection) -> TriggerState:
    if connection.dialect.name == "sqlite":
        present = {Trigger(*row) for row in connection.execute(_SQLITE)}
        alterations: Hashable = connection.exec_driver_sql("PRAGMA schema_version").scalar_one()
        return TriggerState(tuple(sorted(_expected_on_sqlite() - present)), alterations)
    expected = _expected_on_postgresql()
    rows = {Trigger(*row[:4]): (row.altered, row.replaced, row.file) for row in connection.execute(_POSTGRESQL)}
    altered = frozenset((trigger, rows.get(trigger)) for trigger in expected)
    return TriggerState(tuple(sorted(expected - rows.keys())), altered)


def increase_all_revisions(connection: Connection) -> None:
    """Increase the revisions of all domains, so that no process uses what it cached."""
    connection.execute(_INCREASE[connection.dialect.name])


def _expected_on_sqlite() -> set[Trigger]:
    return {
        Trigger(table, f"revise_{table}_{event}")
        for table, inserts in TABLES.items()
        for event in ("update", "delete", "insert", "replace", "displace")
        if event != "insert" or inserts or table in TABLES_OF_SUBJECTS
    }


def _expected_on_postgresql() -> set[Trigger]:
    changes = _ROW | _UPDATE | _DELETE
    return {
        *(
            Trigger(table, f"revise_{table}", f"revise_{table}", changes | (_INSERT if inserts else 0))
            for table, inserts in TABLES.items()
        ),
        *(Trigger(table, f"revise_{table}_truncate", "revise_truncated", _BEFORE | _TRUNCATE) for table in TABLES),
        *(Trigger(table, f"revise_{table}_insert", "revise_tenant", _ROW | _INSERT) for table in TABLES_OF_SUBJECTS),
    }

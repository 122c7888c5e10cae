"""Statements that pass row triggers also increase revisions: TRUNCATE, replication, and REPLACE of SQLite."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import select

from service.db import migrate, tables
from service.db.engine import Database
from service.db.triggers import TABLES, increase_all_revisions, read_triggers
from service.operator.backup import create_backup
from service.operator.restore import restore_backup
from service.settings import from_arguments
from tests.people import WEB_SHOP
from tests.service.counted import KEY, TENANT, Counted
from tests.service.inside import Inside
from tests.service.postgres import Cluster
from tests.service.queries import fetch_scalars
from tests.service.revised import all_revisions, fill

LIST = f"{TENANT}/resources/instance"
# Of the schema of this release.
KEYS = {
    table.name: [
        [column.name for column in table.primary_key],
        *(
            [column.name for column in key.columns]
            for key in table.constraints
            if type(key).__name__ == "UniqueConstraint"
        ),
    ]
    for table in tables.metadata.sorted_tables
    if table.name in TABLES
}
NewUrl = Callable[[str, bool], str]


@pytest.fixture
def demo(tmp_path: Path, world_url: str | None) -> Iterator[Inside]:
    with closing(Inside(tmp_path, world_url, "demo")) as opened:
        fill(opened.platform.database)
        yield opened


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Inside]:
    with closing(Inside(tmp_path, None, "demo")) as opened:
        fill(opened.platform.database)
        yield opened


def administrator(database: Database) -> sqlite3.Connection:
    """Return a connection as that of a shell: without `recursive_triggers`, foreign keys and functions of ours."""
    return sqlite3.connect(str(database.engine.url.database), isolation_level=None)


def organizations(database: Database) -> set[str]:
    return set(fetch_scalars(database, select(tables.organizations.c.id)))


def test_the_expected_triggers_are_those_of_the_schema(database: Database) -> None:
    query = {
        "sqlite": "SELECT tbl_name, name FROM sqlite_master WHERE type = 'trigger' AND sql LIKE '%revisions%'",
        "postgresql": "SELECT relname, tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid"
        " WHERE NOT tgisinternal AND position('revise' IN tgname) = 1",
    }[database.kind]
    with database.read() as connection:
        present = {tuple(row) for row in connection.exec_driver_sql(query)}
        assert read_triggers(connection).missing == ()
    with database.write() as connection:
        for table, name in present:
            on_table = f" ON {table}" if database.kind == "postgresql" else ""
            connection.exec_driver_sql(f"DROP TRIGGER {name}{on_table}")
        assert {(each.table, each.name) for each in read_triggers(connection).missing} == present


def test_all_revisions_increase_also_those_of_domains_without_a_change(demo: Inside) -> None:
    database = demo.platform.database
    before = all_revisions(database)
    with database.write() as connection:
        increase_all_revisions(connection)
    after = all_revisions(database)
    people = set(fetch_scalars(database, select(tables.users.c.id)))
    assert {domain for domain, revision in after.items() if revision > before.get(domain, 0)} == after.keys()
    assert after.keys() >= {"catalogue", WEB_SHOP, *people, *organizations(database)}


def test_a_replaced_row_increases_revisions(file: Inside) -> None:
    """In each table, by each of its keys."""
    database = file.platform.database
    for table, keys in KEYS.items():
        names = [column.name for column in tables.metadata.tables[table].columns]
        for key in keys:
            others = [name for name in names if name not in key]
            copied = [f"'other' || {name}" if name in ("id", "slug", "email") else name for name in others]
            before = all_revisions(database)
            with closing(administrator(database)) as connection:
                rows = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
                row = f"SELECT {', '.join((*key, *copied))} FROM {table} LIMIT 1"
                connection.execute(f"INSERT OR REPLACE INTO {table} ({', '.join((*key, *others))}) {row}")
                assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == rows
            after = all_revisions(database)
            assert all(after[domain] > before.get(domain, 0) for domain in organizations(database)), (table, key)


def test_an_update_that_replaces_another_row_increases_revisions(file: Inside) -> None:
    database = file.platform.database
    for table, change in (
        ("users", "email = (SELECT max(email) FROM users)"),
        ("api_keys", "id = (SELECT max(id) FROM api_keys)"),
    ):
        column = change.partition(" ")[0]
        before = all_revisions(database)
        with closing(administrator(database)) as connection:
            connection.execute(
                f"UPDATE OR REPLACE {table} SET {change} WHERE {column} = (SELECT min({column}) FROM {table})"
            )
        after = all_revisions(database)
        assert all(after[domain] > before.get(domain, 0) for domain in organizations(database)), table


def test_our_connections_run_the_delete_triggers_of_replaced_rows(file: Inside) -> None:
    with file.platform.database.read() as connection:
        assert connection.exec_driver_sql("PRAGMA recursive_triggers").scalar() == 1


@pytest.fixture
def replicated(tmp_path: Path, demo_url: Callable[[str], str]) -> Iterator[Counted]:
    with closing(Counted(tmp_path, demo_url("postgresql"))) as opened:
        opened.keep_leases()
        yield opened


def test_a_truncation_of_each_table_increases_revisions(replicated: Counted) -> None:
    database = replicated.platform.database
    domains, before = organizations(database), all_revisions(database)
    with psycopg.connect(replicated.platform.settings.database_url) as connection:
        for table in TABLES:
            connection.execute(f"TRUNCATE {table} CASCADE".encode())
            after = dict(connection.execute("SELECT domain, revision FROM revisions").fetchall())
            assert all(after[domain] > before.get(domain, 0) for domain in (*domains, "catalogue")), table
            connection.rollback()


@pytest.mark.parametrize(
    "statements",
    [
        ("SET session_replication_role = replica", f"UPDATE api_keys SET revoked_at = 1 WHERE name = '{KEY}'"),
        ("SET session_replication_role = replica", f"DELETE FROM api_keys WHERE name = '{KEY}'"),
        ("TRUNCATE api_keys CASCADE",),
    ],
)
def test_a_key_is_refused_after_a_statement_that_passes_row_triggers(
    replicated: Counted, statements: tuple[str, ...]
) -> None:
    assert [replicated.get(LIST, replicated.key).status_code for _ in range(2)] == [200, 200]
    with psycopg.connect(replicated.platform.settings.database_url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())
    assert replicated.get(LIST, replicated.key).status_code == 401


def test_a_replaced_key_is_refused(tmp_path: Path) -> None:
    with closing(Counted(tmp_path, None)) as counted:
        assert [counted.get(LIST, counted.key).status_code for _ in range(2)] == [200, 200]
        columns = [column.name for column in tables.api_keys.columns]
        copied = ", ".join("1" if name == "revoked_at" else name for name in columns)
        with closing(administrator(counted.platform.database)) as connection:
            row = f"SELECT {copied} FROM api_keys WHERE name = '{KEY}'"
            connection.execute(f"INSERT OR REPLACE INTO api_keys ({', '.join(columns)}) {row}")
        assert counted.get(LIST, counted.key).status_code == 401


def test_an_owner_who_is_no_superuser_migrates(cluster: Cluster) -> None:
    cluster.execute("DROP ROLE IF EXISTS plain_owner")
    cluster.execute("CREATE ROLE plain_owner LOGIN NOSUPERUSER")
    cluster.execute("CREATE DATABASE plain_owner OWNER plain_owner")
    with closing(Database(cluster.url("plain_owner").replace("frost@", "plain_owner@"))) as database:
        with database.read() as connection:
            assert connection.exec_driver_sql("SHOW is_superuser").scalar() == "off"
        migrate.upgrade(database)
        with database.read() as connection:
            assert read_triggers(connection).missing == ()
        with database.write() as connection:
            increase_all_revisions(connection)
            connection.exec_driver_sql("TRUNCATE policies CASCADE")
        database.observe_origin()
        assert database.origin.is_known


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_restored_database_has_all_triggers(kind: str, new_database_url: NewUrl, tmp_path: Path) -> None:
    arguments = ["--data-dir", str(tmp_path), "--world", "empty"]
    url = new_database_url(kind, True) if kind == "postgresql" else None
    Inside(tmp_path, url, "empty").close()
    settings = from_arguments([*arguments, *(["--database", url] if url else [])], {})
    create_backup(settings, tmp_path / "backup.tar")
    restore_backup(settings, tmp_path / "backup.tar")
    with closing(Database(settings.database_url)) as database, database.read() as connection:
        assert read_triggers(connection).missing == ()

"""The migrated schema is the one of `service/db/tables/`, and earlier releases read its names and digests."""

import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, select, update
from sqlalchemy.sql import column, table

from service import secret_key
from service.app import open_platform
from service.authn.rate_limit import RateLimited
from service.authn.request_limits import LeasedLimits, LocalLimits, leases_of
from service.db import dialect, migrate
from service.db.batch_writer import BatchWriter
from service.db.engine import Database
from service.db.tables import (
    default_tag_versions,
    memberships,
    metadata,
    operations,
    platform_state,
    rate_limits,
    revisions,
)
from service.db.triggers import read_triggers
from service.operator import backup_archive
from service.operator.backup import create_backup
from service.settings import from_arguments
from tests.service.conftest import KINDS
from tests.service.queries import execute, fetch_scalars
from tests.waiting import at_once

NewUrl = Callable[[str, bool], str]


def test_the_migrated_schema_is_the_described_one(database: Database) -> None:
    query = {
        "sqlite": "SELECT sql FROM sqlite_master WHERE name = '{}'",
        "postgresql": "SELECT indexdef FROM pg_indexes WHERE indexname = '{}'",
    }[database.kind]
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, metadata) == []
        for partial_index in ("uq_operations_open", "uq_quota_requests_pending"):
            definition = str(connection.exec_driver_sql(query.format(partial_index)).scalar_one())
            assert "UNIQUE" in definition
            assert "pending" in definition.partition("WHERE")[2]


def test_the_expected_revision_is_the_newest_one_and_none_has_a_downgrade() -> None:
    scripts = ScriptDirectory(str(migrate.MIGRATIONS))
    assert scripts.get_heads() == [migrate.HEAD]
    assert not [one.revision for one in scripts.walk_revisions() if hasattr(one.module, "downgrade")]


def test_a_database_that_is_up_to_date_does_not_load_alembic(database_url: str) -> None:
    program = (
        "import sys; from service.db.engine import Database; from service.db import migrate;"
        f"migrate.upgrade(Database({database_url!r})); sys.exit('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


@pytest.mark.parametrize("kind", KINDS)
def test_replicas_that_start_together_migrate_once(kind: str, new_database_url: NewUrl) -> None:
    url = new_database_url(kind, False)
    databases = [Database(url) for _ in range(4)]
    at_once([partial(migrate.upgrade, database) for database in databases])
    assert {migrate.stored_revision(database) for database in databases} == {migrate.HEAD}
    for database in databases:
        database.close()


# Written by a version before default tags had a history: a person, and all that hangs on them.
OLDER = """
INSERT INTO users (id, email, name, created_at) VALUES ('u', 'u@x.example', 'u', 1);
INSERT INTO organizations (id, name, slug, created_at) VALUES ('o', 'o', 'o', 1);
INSERT INTO memberships (organization_id, user_id, role, limited, created_at) VALUES ('o', 'u', 'owner', FALSE, 1);
INSERT INTO tenants
    (id, organization_id, display_name, slug, status, default_tags, default_tags_version, created_at, updated_at)
    VALUES ('t', 'o', 't', 't', 'active', '{}', 1, 1, 1);
INSERT INTO sessions (id, issuer, subject, user_id, device, place, started_at, last_seen_at, expires_at)
    VALUES ('s', 'local', 's', 'u', '', '', 1, 1, 9000000000000000);
INSERT INTO api_keys
    (id, tenant_id, user_id, name, description, key_prefix, key_hash, scopes, rate_limit, created_at, expires_at)
    VALUES ('k', 't', 'u', 'kk', '', 'fmk_12345678', 'h', '["compute:read"]', 600, 1, 9000000000000000)
"""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("revision", ["0001", "0004", "0005", "0012"])
def test_a_database_of_an_older_version_keeps_its_rows(kind: str, revision: str, new_database_url: NewUrl) -> None:
    database = Database(new_database_url(kind, False))
    with database.write() as connection:
        migrate.create(connection, revision)
        for statement in OLDER.split(";"):
            connection.exec_driver_sql(statement)
        if revision >= "0005":
            # Such a version writes the beginning of a tenant's history itself.
            connection.exec_driver_sql(
                "INSERT INTO default_tag_versions (tenant_id, version, tags, changed_at) VALUES ('t', 1, '{}', 1)"
            )
    before = contents(database)
    migrate.upgrade(database)
    after = contents(database)
    assert {name: {**after[name], **row} for name, row in before.items()} == after
    limits = LocalLimits(database) if kind == "sqlite" else LeasedLimits(leases_of(database))
    limits.renew("k", 1)
    BatchWriter(database, [limits]).flush()
    with pytest.raises(RateLimited):
        limits.renew("k", 1)
    assert fetch_scalars(database, select(rate_limits.c.key_id)) == ["k"]
    with database.read() as connection:
        assert read_triggers(connection).missing == ()
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        history = connection.execute(select(default_tag_versions)).one()
        assert (history.tenant_id, history.version, history.tags, history.changed_by) == ("t", 1, {}, None)
    execute(database, update(memberships).values(role="member"))
    assert set(fetch_scalars(database, select(revisions.c.domain))) == {"u", "o"}
    database.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("revision", [f"{number:04}" for number in (*range(1, 8), 9, 10, *range(12, 20))])
def test_each_migration_leaves_the_expected_triggers(kind: str, revision: str, new_database_url: NewUrl) -> None:
    with closing(Database(new_database_url(kind, False))) as database:
        with database.write() as connection:
            migrate.create(connection, revision)
        migrate.upgrade(database)
        with database.read() as connection:
            assert read_triggers(connection).missing == ()


def contents(database: Database) -> dict[str, dict[str, Any]]:
    """The one row of each table that was written to."""
    names = re.findall(r"INSERT INTO (\w+)", OLDER)
    with database.read() as connection:
        return {name: dict(connection.exec_driver_sql(f"SELECT * FROM {name}").mappings().one()) for name in names}


def test_a_database_of_a_newer_version_is_refused_and_left_alone(database: Database) -> None:
    version = table("alembic_version", column("version_num"))
    execute(database, update(version).values(version_num="9999"))
    with pytest.raises(ValueError, match="schema this version does not know"):
        migrate.upgrade(database)
    assert migrate.stored_revision(database) == "9999"


SECRET = bytes(32)
STEPS = ["isolation", "roles", "quotas", "billing_account"]
OPERATION_COLUMNS = {
    *("run_id", "operation_id", "tenant_id", "kind", "status", "started_by", "resource_type", "resource_id"),
    *("progress", "current_step", "steps", "cursor", "seq", "counts", "snapshot", "result", "error", "error_code"),
    *("created_at", "started_at", "updated_at", "completed_at"),
}


def test_a_new_database_has_the_rows_of_earlier_releases(tmp_path: Path) -> None:
    settings = from_arguments(["--data-dir", str(tmp_path), "--world", "demo"], {})
    open_platform(settings).database.close()
    database = Database(settings.database_url)
    with database.read() as connection:
        facts = set(connection.scalars(select(platform_state.c.name)))
        rows = connection.execute(select(operations)).all()
        columns = {column["name"] for column in inspect(connection).get_columns("operations")}
    database.close()
    assert facts == {"world", "catalogue", "loaded_at", "first_person", "failing_listings", "secret_fingerprint"}
    assert columns == OPERATION_COLUMNS
    assert {(row.kind, row.resource_type) for row in rows} == {("provision_tenant", "tenant")}
    assert {row.status for row in rows} == {"pending", "completed"}
    assert all([step["name"] for step in row.steps] == STEPS for row in rows)


def test_a_backup_has_the_manifest_that_earlier_releases_read(tmp_path: Path) -> None:
    settings = from_arguments(["--data-dir", str(tmp_path / "data"), "--world", "empty"], {})
    settings.data_dir.mkdir(mode=0o700)
    open_platform(settings).database.close()
    backup = create_backup(settings, tmp_path / "backup.tar")
    assert set(backup) == {"file", "bytes", "version", "createdAt", "database", "revision", "audit"}
    with tarfile.open(tmp_path / "backup.tar") as tar:
        names = tar.getnames()
        content = tar.extractfile("manifest.json")
        assert content is not None
        manifest = json.loads(content.read())
    files = ["platform.db", "secret.key", "world-keys.json"]
    assert names == ["manifest.json", *files, "manifest.sha256", "manifest.seal"]
    assert list(manifest) == ["format", "version", "createdAt", "columns", "database", "revision", "audit", "files"]
    assert (manifest["format"], manifest["database"]) == (1, "sqlite")
    assert set(manifest["audit"]) == {"entries", "head", "unsealed"}
    assert sorted(manifest["files"]) == files
    assert all(set(entry) == {"bytes", "sha256"} for entry in manifest["files"].values())


def test_seals_fingerprints_and_locks_are_those_of_earlier_releases() -> None:
    seal = "d616c89baad1b523cd2ca1ca3884fb7533490622215d93627e6c0f6878cfc430"
    fingerprint = "f9f10960dae5d4b936213b10756eda22d4978f4d655809ce66a1bb2ecab76cd4"
    assert backup_archive.seal_of(b'{"format": 1}', SECRET) == seal
    assert secret_key.fingerprint(SECRET) == fingerprint
    assert (dialect.MIGRATION_LOCK, dialect.RECOVERY_LOCK) == (0x66726F7374, 0x66726F7375)

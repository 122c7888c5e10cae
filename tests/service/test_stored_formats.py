"""Names and digests stored by earlier releases."""

import json
import tarfile
from pathlib import Path

from sqlalchemy import inspect, select

from service import secret_key
from service.app import open_platform
from service.db import dialect
from service.db.engine import Database
from service.db.tables import operations, platform_state
from service.operator import backup_archive
from service.operator.backup import create_backup
from service.settings import from_arguments

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

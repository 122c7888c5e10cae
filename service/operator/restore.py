"""Restore a platform from a backup.

`python -m service.operator.restore FILE --data-dir DIR [--database URL] [--secret-file PATH]`

The backup is unpacked and checked in `restore.staged`. A single step commits it: a rename to `restore.ready` or, on
PostgreSQL, a transaction that stores the folder's mark. After a crash, the next start discards an uncommitted restore
and finishes a committed restore (`finish_interrupted_restore`).
"""

import contextlib
import errno
import os
import secrets
import shutil
import sqlite3
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, delete, insert, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from service import files
from service.audit.continuity import current_mark
from service.audit.mark import MARK_FILE, Mark, MarkFile, Origin
from service.audit.seals import key_of
from service.audit.verification import verify
from service.clock import wire_time
from service.db import copy_tables, dialect, migrate
from service.db.engine import APPLICATION, Database
from service.db.tables import executors, platform_state
from service.http_server import sockets
from service.jobs.dbos_queue import SCHEMA
from service.operator import backup_archive
from service.operator.backup_archive import InvalidBackup
from service.secret_key import SECRET_BYTES
from service.settings import Settings, sqlite_url

STAGED, READY, MARK = "restore.staged", "restore.ready", "restored"
WORKFLOWS = "workflows.db"
DISCONNECT_SECONDS = 3
_SQLITE_SUFFIXES = ("-wal", "-shm", "-journal")


def restore_backup(
    settings: Settings, path: Path, *, trust: bool = False, verify_with: Path | None = None
) -> dict[str, Any]:
    """Restore a backup into a stopped platform; return its facts.

    Args:
        trust: accept a seal that is missing or cannot be verified, but not a wrong seal.
        verify_with: a copy of the secret for the seal; by default the installed secret.

    Raises:
        InvalidBackup: the file cannot be restored here; no data was changed.
        StartError: the platform is running.
    """
    sockets.ensure_private_directory(settings.data_dir)
    lock = sockets.acquire_lock(settings.data_dir)
    try:
        manifest, audit_ok = _restore(settings, path, trust, verify_with)
    finally:
        os.close(lock)
    return {**_facts(path, manifest), "auditWhole": audit_ok}


def _restore(settings: Settings, path: Path, trust: bool, verify_with: Path | None) -> tuple[dict[str, Any], bool]:
    finish_interrupted_restore(settings)
    folder = settings.data_dir
    staged = folder / STAGED
    staged.mkdir(mode=0o700)
    try:
        manifest = _unpack_verified(settings, path, staged, trust, verify_with)
        secret = (staged / backup_archive.SECRET).read_bytes()
        if manifest["database"] == "sqlite":
            url = sqlite_url(staged / backup_archive.DATABASE)
            audit_ok = _is_audit_intact(url, secret, manifest)
            with contextlib.closing(Database(url)) as database, database.read() as connection:
                _stage_mark(connection, staged, secret, manifest)
            files.fsync_directory(staged)
            staged.rename(folder / READY)
            files.fsync_directory(folder)
        else:
            audit_ok = _replace_tables(settings.database_url, staged, manifest, secret)
    finally:
        finish_interrupted_restore(settings)
    return manifest, audit_ok


def check_backup(
    settings: Settings, path: Path, *, trust: bool = False, verify_with: Path | None = None
) -> dict[str, Any]:
    """Verify a backup without changes, even while the platform runs.

    Raises:
        InvalidBackup: the file cannot be restored here.
    """
    sockets.ensure_private_directory(settings.data_dir)
    with tempfile.TemporaryDirectory(prefix=".restore-check-", dir=settings.data_dir) as scratch:
        return _facts(path, _unpack_verified(settings, path, Path(scratch), trust, verify_with))


def _facts(path: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    members = ("version", "revision", "database", "createdAt", "audit")
    return {"file": str(path), **{name: manifest.get(name) for name in members}}


def _unpack_verified(
    settings: Settings, path: Path, staged: Path, trust: bool, verify_with: Path | None
) -> dict[str, Any]:
    backup = backup_archive.unpack(path, staged)
    manifest = backup.manifest
    kind = make_url(settings.database_url).get_backend_name()
    if not migrate.is_known_revision(manifest["revision"]):
        raise InvalidBackup(f"a newer frost created it ({manifest.get('version')})")
    if manifest["database"] != kind:
        raise InvalidBackup(f"the backup has a {manifest['database']} database, but this platform uses {kind}")
    if backup_archive.has_shared_secret(settings) and not settings.secret_file.exists():
        raise backup_archive.missing_secret(settings)
    if backup_archive.has_shared_secret(settings) and not _has_same_content(
        settings.secret_file, staged / backup_archive.SECRET
    ):
        raise InvalidBackup(f"the backup was created with another secret than {settings.secret_file}")
    _verify_seal(verify_with or settings.secret_file, backup, staged, trust)
    if kind == "sqlite":
        _check_sqlite(staged, manifest)
    elif missing := [name for name in manifest["columns"] if not (staged / "tables" / name).exists()]:
        raise InvalidBackup(f"it is damaged: the table {missing[0]} is missing")
    return manifest


def _verify_seal(secret_file: Path, backup: backup_archive.Backup, staged: Path, trust: bool) -> None:
    """Require a valid seal; `trust` accepts a seal that is missing or cannot be verified.

    Raises:
        InvalidBackup: the seal is wrong or unverified.
    """
    if backup.seal is None:
        if not trust:
            raise InvalidBackup(
                "it has no seal: an earlier release created it, or the seal was removed; "
                "--trust restores it without verification"
            )
        return
    secret = secret_file.read_bytes() if secret_file.exists() else b""
    if len(secret) != SECRET_BYTES:
        # The backup's own secret only detects accidental changes.
        backup_archive.require_seal(backup, (staged / backup_archive.SECRET).read_bytes(), "its content")
        if not trust:
            raise InvalidBackup(
                f"its seal cannot be verified: no secret in {secret_file}; give the secret of the "
                "original platform (--secret-file FILE), or restore it without verification (--trust)"
            )
        return
    backup_archive.require_seal(backup, secret, f"the secret in {secret_file}")


def _has_same_content(file: Path, other: Path) -> bool:
    try:
        return file.read_bytes() == other.read_bytes()
    except OSError:
        return False


def finish_interrupted_restore(settings: Settings) -> None:
    """Finish a committed restore and discard any other. Requires the lock and closed databases."""
    folder = settings.data_dir
    staged, ready = folder / STAGED, folder / READY
    for path in (staged, ready):
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            raise sockets.StartError(f"{path} is not a folder of an interrupted restore; move it away")
    if staged.exists():
        if _was_committed(settings, staged):
            staged.rename(ready)
        else:
            shutil.rmtree(staged)
    if not ready.exists():
        return
    for suffix in ("", *_SQLITE_SUFFIXES):
        (folder / f"{WORKFLOWS}{suffix}").unlink(missing_ok=True)
    if (ready / backup_archive.DATABASE).exists():
        database = Path(str(make_url(settings.database_url).database))
        for suffix in _SQLITE_SUFFIXES:
            database.with_name(database.name + suffix).unlink(missing_ok=True)
        _move_into_place(ready / backup_archive.DATABASE, database)
    names = ("world-keys.json",) if backup_archive.has_shared_secret(settings) else backup_archive.FILES
    for name in (MARK_FILE, *names):
        # Missing files were moved before a crash, or are not in the backup.
        with contextlib.suppress(FileNotFoundError):
            (ready / name).replace(backup_archive.installed_path(settings, name))
    files.fsync_directory(folder)
    shutil.rmtree(ready)


def _move_into_place(restored: Path, target: Path) -> None:
    """Replace the target, even on another disk."""
    try:
        restored.replace(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        scratch = target.with_name(f".{target.name}.restored")
        scratch.unlink(missing_ok=True)
        with restored.open("rb") as source, files.create_private(scratch) as out:
            shutil.copyfileobj(source, out)
        scratch.replace(target)
        files.fsync_directory(target.parent)
        restored.unlink()


def _check_sqlite(staged: Path, manifest: dict[str, Any]) -> None:
    """Raise InvalidBackup unless the database is intact and has the manifest's revision."""
    file = staged / backup_archive.DATABASE
    if not file.exists():
        raise InvalidBackup("it has no database")
    try:
        with contextlib.closing(sqlite3.connect(f"{file.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
            intact = connection.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok"
            (revision,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except (sqlite3.Error, TypeError):
        raise InvalidBackup("it is damaged: its database cannot be read") from None
    if not intact or revision != manifest["revision"]:
        raise InvalidBackup("it is damaged: its database is corrupt")


def _is_audit_intact(url: str, secret: bytes, manifest: dict[str, Any]) -> bool:
    """Verify the restored audit chain; True for a release without chains, False if it cannot be verified."""
    if not manifest.get("audit"):
        return True
    database = Database(url)
    try:
        with database.read() as connection:
            return verify(connection, key_of(secret)).fault is None
    except (DBAPIError, ValueError):
        return False
    finally:
        database.close()


def _replace_tables(url: str, staged: Path, manifest: dict[str, Any], secret: bytes) -> bool:
    """Replace the tables and store the mark of `staged` in a single PostgreSQL transaction."""
    mark = secrets.token_hex(16)
    (staged / MARK).write_text(mark)
    files.fsync_directory(staged)
    database = Database(url)
    try:
        _require_no_replicas(database)
        with database.write() as connection:
            copy_tables.import_tables(connection, staged / "tables", manifest["columns"], manifest["revision"])
            connection.execute(text(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE"))
            connection.execute(delete(platform_state).where(platform_state.c.name == MARK))
            connection.execute(insert(platform_state).values(name=MARK, value=mark))
            connection.execute(delete(executors))
            dialect.analyze(connection)
            # Before the commit, after which the next start finishes the restore.
            _stage_mark(connection, staged, secret, manifest)
    except (DBAPIError, ValueError) as error:
        reason = error.orig if isinstance(error, DBAPIError) else error
        raise InvalidBackup(f"the database rejects it: {' '.join(str(reason).split())[:200]}") from None
    finally:
        database.close()
    return _is_audit_intact(url, secret, manifest)


def _stage_mark(connection: Connection, staged: Path, secret: bytes, manifest: dict[str, Any]) -> None:
    """Write the mark of the restored chain; without a valid chain, one that takes what the next start finds."""
    now = datetime.now(UTC)
    mark = Mark(None, 0, "", Origin.RESTORED, wire_time(now))
    if manifest.get("audit"):
        mark = current_mark(connection, secret, Origin.RESTORED, now)
    MarkFile(staged, secret).write(mark)


def _require_no_replicas(database: Database) -> None:
    """Raise InvalidBackup if replicas remain connected for `DISCONNECT_SECONDS`."""
    count = text(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = :name AND pid <> pg_backend_pid()"
    )
    deadline = time.monotonic() + DISCONNECT_SECONDS
    while True:
        with database.read() as connection:
            if not connection.scalar(count, {"name": APPLICATION}):
                return
        if time.monotonic() > deadline:
            raise InvalidBackup("other replicas are running on this database; stop them first")
        time.sleep(0.1)


def _was_committed(settings: Settings, staged: Path) -> bool:
    try:
        mark = (staged / MARK).read_text()
    except OSError:
        return False
    database = Database(settings.database_url)
    try:
        if migrate.stored_revision(database) is None:
            return False
        with database.read() as connection:
            return connection.scalar(select(platform_state.c.value).where(platform_state.c.name == MARK)) == mark
    finally:
        database.close()


if __name__ == "__main__":
    from service.operator.backup_archive import run

    run("restore", restore_backup, check_backup)

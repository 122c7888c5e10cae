"""`python -m service.operator.restore FILE --data-dir DIR [--database URL] [--secret-file PATH]`:
restore a platform from a backup.

Everything is read and checked into `restore.staged` first, with the platform's lock held. Then one step decides: that
folder gets the name `restore.ready`, or, on PostgreSQL, a transaction commits that names it. After a crash the next
start (`settle`) throws away what was not decided and finishes what was, so there is the old platform or the new one.
"""

import contextlib
import errno
import os
import secrets
import shutil
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Any

from sqlalchemy import delete, insert, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from service import files
from service.audit import chain
from service.audit.chain import verify
from service.db import copy_tables, dialect, migrate
from service.db.engine import APPLICATION, Database
from service.db.tables import executors, platform_state
from service.http_server import sockets
from service.jobs.dbos_queue import SCHEMA
from service.operator import archive
from service.operator.archive import InvalidBackup
from service.settings import Settings, sqlite_url

STAGED, READY, MARK = "restore.staged", "restore.ready", "restored"
WORKFLOWS = "workflows.db"
LEAVING_SECONDS = 3
_BESIDE = ("", "-wal", "-shm", "-journal")


def put_back(settings: Settings, path: Path, *, trust: bool = False, verify_with: Path | None = None) -> dict[str, Any]:
    """Restore a backup into a platform that does not run; return the facts about it.

    Args:
        settings: The platform's settings.
        path: The backup.
        trust: Restore it although its seal cannot be verified. A wrong seal is refused all the same.
        verify_with: A copy of the secret that verifies the seal; by default the installed secret does.

    Raises:
        Unfit: the file cannot be restored here; nothing was touched.
        listening.Refused: the platform runs.
    """
    sockets.ensure_private_directory(settings.data_dir)
    lock = sockets.acquire_lock(settings.data_dir)
    try:
        manifest, whole = _put_back(settings, path, trust, verify_with)
    finally:
        os.close(lock)
    return {**_told(path, manifest), "auditWhole": whole}


def _put_back(settings: Settings, path: Path, trust: bool, verify_with: Path | None) -> tuple[dict[str, Any], bool]:
    finish_interrupted_restore(settings)
    folder = settings.data_dir
    staged = folder / STAGED
    staged.mkdir(mode=0o700)
    try:
        manifest = _read(settings, path, staged, trust, verify_with)
        secret = (staged / archive.SECRET).read_bytes()
        if manifest["database"] == "sqlite":
            whole = _is_whole(sqlite_url(staged / archive.DATABASE), secret, manifest)
            files.fsync_directory(staged)
            staged.rename(folder / READY)
            files.fsync_directory(folder)
        else:
            whole = _replace_tables(settings.database_url, staged, manifest, secret)
    finally:
        # Decided or not: after this it is one or the other.
        finish_interrupted_restore(settings)
    return manifest, whole


def check(settings: Settings, path: Path, *, trust: bool = False, verify_with: Path | None = None) -> dict[str, Any]:
    """Read and verify a backup as `put_back` does; nothing is changed, and the platform may run.

    Raises:
        Unfit: the file cannot be restored here.
    """
    sockets.ensure_private_directory(settings.data_dir)
    with tempfile.TemporaryDirectory(prefix=".restore-check-", dir=settings.data_dir) as scratch:
        return _told(path, _read(settings, path, Path(scratch), trust, verify_with))


def _told(path: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    told = {name: manifest.get(name) for name in ("version", "revision", "database", "createdAt", "audit")}
    return {"file": str(path), **told}


def _read(settings: Settings, path: Path, staged: Path, trust: bool, verify_with: Path | None) -> dict[str, Any]:
    backup = archive.unpack(path, staged)
    manifest = backup.manifest
    kind = make_url(settings.database_url).get_backend_name()
    if not migrate.is_known_revision(manifest["revision"]):
        raise InvalidBackup(f"it was made by a newer frost ({manifest.get('version')})")
    if manifest["database"] != kind:
        raise InvalidBackup(f"it holds a {manifest['database']} database, and this platform's is {kind}")
    if archive.shares_secret(settings) and not settings.secret_file.exists():
        raise archive.secret_missing(settings)
    if archive.shares_secret(settings) and not _is_same(settings.secret_file, staged / archive.SECRET):
        raise InvalidBackup(f"it was made with another secret than {settings.secret_file} holds")
    _verify_seal(verify_with or settings.secret_file, backup, staged, trust)
    if kind == "sqlite":
        _check_sqlite(staged, manifest)
    elif missing := [name for name in manifest["columns"] if not (staged / "tables" / name).exists()]:
        raise InvalidBackup(f"it is damaged: the table {missing[0]} is missing")
    return manifest


def _verify_seal(secret_file: Path, backup: archive.Backup, staged: Path, trust: bool) -> None:
    """Refuse a backup that was not made with this secret, and without `trust` one that cannot be verified.

    Raises:
        Unfit: the seal is wrong, or cannot be verified.
    """
    if backup.seal is None:
        if not trust:
            raise InvalidBackup(
                "it has no seal: an earlier release made it, or the seal was removed; "
                "--trust restores it without verification"
            )
        return
    try:
        secret = secret_file.read_bytes()
    except FileNotFoundError:
        # Its own secret proves nothing about who made it, but shows what was changed afterwards.
        archive.require_seal(backup, (staged / archive.SECRET).read_bytes(), "its content")
        if not trust:
            raise InvalidBackup(
                f"its seal cannot be verified: there is no secret in {secret_file}; give the secret that it "
                "was made with (--secret-file FILE), or restore it without verification (--trust)"
            ) from None
        return
    archive.require_seal(backup, secret, f"the secret in {secret_file}")


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.read_bytes() == other.read_bytes()
    except OSError:
        return False


def finish_interrupted_restore(settings: Settings) -> None:
    """Finish or forget a restore that did not come to its end. Call it under the lock, before the data is opened."""
    folder = settings.data_dir
    staged, ready = folder / STAGED, folder / READY
    if staged.exists():
        if _was_committed(settings, staged):
            staged.rename(ready)
        else:
            shutil.rmtree(staged)
    if not ready.exists():
        return
    for suffix in _BESIDE:
        (folder / f"{WORKFLOWS}{suffix}").unlink(missing_ok=True)
    if (ready / archive.DATABASE).exists():
        database = Path(str(make_url(settings.database_url).database))
        for suffix in _BESIDE[1:]:
            database.with_name(database.name + suffix).unlink(missing_ok=True)
        _move_into_place(ready / archive.DATABASE, database)
    for name in ("world-keys.json",) if archive.shares_secret(settings) else archive.FILES:
        # What was moved before a crash is at its place, and what the backup had not stays.
        with contextlib.suppress(FileNotFoundError):
            (ready / name).replace(archive.place(settings, name))
    files.fsync_directory(folder)
    shutil.rmtree(ready)


def _move_into_place(restored: Path, place: Path) -> None:
    """Put a file to its place, which may be on another disk: there it only gets its name when all of it is written."""
    try:
        restored.replace(place)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        scratch = place.with_name(f".{place.name}.restored")
        scratch.unlink(missing_ok=True)
        with restored.open("rb") as source, files.create_private(scratch) as out:
            shutil.copyfileobj(source, out)
        scratch.replace(place)
        files.fsync_directory(place.parent)
        restored.unlink()


def _check_sqlite(staged: Path, manifest: dict[str, Any]) -> None:
    """Raise Unfit unless the database is sound and of the revision it is said to be."""
    file = staged / archive.DATABASE
    if not file.exists():
        raise InvalidBackup("it holds no database")
    try:
        with contextlib.closing(sqlite3.connect(f"{file.as_uri()}?mode=ro&immutable=1", uri=True)) as opened:
            sound = opened.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok"
            (revision,) = opened.execute("SELECT version_num FROM alembic_version").fetchone()
    except (sqlite3.Error, TypeError):
        raise InvalidBackup("it is damaged: its database cannot be read") from None
    if not sound or revision != manifest["revision"]:
        raise InvalidBackup("it is damaged: its database is not sound")


def _is_whole(url: str, secret: bytes, manifest: dict[str, Any]) -> bool:
    """Whether the restored audit log's chain is; one from before there were chains has nothing to check."""
    if not manifest.get("audit"):
        return True
    database = Database(url)
    try:
        with database.read() as connection:
            return verify(connection, chain.key_of(secret)).fault is None
    finally:
        database.close()


def _replace_tables(url: str, staged: Path, manifest: dict[str, Any], secret: bytes) -> bool:
    """Put a PostgreSQL database's tables back in one transaction, which also says that `staged` belongs to it."""
    mark = secrets.token_hex(16)
    (staged / MARK).write_text(mark)
    files.fsync_directory(staged)
    database = Database(url)
    try:
        _refuse_others(database)
        with database.write() as connection:
            copy_tables.import_tables(connection, staged / "tables", manifest["columns"], manifest["revision"])
            connection.execute(text(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE"))
            connection.execute(delete(platform_state).where(platform_state.c.name == MARK))
            connection.execute(insert(platform_state).values(name=MARK, value=mark))
            connection.execute(delete(executors))
            dialect.analyze(connection)
        return _is_whole(url, secret, manifest)
    except (DBAPIError, ValueError) as error:
        reason = error.orig if isinstance(error, DBAPIError) else error
        raise InvalidBackup(f"the database does not take it: {' '.join(str(reason).split())[:200]}") from None
    finally:
        database.close()


def _refuse_others(database: Database) -> None:
    """Raise Unfit while a platform is connected to the database; one that has just ended gets a moment to leave."""
    others = text(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = :name AND pid <> pg_backend_pid()"
    )
    end = time.monotonic() + LEAVING_SECONDS
    while True:
        with database.read() as connection:
            if not connection.scalar(others, {"name": APPLICATION}):
                return
        if time.monotonic() > end:
            raise InvalidBackup("other replicas are running on this database; stop them first")
        time.sleep(0.1)


def _was_committed(settings: Settings, staged: Path) -> bool:
    """Whether the transaction that names this folder was committed."""
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
    from service.operator.archive_command import run

    run("restore", put_back, check)

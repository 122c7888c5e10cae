"""Back up a platform while it runs.

`python -m service.operator.backup FILE --data-dir DIR [--database URL] [--secret-file PATH]`

The database is copied as a single snapshot; key files do not change. Open operations continue after a restore, which
rebuilds the workflow engine's queue from them.
"""

import contextlib
import shutil
import sqlite3
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func, select
from sqlalchemy.engine import make_url

from service import files
from service.audit.sealer import is_unsealed
from service.clock import wire_time
from service.db import copy_tables, migrate
from service.db.engine import Database
from service.db.tables import audit_head, audit_log
from service.http_server.sockets import LOCK_FILE
from service.operator import backup_archive
from service.operator.backup_archive import InvalidBackup
from service.settings import VERSION, Settings, sqlite_url


def create_backup(settings: Settings, path: Path) -> dict[str, Any]:
    """Write a backup (mode 0600) to a new path; return its facts.

    Raises:
        InvalidBackup: there is no platform, or the path exists.
        OSError: the backup cannot be written.
    """
    if path.exists() or path.is_symlink():
        raise InvalidBackup(f"{path} already exists; a backup does not replace files")
    if not settings.secret_file.exists():
        if backup_archive.has_shared_secret(settings) or (settings.data_dir / LOCK_FILE).exists():
            raise backup_archive.missing_secret(settings)
        raise InvalidBackup(f"no platform in {settings.data_dir}")
    # The finished file is hard-linked to its path.
    with _scratch_directory(path.parent) as scratch:
        folder = Path(scratch)
        facts = {"version": VERSION, "createdAt": wire_time(datetime.now(UTC)), "columns": {}}
        facts |= _copy_database(settings, folder)
        for name in backup_archive.FILES:
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(backup_archive.installed_path(settings, name), folder / name)
        names = sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
        backup = folder / "backup"
        with files.create_private(backup) as out:
            backup_archive.pack(out, folder, names, facts)
        size = backup.stat().st_size
        try:
            path.hardlink_to(backup)
        except FileExistsError:
            raise InvalidBackup(f"{path} already exists; a backup does not replace files") from None
        files.fsync_directory(path.parent)
    return {"file": str(path), "bytes": size, **{name: value for name, value in facts.items() if name != "columns"}}


def _scratch_directory(parent: Path) -> "tempfile.TemporaryDirectory[str]":
    try:
        return tempfile.TemporaryDirectory(prefix=".frost-backup-", dir=parent)
    except OSError as error:
        # Names the directory instead of the temporary path.
        raise OSError(error.errno, error.strerror, str(parent)) from None


def _copy_database(settings: Settings, folder: Path) -> dict[str, Any]:
    if make_url(settings.database_url).get_backend_name() == "sqlite":
        copy = folder / backup_archive.DATABASE
        _copy_sqlite(settings, copy)
        database = Database(sqlite_url(copy))
    else:
        database = Database(settings.database_url)
    try:
        revision = migrate.stored_revision(database)
        if revision is None:
            raise InvalidBackup("the database is empty: there is nothing to back up")
        with database.read() as connection:
            facts: dict[str, Any] = {"database": database.kind, "revision": revision}
            facts["audit"] = _audit_head(connection, revision) if revision >= "0007" else None
            if database.kind == "postgresql":
                (folder / "tables").mkdir(mode=0o700)
                facts["columns"] = copy_tables.export_tables(connection, folder / "tables")
            return facts
    finally:
        database.close()
        for suffix in ("-wal", "-shm"):
            (folder / (backup_archive.DATABASE + suffix)).unlink(missing_ok=True)


def _audit_head(connection: Connection, revision: str) -> dict[str, Any] | None:
    """Return the end of the chain, and the number of entries that the restored platform will seal."""
    head = connection.execute(select(audit_head)).one_or_none()
    if head is None:
        return None
    unsealed = select(func.count()).select_from(audit_log).where(is_unsealed())
    count = connection.scalar(unsealed) if revision >= "0017" else 0
    return {"entries": head.entries, "head": head.hash, "unsealed": count}


def _copy_sqlite(settings: Settings, copy: Path) -> None:
    source = Path(str(make_url(settings.database_url).database))
    if not source.exists():
        raise InvalidBackup(f"no platform in {settings.data_dir}")
    with (
        contextlib.closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=rw", uri=True, timeout=10)) as running,
        contextlib.closing(sqlite3.connect(copy)) as into,
    ):
        # A single step: a consistent snapshot that does not block writers.
        running.backup(into)
    copy.chmod(0o600)


if __name__ == "__main__":
    from service.operator.backup_archive import run

    run("backup", create_backup)

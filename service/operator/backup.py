"""`python -m service.operator.backup FILE --data-dir DIR [--database URL] [--secret-file PATH]`:
back up a running platform.

The database is copied as of one moment; its operations are in it, and go on from there after a restore. What the
workflow engine keeps is not: the operation rows are the truth. Keys in the data folder never change.
"""

import contextlib
import shutil
import sqlite3
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.engine import make_url

from service import files
from service.clock import wire_time
from service.db import copy_tables, migrate
from service.db.engine import Database
from service.db.tables import audit_head
from service.http_server.sockets import LOCK_FILE
from service.operator import archive
from service.operator.archive import InvalidBackup
from service.settings import VERSION, Settings, sqlite_url


def make(settings: Settings, path: Path) -> dict[str, Any]:
    """Write a backup (0600) to a path where nothing is yet; what it is, for the person who asked.

    Raises:
        Unfit: there is nothing to copy, or something in the way.
        OSError: it cannot be written.
    """
    if path.exists() or path.is_symlink():
        raise InvalidBackup(f"{path} is there already; a backup replaces nothing")
    if not settings.secret_file.exists():
        if archive.shares_secret(settings) or (settings.data_dir / LOCK_FILE).exists():
            raise archive.secret_missing(settings)
        raise InvalidBackup(f"there is no platform in {settings.data_dir}")
    # Beside where it will be: it has to have room there, and then only gets its name.
    with _beside(path) as scratch:
        folder, told = Path(scratch), {"version": VERSION, "createdAt": wire_time(datetime.now(UTC)), "columns": {}}
        told |= _copy_database(settings, folder)
        for name in archive.FILES:
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(archive.place(settings, name), folder / name)
        names = sorted(str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file())
        whole = folder / "backup"
        with files.create_private(whole) as out:
            archive.pack(out, folder, names, told)
        size = whole.stat().st_size
        try:
            path.hardlink_to(whole)
        except FileExistsError:
            raise InvalidBackup(f"{path} is there already; a backup replaces nothing") from None
        files.fsync_directory(path.parent)
    return {"file": str(path), "bytes": size, **{name: value for name, value in told.items() if name != "columns"}}


def _beside(path: Path) -> "tempfile.TemporaryDirectory[str]":
    try:
        return tempfile.TemporaryDirectory(prefix=".frost-backup-", dir=path.parent)
    except OSError as error:
        # Not the name of what nobody has heard of.
        raise OSError(error.errno, error.strerror, str(path.parent)) from None


def _copy_database(settings: Settings, folder: Path) -> dict[str, Any]:
    if make_url(settings.database_url).get_backend_name() == "sqlite":
        copy = folder / archive.DATABASE
        _copy_sqlite(settings, copy)
        database = Database(sqlite_url(copy))
    else:
        database = Database(settings.database_url)
    try:
        revision = migrate.stored_revision(database)
        if revision is None:
            raise InvalidBackup("the database is empty: there is nothing to back up")
        with database.read() as connection:
            told: dict[str, Any] = {"database": database.kind, "revision": revision}
            told["audit"] = _audit(connection) if revision >= "0007" else None
            if database.kind == "postgresql":
                (folder / "tables").mkdir(mode=0o700)
                told["columns"] = copy_tables.export_tables(connection, folder / "tables")
            return told
    finally:
        database.close()
        for suffix in ("-wal", "-shm"):
            (folder / (archive.DATABASE + suffix)).unlink(missing_ok=True)


def _audit(connection: Connection) -> dict[str, Any] | None:
    """Where the audit log's chain ended: told beside the backup, it is what a restored one must have."""
    head = connection.execute(select(audit_head)).one_or_none()
    return None if head is None else {"entries": head.entries, "head": head.hash}


def _copy_sqlite(settings: Settings, copy: Path) -> None:
    source = Path(str(make_url(settings.database_url).database))
    if not source.exists():
        raise InvalidBackup(f"there is no platform in {settings.data_dir}")
    with (
        contextlib.closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=rw", uri=True, timeout=10)) as running,
        contextlib.closing(sqlite3.connect(copy)) as into,
    ):
        # All of it in one step: one moment, and writers go on beside it.
        running.backup(into)
    copy.chmod(0o600)


if __name__ == "__main__":
    from service.operator.archive_command import run

    run("backup", make)

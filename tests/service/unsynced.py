"""The platform on a disk that loses at a power failure all that SQLite has not synced.

`python -m tests.service.unsynced FOLDER SYNCHRONOUS …` runs `python -m service …`. FOLDER gets the databases as they
were at the last sync of each file: a file of SQLite's default file system (VFS) is written as always, and again into
FOLDER when it is synced. A power failure is `kill -9`, and the files of FOLDER in place of the others.
"""

import _sqlite3
import ctypes
import sys
from collections import defaultdict
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int64, c_void_p, cast
from pathlib import Path
from threading import RLock
from typing import Any

# SQLITE_OPEN_MAIN_DB, SQLITE_OPEN_MAIN_JOURNAL and SQLITE_OPEN_WAL.
DURABLE_FILES = 0x100 | 0x800 | 0x80000
OPEN = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
DELETE = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int)
WRITE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
TRUNCATE = CFUNCTYPE(c_int, c_void_p, c_int64)
SYNC = CFUNCTYPE(c_int, c_void_p, c_int)
# `sqlite3_vfs` and `sqlite3_io_methods` (version 3) as words of a pointer's size.
VFS, METHODS = c_void_p * 7, c_void_p * 19
X_OPEN, X_DELETE = 5, 6
X_WRITE, X_TRUNCATE, X_SYNC = 3, 4, 5


def library() -> Any:
    """The SQLite library of this interpreter; None if it does not show its functions."""
    found = ctypes.CDLL(getattr(_sqlite3, "__file__", None))
    return found if hasattr(found, "sqlite3_vfs_find") else None


class SyncedFiles:
    """Copies of files as they were when they were synced."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.unsynced: dict[str, list[tuple[int, bytes | None]]] = defaultdict(list)
        """By path: offset and bytes, or the new size and None."""
        self.paths: dict[int, str] = {}
        self.lock = RLock()

    def write(self, file: int, offset: int, content: bytes | None) -> None:
        with self.lock:
            if file in self.paths:
                self.unsynced[self.paths[file]].append((offset, content))

    def sync(self, file: int) -> None:
        with self.lock:
            path = self.paths.get(file)
            if path is None:
                return
            copy = self.folder / Path(path).name
            copy.touch()
            with copy.open("r+b") as out:
                for offset, content in self.unsynced.pop(path, []):
                    if content is None:
                        out.truncate(offset)
                    else:
                        out.seek(offset)
                        out.write(content)

    def delete(self, path: str) -> None:
        with self.lock:
            self.unsynced.pop(path, None)
            (self.folder / Path(path).name).unlink(missing_ok=True)


def install(files: SyncedFiles) -> list[Any]:
    """Change the methods of SQLite's default VFS in this process; return the objects that must stay referenced."""
    sqlite = library()
    sqlite.sqlite3_vfs_find.restype = c_void_p
    vfs = VFS.from_address(sqlite.sqlite3_vfs_find(None))
    real_open, real_delete = OPEN(vfs[X_OPEN]), DELETE(vfs[X_DELETE])
    known: dict[int, Any] = {}
    kept: list[Any] = [real_open, real_delete, known]

    def replace(words: Any, number: int, function: Any) -> None:
        kept.append(function)
        words[number] = cast(function, c_void_p).value

    def methods_with_copies(real: Any) -> Any:
        real_write, real_truncate = WRITE(real[X_WRITE]), TRUNCATE(real[X_TRUNCATE])

        def write(file: int, content: int, size: int, offset: int) -> int:
            files.write(file, offset, ctypes.string_at(content, size))
            return int(real_write(file, content, size, offset))

        def truncate(file: int, size: int) -> int:
            files.write(file, size, None)
            return int(real_truncate(file, size))

        def sync(file: int, flags: int) -> int:
            files.sync(file)
            return 0

        changed = METHODS(*real)
        replace(changed, X_WRITE, WRITE(write))
        replace(changed, X_TRUNCATE, TRUNCATE(truncate))
        replace(changed, X_SYNC, SYNC(sync))
        return changed

    def open_(vfs_pointer: int, name: int | None, file: int, flags: int, out: int | None) -> int:
        result = int(real_open(vfs_pointer, name, file, flags, out))
        address = cast(file, POINTER(c_void_p))
        files.paths.pop(file, None)
        if result == 0 and address.contents.value and name and flags & DURABLE_FILES:
            files.paths[file] = ctypes.string_at(name).decode()
            methods = address.contents.value
            if methods not in known:
                known[methods] = methods_with_copies(METHODS.from_address(methods))
            address.contents.value = ctypes.addressof(known[methods])
        return result

    def delete(vfs_pointer: int, name: bytes, sync_folder: int) -> int:
        files.delete(name.decode())
        return int(real_delete(vfs_pointer, name, sync_folder))

    replace(vfs, X_OPEN, OPEN(open_))
    replace(vfs, X_DELETE, DELETE(delete))
    return kept


def main() -> int:
    from service.__main__ import main as serve
    from service.db import sqlite as database

    folder, synchronous = Path(sys.argv[1]), sys.argv[2]
    del sys.argv[1:3]
    folder.mkdir(exist_ok=True)
    kept = install(SyncedFiles(folder))
    prepare = database._prepare_connection

    def prepare_connection(driver_connection: Any, record: object) -> None:
        prepare(driver_connection, record)
        if synchronous != "unchanged":
            driver_connection.execute(f"PRAGMA synchronous={synchronous}")

    database._prepare_connection = prepare_connection
    status = serve()
    del kept
    return status


if __name__ == "__main__":
    sys.exit(main())

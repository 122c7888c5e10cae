"""The platform on a disk that loses at a power failure all that SQLite has not synced.

`python -m tests.service.unsynced FOLDER SYNCHRONOUS …` runs `python -m service …`. FOLDER gets the databases as they
were at the last sync of each file: a file of SQLite's default file system (VFS) is written as always, and again into
FOLDER when it is synced. A power failure is `kill -9`, and the files of FOLDER in place of the others.
"""

import _sqlite3
import ctypes
import sys
from collections import defaultdict
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_void_p, cast
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
CHANGED: dict[str, Any] = {"write": WRITE, "truncate": TRUNCATE, "sync": SYNC}


class Vfs(Structure):
    """The first members of `sqlite3_vfs`; the others are used as they are."""

    _fields_ = [
        ("version", c_int),
        ("file_size", c_int),
        ("path_size", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("open", OPEN),
        ("delete", DELETE),
    ]


class Methods(Structure):
    """`sqlite3_io_methods`, version 3."""

    _fields_ = [
        ("version", c_int),
        ("close", c_void_p),
        ("read", c_void_p),
        ("write", WRITE),
        ("truncate", TRUNCATE),
        ("sync", SYNC),
        ("others", c_void_p * 13),
    ]


def library() -> Any:
    """The SQLite library of this interpreter; None if it does not show its functions."""
    found = ctypes.CDLL(getattr(_sqlite3, "__file__", None))
    return found if hasattr(found, "sqlite3_vfs_find") else None


def address_of(function: Any) -> int:
    address = cast(function, c_void_p).value
    assert address
    return address


class SyncedFiles:
    """Copies of files as they were when they were synced."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.unsynced: dict[str, list[tuple[int, bytes | None]]] = defaultdict(list)
        """By path: offset and bytes, or the new size and None."""
        self.paths: dict[int, str] = {}
        self.lock = RLock()

    def copy(self, path: str) -> Path:
        return self.folder / Path(path).name

    def open(self, file: int, path: str) -> None:
        with self.lock:
            self.paths[file] = path

    def write(self, file: int, offset: int, content: bytes | None) -> None:
        with self.lock:
            self.unsynced[self.paths[file]].append((offset, content))

    def sync(self, file: int) -> None:
        with self.lock:
            path = self.paths[file]
            copy = self.copy(path)
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
            self.copy(path).unlink(missing_ok=True)


def install(files: SyncedFiles) -> list[Any]:
    """Change the methods of SQLite's default VFS in this process; return the objects that must stay referenced."""
    sqlite = library()
    sqlite.sqlite3_vfs_find.restype = POINTER(Vfs)
    vfs = sqlite.sqlite3_vfs_find(None).contents
    real_open, real_delete = OPEN(address_of(vfs.open)), DELETE(address_of(vfs.delete))
    known: dict[int, Methods] = {}
    kept: list[Any] = [real_open, real_delete, known]

    def methods_with_copies(methods: Methods) -> Methods:
        real = {name: kind(address_of(getattr(methods, name))) for name, kind in CHANGED.items()}

        def write(file: int, content: int, size: int, offset: int) -> int:
            files.write(file, offset, ctypes.string_at(content, size)) if file in files.paths else None
            return int(real["write"](file, content, size, offset))

        def truncate(file: int, size: int) -> int:
            files.write(file, size, None) if file in files.paths else None
            return int(real["truncate"](file, size))

        def sync(file: int, flags: int) -> int:
            if file in files.paths:
                files.sync(file)
            return 0

        changed = Methods.from_buffer_copy(methods)
        changed.write, changed.truncate, changed.sync = WRITE(write), TRUNCATE(truncate), SYNC(sync)
        kept.append((real, changed.write, changed.truncate, changed.sync))
        return changed

    def open_(vfs_pointer: int, name: int | None, file: int, flags: int, out: int | None) -> int:
        result = int(real_open(vfs_pointer, name, file, flags, out))
        pointer = cast(file, POINTER(c_void_p))
        if result == 0 and pointer.contents.value and name and flags & DURABLE_FILES:
            files.open(file, ctypes.string_at(name).decode())
            address = pointer.contents.value
            if address not in known:
                known[address] = methods_with_copies(Methods.from_address(address))
            pointer.contents.value = ctypes.addressof(known[address])
        else:
            files.paths.pop(file, None)
        return result

    def delete(vfs_pointer: int, name: bytes, sync_folder: int) -> int:
        files.delete(name.decode())
        return int(real_delete(vfs_pointer, name, sync_folder))

    vfs.open, vfs.delete = OPEN(open_), DELETE(delete)
    kept += [vfs.open, vfs.delete]
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

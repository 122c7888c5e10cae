"""Files that are written whole or not at all."""

import os
import threading
from pathlib import Path

import pytest

from service.files import write_atomically


def test_a_file_is_replaced_and_private(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(b"old")
    file.chmod(0o644)
    write_atomically(file, b"new")
    assert file.read_bytes() == b"new"
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_an_exclusive_write_keeps_an_existing_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    write_atomically(file, b"first", exclusive=True)
    with pytest.raises(FileExistsError):
        write_atomically(file, b"second", exclusive=True)
    assert file.read_bytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_concurrent_writers_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Two containers with the same process id may share the folder, so the scratch file is not named by it."""
    file, results = tmp_path / "key", []

    def write(number: int) -> None:
        try:
            write_atomically(file, bytes([number]) * 100_000, exclusive=True)
            results.append(number)
        except FileExistsError:
            pass

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = results
    assert file.read_bytes() == bytes([winner]) * 100_000
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(28, "no space left")

    file = tmp_path / "key"
    file.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        write_atomically(file, b"new")
    assert file.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["key"]

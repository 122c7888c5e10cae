"""Files that are written whole or not at all."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from service.files import write_atomically


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "key"
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_a_file_is_replaced_whole_and_private(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(28, "no space left")

    file.write_bytes(b"old")
    file.chmod(0o644)
    write_atomically(file, b"new")
    assert file.read_bytes() == b"new"
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        write_atomically(file, b"second", exclusive=True)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        write_atomically(file, b"newer")
    assert file.read_bytes() == b"new"


def test_concurrent_writers_do_not_disturb_each_other(file: Path) -> None:
    """Two containers with the same process id may share the folder, so the scratch file is not named by it."""
    results = list[int]()

    def write(number: int) -> None:
        with suppress(FileExistsError):
            write_atomically(file, bytes([number]) * 100_000, exclusive=True)
            results.append(number)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(8)))
    (winner,) = results
    assert file.read_bytes() == bytes([winner]) * 100_000

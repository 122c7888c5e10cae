"""Atomic, durable file writes, and readers of YAML and table files."""

import csv
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


class DamagedFile(RuntimeError):
    """A file of the platform cannot be used. The text names the file and what to do, in a single line."""


def write_atomically(path: Path, data: bytes, *, exclusive: bool = False) -> None:
    """Write a file with mode 0600, synced to disk.

    Args:
        exclusive: do not replace an existing file. Only the first of concurrent calls succeeds.

    Raises:
        FileExistsError: `exclusive` is set, and the file exists.
        OSError: the file cannot be written.
    """
    # Random, because processes in different containers may have the same process id.
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with create_private(scratch) as out:
            out.write(data)
        if exclusive:
            path.hardlink_to(scratch)
        else:
            scratch.rename(path)
        fsync_directory(path.parent)
    finally:
        scratch.unlink(missing_ok=True)


@contextmanager
def create_private(path: Path) -> Iterator[IO[bytes]]:
    """Create a file with mode 0600, synced to disk at the end. Raises FileExistsError."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        yield out
        out.flush()
        os.fsync(out.fileno())


def fsync_directory(directory: Path) -> None:
    """Sync a directory to disk, so that new and renamed files survive a crash."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def load_yaml(path: Path) -> Any:
    # Most starts read no YAML file.
    import yaml

    # libyaml is ten times faster.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(path.read_text("utf-8"), Loader=loader)  # noqa: S506 - both loaders are safe


def read_table(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a `.csv` or `.tsv` file with a header. TSV files have no quoting."""
    with path.open(encoding="utf-8", newline="") as lines:
        if path.suffix == ".tsv":
            yield from csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        else:
            yield from csv.DictReader(lines)

"""Files of exported audit entries: segments of JSON Lines, each followed by its proof."""

# Commands do not import pathlib: it takes longer than reading the configuration.
# ruff: noqa: PTH108, PTH118, PTH119, PTH120, PTH123

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import IO, Any

from client.errors import FrostError
from client.text import safe

_PROOF = b'{"segment":'
_NUMBERS, _TEXTS = ("first", "last"), ("begins", "ends", "previousHash", "hash", "sha256", "seal")


@contextmanager
def create(path: str) -> Iterator[IO[bytes]]:
    """Create a file with mode 0600. Its name appears when the file is complete and synced to disk.

    Raises:
        FrostError: the file exists, or cannot be written.
    """
    scratch = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{os.getpid()}")
    try:
        if os.path.lexists(path):
            raise FileExistsError
        try:
            with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
                yield out
                out.flush()
                os.fsync(out.fileno())
            # A link, unlike a rename, does not replace a file.
            os.link(scratch, path)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(scratch)
    except FileExistsError:
        raise FrostError(f"{safe(path, 200)} already exists", code="FILE_EXISTS", hint="choose another file") from None
    except OSError as error:
        raise FrostError(
            f"{safe(path, 200)} cannot be written: {safe(error.strerror or str(error), 200)}", code="FILE_NOT_WRITTEN"
        ) from error


def write_segment(out: IO[bytes], lines: str, proof: Mapping[str, Any]) -> None:
    out.write(lines.encode())
    out.write(json.dumps({"segment": proof}, separators=(",", ":")).encode() + b"\n")


def read_proofs(path: str) -> list[dict[str, Any]]:
    """Return the proofs of a file, compared with its lines. Their seals are not verified.

    Raises:
        FrostError: the file cannot be read, or was altered.
    """
    try:
        with open(path, "rb") as file:
            proofs = list(_proofs(file))
    except OSError as error:
        raise FrostError(
            f"{safe(path, 200)} cannot be read: {safe(error.strerror or str(error), 200)}", code="FILE_NOT_READ"
        ) from error
    except ValueError as error:
        raise FrostError(
            f"{safe(path, 200)} is not an intact export: {error}",
            code="EXPORT_DAMAGED",
            hint="nothing was changed",
        ) from None
    return proofs


def _proofs(file: IO[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the proofs of a file. Raises ValueError at the first that does not match the preceding lines."""
    digest, previous, number = sha256(), dict[str, Any](), 0
    is_open = False
    for number, line in enumerate(file, 1):
        if not line.startswith(_PROOF):
            digest.update(line)
            is_open = True
            continue
        proof = _proof(line, number)
        if proof["sha256"] != digest.hexdigest():
            raise ValueError(f"the entries before line {number} were altered")
        if previous and (proof["first"], proof["previousHash"]) != (previous["last"] + 1, previous["hash"]):
            raise ValueError(f"entries before line {number} are missing")
        yield proof
        digest, previous, is_open = sha256(), proof, False
    if is_open:
        raise ValueError("its end is missing")
    if not previous:
        raise ValueError("it is empty")


def _proof(line: bytes, number: int) -> dict[str, Any]:
    try:
        document = json.loads(line)
        proof = document["segment"]
        is_valid = (
            line.endswith(b"\n")
            and document.keys() == {"segment"}
            and proof.keys() == {*_NUMBERS, *_TEXTS}
            and all(type(proof[name]) is int for name in _NUMBERS)
            and all(isinstance(proof[name], str) for name in _TEXTS)
        )
    except (ValueError, AttributeError, RecursionError):
        is_valid = False
    if not is_valid:
        raise ValueError(f"line {number} is not the proof of a segment")
    return dict(proof)

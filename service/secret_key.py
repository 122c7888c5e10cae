"""The platform's secret: the key of stored digests and list cursors.

It is 32 random bytes in a file, created by the first process on a new database. Replicas must share it, so the database
stores its fingerprint, and a process with another secret does not start.
"""

import hmac
import os
import secrets
import stat
from hashlib import sha256
from pathlib import Path

from service import files
from service.db.dialect import upsert_insert
from service.db.engine import Database
from service.db.statements import get_value
from service.db.tables import platform_state

SECRET_BYTES = 32
FINGERPRINT = "secret_fingerprint"
_FINGERPRINT_MESSAGE = b"the platform's secret, to be told apart from another"


def secret_for(database: Database, path: Path) -> bytes:
    """Return the secret in the file `path`.

    A database without a fingerprint adopts the secret of the first process. The file is created only for a new
    database.

    Raises:
        ValueError: the file is missing, damaged or readable by others, or does not match the fingerprint.
    """
    with database.read() as connection:
        stored, has_data = get_value(connection, FINGERPRINT), get_value(connection, "world") is not None
    # After the fingerprint, which is committed after the file is written.
    secret = _read(path)
    if stored is None and not (secret is None and has_data):
        secret, stored = _adopt(database, path, secret)
    if secret is None:
        raise ValueError(f"{path} is missing, and without it no API key works; copy it from the original installation")
    if stored != fingerprint(secret):
        raise ValueError(
            f"the database was created with another secret than {path}; set --secret-file to the original file"
        )
    return secret


def fingerprint(secret: bytes) -> str:
    """Return the fingerprint of a secret, 64 hex digits that do not reveal it."""
    return hmac.new(secret, _FINGERPRINT_MESSAGE, sha256).hexdigest()


def _adopt(database: Database, path: Path, secret: bytes | None) -> tuple[bytes | None, str]:
    """Store a fingerprint and create a missing file; return the secret and the stored fingerprint."""
    candidate = secret or secrets.token_bytes(SECRET_BYTES)
    with database.write() as connection:
        claim = upsert_insert(connection, platform_state).values(name=FINGERPRINT, value=fingerprint(candidate))
        # The PostgreSQL driver does not report the number of inserted rows.
        first = connection.scalar(claim.on_conflict_do_nothing().returning(platform_state.c.name)) is not None
        if first and secret is None:
            # Before the commit, because a fingerprint without its secret makes the database unusable.
            _write(path, candidate)
        stored = str(get_value(connection, FINGERPRINT))
    # The first process may have written the same file.
    return (candidate if first else _read(path)), stored


def _write(path: Path, secret: bytes) -> None:
    try:
        files.write_atomically(path, secret)
    except OSError as error:
        raise ValueError(f"{path} is missing and cannot be created: {error.strerror or error}") from error


def _read(path: Path) -> bytes | None:
    """Return the secret; None without a file."""
    try:
        with path.open("rb") as file:
            readable_by_others = os.fstat(file.fileno()).st_mode & stat.S_IRWXO
            secret = file.read(SECRET_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from error
    if readable_by_others:
        raise ValueError(
            f"{path} is readable by all users of this machine; restrict it (chmod 600) and change the secret"
        )
    if len(secret) != SECRET_BYTES:
        raise ValueError(
            f"{path} is damaged: it must have {SECRET_BYTES} bytes; restore a copy of it, or "
            "delete all data (frost platform reset)"
        )
    return secret

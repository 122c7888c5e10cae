"""The platform's own secret: the key of everything that is stored as a digest, and of the cursors of lists.

32 random bytes in a file (0600; `secret.key` in the data folder, or `--secret-file`), made by the first process that
starts on a new database. Replicas share it: what one of them stored, another must be able to check. So the database
keeps the secret's fingerprint, and a process that has another secret, or has lost it, refuses to start: it would refuse
every API key and session, and store digests that nobody else can check. The fingerprint tells nothing of the secret.
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
from service.db.platform_state import get_value
from service.db.tables import platform_state

SECRET_BYTES = 32
FINGERPRINT = "secret_fingerprint"
_WHAT = b"the platform's secret, to be told apart from another"


def secret_for(database: Database, path: Path) -> bytes:
    """The secret in the file `path`, which is the one this database was begun with.

    On a database without a fingerprint the secret of the file becomes its own; of several that begin a new one at once,
    the first decides. Only where nothing was stored yet is a missing file made.

    Raises:
        ValueError: the file is missing, damaged or open to everybody, or the database was begun with another secret.
    """
    with database.read() as connection:
        stored, used = get_value(connection, FINGERPRINT), get_value(connection, "world") is not None
    # After the fingerprint: it is committed after the file is there.
    secret = _read(path)
    if stored is None and not (secret is None and used):
        secret, stored = _begin(database, path, secret)
    if secret is None:
        raise ValueError(f"{path} is missing, and without it no API key works; copy it from where it was made")
    if stored != fingerprint(secret):
        raise ValueError(f"the database was begun with another secret than the one in {path}; give --secret-file that")
    return secret


def fingerprint(secret: bytes) -> str:
    """What tells a secret from another without telling it: 64 hex digits."""
    return hmac.new(secret, _WHAT, sha256).hexdigest()


def _begin(database: Database, path: Path, secret: bytes | None) -> tuple[bytes | None, str]:
    """Write the fingerprint of a database that has none, and the file if it is missing: the secret, the fingerprint."""
    made = secret or secrets.token_bytes(SECRET_BYTES)
    with database.write() as connection:
        claim = upsert_insert(connection, platform_state).values(name=FINGERPRINT, value=fingerprint(made))
        # By what comes back: the PostgreSQL driver does not count the rows of such an insert.
        first = connection.scalar(claim.on_conflict_do_nothing().returning(platform_state.c.name)) is not None
        if first and secret is None:
            # Before the commit: a fingerprint whose secret nobody could write down would close the database for good.
            _write(path, made)
        stored = str(get_value(connection, FINGERPRINT))
    # Whoever was first may be a process that shares the file.
    return (made if first else _read(path)), stored


def _write(path: Path, secret: bytes) -> None:
    try:
        files.write_atomically(path, secret)
    except OSError as error:
        raise ValueError(f"{path} is missing and cannot be made: {error.strerror or error}") from error


def _read(path: Path) -> bytes | None:
    """The secret of a file; None when there is no such file."""
    try:
        with path.open("rb") as file:
            open_to_all = os.fstat(file.fileno()).st_mode & stat.S_IRWXO
            secret = file.read(SECRET_BYTES + 1)
    except FileNotFoundError:
        return None
    if open_to_all:
        raise ValueError(f"{path} can be read by everybody on this machine; close it (chmod 600) and change the secret")
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"{path} is damaged: it must hold {SECRET_BYTES} bytes; restore it, or reset the platform")
    return secret

"""Databases that a test opens itself, with an audit log that is kept: who changes something there writes an entry."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, insert

from service.audit import chain, sealer
from service.audit.seals import digest, key_of, lock_head, update_head
from service.db.engine import Database
from service.db.tables import audit_log

SECRET = sha256(b"the secret of the tests' audit logs").digest()


def seal(database: Database, secret: bytes = SECRET) -> None:
    """Seal all entries, as the sealer of a platform does. SQLite has them in the chain already."""
    if database.kind == "postgresql":
        sealer.seal_all(database, secret)


def audited(url: str, secret: bytes = SECRET) -> Database:
    """A database opened as a platform with this secret opens it."""
    database = Database(url)
    chain.initialize_chain(database, secret, datetime.now(UTC), rolling=False)
    chain.install_audit_hooks(database, secret)
    return database


def append_as_before(connection: Connection, entry: Mapping[str, Any]) -> None:
    """Chain an entry as the releases before migration 0017 do, without a number."""
    key = key_of(SECRET)
    head = lock_head(connection, key)
    own = digest(key, head["hash"], entry)
    connection.execute(insert(audit_log).values({**entry, "previous_hash": head["hash"], "hash": own}))
    update_head(connection, key, head, entries=head["entries"] + 1, hash=own)


def trace() -> tuple[str, dict[str, str]]:
    """Return a new request id and the header that sets it."""
    request_id = str(uuid4())
    return request_id, {"X-Request-Id": request_id}


@contextmanager
def full_log(database: Database) -> Iterator[None]:
    """Have the audit log take no entry."""
    fill, clear = {
        "sqlite": (
            "CREATE TRIGGER full BEFORE INSERT ON audit_log BEGIN SELECT RAISE(ABORT, 'the log is full'); END",
            "DROP TRIGGER full",
        ),
        "postgresql": (
            "ALTER TABLE audit_log ADD CONSTRAINT log_full CHECK (false) NOT VALID",
            "ALTER TABLE audit_log DROP CONSTRAINT log_full",
        ),
    }[database.kind]
    with database.write() as connection:
        connection.exec_driver_sql(fill)
    try:
        yield
    finally:
        with database.write() as connection:
            connection.exec_driver_sql(clear)

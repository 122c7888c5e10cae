"""Databases that a test opens itself, with an audit log: each change there writes an entry."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, insert

from service.audit import chain, entries, sealer
from service.audit.entries import AuditEvent
from service.audit.seals import ChainBroken, digest, key_of, lock_head, update_head
from service.audit.verification import Verification, verify
from service.db.engine import Database
from service.db.tables import audit_log
from service.principal import PLATFORM

SECRET = sha256(b"the secret of the tests' audit logs").digest()
KEY = key_of(SECRET)
NOW = datetime(2026, 3, 1, 12, 0, 0, 123_456, tzinfo=UTC)


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


def record(connection: Connection, target: str = "t", at: datetime = NOW, **details: Any) -> None:
    entries.record(connection, PLATFORM, event=AuditEvent.PLATFORM_STOP, target=target, details=details, at=at)


def write_entry(database: Database, target: str = "t", at: datetime = NOW, **details: Any) -> None:
    with database.write() as connection:
        record(connection, target, at, **details)


def verdict(database: Database, *, sealed: bool = True) -> Verification:
    """Return the verification of a log, by default after all its entries were sealed."""
    if sealed:
        with suppress(ChainBroken):
            seal(database)
    with database.read() as connection:
        return verify(connection, KEY)


def fault_of(database: Database) -> tuple[int | None, str]:
    """Return the id of the first bad entry, and the reason."""
    fault = verdict(database).fault
    assert fault
    return fault.id, fault.reason


def fault_within(connection: Connection, kind: str) -> tuple[int | None, str]:
    """Return the id of the first bad entry and the reason, after a sealer has worked in the transaction."""
    if kind == "postgresql":
        with suppress(ChainBroken):
            sealer._seal_batch(connection, KEY, lock_head(connection, KEY), sealer.MIN_ID, 100)
    fault = verify(connection, KEY).fault
    assert fault
    return fault.id, fault.reason


def append_as_before(connection: Connection, entry: Mapping[str, Any]) -> None:
    """Chain an entry as the releases before migration 0017 do, without a number."""
    head = lock_head(connection, KEY)
    own = digest(KEY, head["hash"], entry)
    connection.execute(insert(audit_log).values({**entry, "previous_hash": head["hash"], "hash": own}))
    update_head(connection, KEY, head, entries=head["entries"] + 1, hash=own)


def trace() -> tuple[str, dict[str, str]]:
    """Return a new request id and the header that sets it."""
    request_id = str(uuid4())
    return request_id, {"X-Request-Id": request_id}


@contextmanager
def full_log(database: Database) -> Iterator[None]:
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

"""The hash chain of the audit log, which detects entries that are altered, removed, inserted or moved.

Each entry has a keyed digest of itself and of the previous digest. `audit_head` holds the number of entries and the
last digest, authenticated with the same key, so that a missing end is detected too. The key is derived from the secret
of the platform: write access to the database is not enough to forge a chain. The database alone cannot reveal that all
of it was restored to an earlier state, or to one without a chain, from which the next start begins a new one
(`began_at`); to detect that, store the output of `frost platform audit verify` elsewhere.

There is one chain, so transactions wait for each other at `audit_head`. Entries are therefore written last: a
transaction that holds the head waits for no other lock, which excludes deadlocks.
"""

import hmac
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, bindparam, event, insert, select, update
from sqlalchemy.exc import DBAPIError

from service.db.dialect import upsert_insert
from service.db.engine import Database, Record
from service.db.tables import EPOCH, MICROSECOND, audit_head, audit_log

logger = logging.getLogger(__name__)

PENDING = "frost audit entries"
"""The key in `Connection.info` under which a transaction collects its entries."""
GENESIS_HASH = "0" * 64
"""The previous hash of the first entry."""
HEAD_ID = 1
ROLLING_UPGRADE = timedelta(days=1)
BATCH_SIZE = 2_000
MIN_ID = -(2**63)
# Longer than a page of the database, so that writing it allocates one.
FILLER = "." * 10_000
# The fields in the digest of an entry. The id is not among them: the database assigns it.
ENTRY_FIELDS = (
    "at",
    "request_id",
    "actor_kind",
    "actor_id",
    "credential_id",
    "organization_id",
    "tenant_id",
    "operation",
    "target",
    "outcome",
    "details",
)


class ChainBroken(Exception):
    """The head of the chain is missing or forged. No entry is appended, which would hide the damage."""


def key_of(secret: bytes) -> bytes:
    """Derive the key of the chain, which has no other use, from the secret of the platform."""
    return hmac.digest(secret, b"frost audit chain 1", "sha256")


def digest(key: bytes, previous: str, entry: Any) -> str:
    """Return the hash of an entry, a mapping with at least `ENTRY_FIELDS`, after an entry with the hash `previous`."""
    values = {name: _canonical(entry[name]) for name in ENTRY_FIELDS}
    return _keyed(key, {"previous": previous, **values})


def head_mac(key: bytes, head: Any) -> str:
    """Return the message authentication code of a head, a mapping of its row."""
    names = ("entries", "hash", "began_at", "unchained_until")
    return _keyed(key, {"head": {name: _canonical(head[name]) for name in names}})


def _keyed(key: bytes, value: dict[str, Any]) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hmac.digest(key, text.encode("ascii"), "sha256").hex()


def _canonical(value: Any) -> Any:
    """Normalize a value, so that its digest is the same on both databases.

    Instants become microseconds. Floats without a fraction become integers, as PostgreSQL returns them.
    """
    if isinstance(value, datetime):
        return (value - EPOCH) // MICROSECOND
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _canonical(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_canonical(member) for member in value]
    return value


def install_audit_hooks(database: Database, secret: bytes, on_failure: Callable[[], None] = lambda: None) -> None:
    """Write the entries of `entries.record` when their transaction commits.

    Args:
        on_failure: called for each change that is rolled back because its entry cannot be written.
    """
    key = key_of(secret)

    def begin(connection: Connection) -> None:
        connection.info[PENDING] = []

    def commit(connection: Connection) -> None:
        entries, connection.info[PENDING] = connection.info.get(PENDING), []
        if entries:
            try:
                append(connection, key, entries)
            except Exception:
                on_failure()
                raise

    event.listen(database.engine, "begin", begin)
    event.listen(database.engine, "commit", commit)


def append(connection: Connection, key: bytes, entries: Sequence[dict[str, Any]]) -> None:
    """Append entries to the chain, and lock its head until the end of the transaction.

    Raises:
        ChainBroken: the head is missing or forged.
    """
    head = require_head(connection.execute(select(audit_head).with_for_update()).one_or_none(), key)
    previous, rows = str(head["hash"]), []
    for entry in entries:
        own = digest(key, previous, entry)
        rows.append({**entry, "previous_hash": previous, "hash": own})
        previous = own
    connection.execute(insert(audit_log), rows)
    _update_head(connection, key, head, entries=head["entries"] + len(rows), hash=previous)


def can_append(database: Database, secret: bytes) -> bool:
    """Return whether the database accepts an entry: append one and roll back.

    Raises:
        Busy: other transactions hold the head.
        ChainBroken: the head is missing or forged.
    """
    entry: dict[str, Any] = dict.fromkeys(ENTRY_FIELDS, "readiness") | {"at": EPOCH, "tenant_id": None, "details": {}}
    if database.kind == "sqlite":
        # SQLite never writes pages that are rolled back; PostgreSQL would have to vacuum them.
        entry["details"] = {"filler": FILLER}
    try:
        with database.write_without_waiting() as connection:
            append(connection, key_of(secret), [entry])
            connection.rollback()
    except DBAPIError as error:
        logger.warning("the audit log takes no entry: %s", type(error.orig).__name__)
        return False
    return True


def require_head(row: Record | None, key: bytes) -> dict[str, Any]:
    """Return the head as a mapping.

    Raises:
        ChainBroken: the head is missing or forged.
    """
    if row is None:
        raise ChainBroken("the end of the audit log's chain is missing")
    head = dict(row._mapping)
    if not hmac.compare_digest(head_mac(key, head), head["seal"]):
        raise ChainBroken("the end of the audit log's chain was not written by this platform")
    return head


def _update_head(connection: Connection, key: bytes, head: dict[str, Any], **changed: Any) -> None:
    seal = head_mac(key, {**head, **changed})
    connection.execute(update(audit_head).values(**changed, seal=seal))


def initialize_chain(database: Database, secret: bytes, at: datetime, *, rolling: bool) -> None:
    """Begin the chain of a log that has none, with its present entries. Of several replicas, one does.

    Args:
        rolling: replicas of a version without the chain may still be running. Their entries of the next day stay
            outside the chain and are counted; later ones count as inserted.
    """
    with database.read() as connection:
        if connection.scalar(select(audit_head.c.id)):
            return
    key = key_of(secret)
    first = {
        "id": HEAD_ID,
        "entries": 0,
        "hash": GENESIS_HASH,
        "began_at": at,
        "unchained_until": at + ROLLING_UPGRADE if rolling else None,
    }
    with database.bulk_write() as connection:
        if connection.scalar(select(audit_log.c.id).where(audit_log.c.hash.is_not(None)).limit(1)):
            return  # The head of an existing chain was removed: a new chain would hide that.
        claim = upsert_insert(connection, audit_head).values(**first, seal=head_mac(key, first))
        if connection.scalar(claim.on_conflict_do_nothing().returning(audit_head.c.id)) is None:
            return
        count, previous = 0, GENESIS_HASH
        chain_entry = (
            update(audit_log)
            .where(audit_log.c.id == bindparam("row"))
            .values(previous_hash=bindparam("previous"), hash=bindparam("own"))
        )
        for batch in entry_batches(connection):
            parameters = []
            for entry in batch:
                own = digest(key, previous, entry._mapping)
                parameters.append({"row": entry.id, "previous": previous, "own": own})
                previous = own
            connection.execute(chain_entry, parameters)
            count += len(parameters)
        _update_head(connection, key, first, entries=count, hash=previous)
    if count:
        logger.info("the audit log is a chain from now on, of %s entries", count)


def entry_batches(connection: Connection) -> Iterator[Sequence[Record]]:
    """Yield all entries in the order of their ids."""
    last_id = MIN_ID
    query = select(audit_log).where(audit_log.c.id > bindparam("last_id")).order_by(audit_log.c.id).limit(BATCH_SIZE)
    while batch := connection.execute(query, {"last_id": last_id}).all():
        yield batch
        last_id = batch[-1].id


ALTERED = "it was altered after it was written"
MOVED = "an entry before it was removed, or entries were put into another order"
UNCHAINED = "it is in no chain: the platform did not write it"


@dataclass(frozen=True, slots=True)
class Fault:
    """The first bad entry; without an id if the head is bad."""

    id: int | None
    at: datetime | None
    reason: str


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of `verify`. Stored elsewhere, `head` and `began_at` reveal a log restored to an earlier state."""

    entries: int
    """Valid entries of the chain."""
    unchained: int
    """Entries that replicas of an older version wrote during an upgrade."""
    head: str
    """The hash of the last valid entry."""
    began_at: datetime | None
    fault: Fault | None


def verify(connection: Connection, key: bytes) -> Verification:
    """Verify the whole log up to the first bad entry. Call it in one consistent view (`Database.read`)."""
    row = connection.execute(select(audit_head)).one_or_none()
    try:
        head, head_fault = require_head(row, key), None
    except ChainBroken as error:
        head = {"entries": 0, "hash": GENESIS_HASH, "began_at": None, "unchained_until": None}
        head_fault = Fault(None, None, str(error))
    entries, unchained, last_hash, last = 0, 0, GENESIS_HASH, None
    for batch in entry_batches(connection):
        for entry in batch:
            if entry.hash is None and _is_from_upgrade(entry, last, head["unchained_until"]):
                unchained += 1
                continue
            reason = _entry_fault(entry, last_hash, key)
            if reason:
                fault = Fault(entry.id, entry.at, reason)
                return Verification(entries, unchained, last_hash, head["began_at"], fault)
            entries, last_hash, last = entries + 1, entry.hash, entry
    if head_fault is None and (entries, last_hash) != (head["entries"], head["hash"]):
        missing = head["entries"] - entries
        reason = f"{missing} after it are missing" if missing > 0 else "the end of the chain is another one"
        head_fault = Fault(last.id if last else None, last.at if last else None, reason)
    return Verification(entries, unchained, last_hash, head["began_at"], head_fault)


def _is_from_upgrade(entry: Record, previous: Record | None, until: datetime | None) -> bool:
    """Return whether a replica without the chain may have written an entry, by its time and its position."""
    return until is not None and entry.at <= until and (previous is None or previous.at <= until)


def _entry_fault(entry: Record, previous_hash: str, key: bytes) -> str | None:
    if entry.hash is None or entry.previous_hash is None:
        return UNCHAINED
    own = digest(key, entry.previous_hash, entry._mapping)
    if not hmac.compare_digest(own, entry.hash):
        return ALTERED
    return None if entry.previous_hash == previous_hash else MOVED

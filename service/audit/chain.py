"""The hash chain of the audit log, which detects entries that are altered, removed, inserted or moved.

Each entry has a keyed digest of its fields and the previous digest. `audit_head` authenticates the number of entries
and the last digest, so that a truncation is detected too. The key is derived from the platform's secret: write access
to the database is not enough to forge a chain. An older database that is put back is valid by itself, and a database
without a chain gets one at the next start (`began_at`). The mark in the data directory detects both (`mark.py`).

On SQLite, which has a single writer, a change chains its entries in its own transaction.

On PostgreSQL changes commit concurrently. A change inserts its entries in its transaction, and the sealer
chains them about 50 ms after the commit (`sealer.py`). Until then an entry has a keyed digest of its own: an
altered, inserted or copied entry is detected and never sealed. The removal of an entry before its seal cannot be
detected, because nothing refers to it yet. `verify` prints the number of entries that are not sealed; if no sealer
works, more than those of the last 100 ms are at risk. So a change fails while the head is missing or forged, since no
sealer would continue the chain. `frost_audit_unsealed` is the number of these entries, for an alarm.

The order of the chain is that of `sequence`, not of the ids: an entry may commit after another with a higher id. A
release before migration 0017 locks the head and chains its entries itself. The sealer locks the head too, so both
append to the same chain. It numbers the entries of the earlier release, and verification accepts them without a number
after the numbered ones. The earlier release itself reports unsealed and sealed entries as faults. During such an
upgrade its event streams may miss changes of newer replicas, which see its changes up to five seconds late.
"""

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, bindparam, delete, event, insert, select, update
from sqlalchemy.exc import DBAPIError

from service.audit.sealer import UNSEALED, insert_unsealed
from service.audit.seals import (
    ENTRY_FIELDS,
    GENESIS_HASH,
    HEAD_ID,
    NOTHING,
    ChainBroken,
    digest,
    head_mac,
    key_of,
    load_dropped,
    lock_head,
    update_head,
)
from service.audit.verification import entry_batches
from service.db.dialect import upsert_insert
from service.db.engine import Database
from service.db.prepared import prepared
from service.db.statements import named_parameters
from service.db.tables import EPOCH, audit_checkpoints, audit_head, audit_log

logger = logging.getLogger(__name__)

PENDING = "frost audit entries"
"""The key in `Connection.info` of a transaction's entries."""
ROLLING_UPGRADE = timedelta(days=1)
# Longer than a database page.
FILLER = "." * 10_000
_INSERT = prepared(
    insert(audit_log).values(named_parameters(audit_log, (*ENTRY_FIELDS, "previous_hash", "hash", "sequence")))
)


def install_audit_hooks(
    database: Database,
    secret: bytes,
    on_failure: Callable[[], None] = lambda: None,
    require_intact: Callable[[], None] = lambda: None,
) -> None:
    """Write the entries of `entries.record` when their transaction commits.

    Args:
        on_failure: called when a change is rolled back because its entry cannot be written.
        require_intact: raises ChainBroken while changes are refused.
    """
    key = key_of(secret)
    write = _writer_of(database)

    def begin(connection: Connection) -> None:
        connection.info[PENDING] = []

    def commit(connection: Connection) -> None:
        entries, connection.info[PENDING] = connection.info.get(PENDING), []
        if entries:
            try:
                require_intact()
                write(connection, key, entries)
            except Exception:
                on_failure()
                raise

    event.listen(database.engine, "begin", begin)
    event.listen(database.engine, "commit", commit)


def _writer_of(database: Database) -> Callable[[Connection, bytes, Sequence[dict[str, Any]]], None]:
    return append if database.kind == "sqlite" else insert_unsealed


def append(connection: Connection, key: bytes, entries: Sequence[dict[str, Any]]) -> None:
    """Append entries to the chain (SQLite, which has a single writer).

    Raises:
        ChainBroken: the head is missing or forged.
    """
    head = lock_head(connection, key)
    previous, rows = str(head["hash"]), []
    for sequence, entry in enumerate(entries, head["entries"] + 1):
        own = digest(key, previous, entry)
        rows.append({**entry, "previous_hash": previous, "hash": own, "sequence": sequence})
        previous = own
    connection.execute(_INSERT, rows)
    update_head(connection, key, head, entries=head["entries"] + len(rows), hash=previous)


def can_append(database: Database, secret: bytes) -> bool:
    """Return whether the database accepts an entry, which is rolled back.

    Raises:
        Busy: other transactions lock the log.
        ChainBroken: the head is missing or forged.
    """
    entry: dict[str, Any] = dict.fromkeys(ENTRY_FIELDS, "readiness") | {"at": EPOCH, "tenant_id": None, "details": {}}
    if database.kind == "sqlite":
        # Allocates a page. SQLite does not write pages that are rolled back; PostgreSQL would have to vacuum them.
        entry["details"] = {"filler": FILLER}
    try:
        with database.write_without_waiting() as connection:
            _writer_of(database)(connection, key_of(secret), [entry])
            connection.rollback()
            connection.info.pop(UNSEALED, None)
    except DBAPIError as error:
        logger.warning("the audit log accepts no entry: %s", type(error.orig).__name__)
        return False
    return True


def initialize_chain(database: Database, secret: bytes, at: datetime, *, rolling: bool) -> None:
    """Begin the chain with the entries of a log that has none. A single replica does so.

    Args:
        rolling: replicas without the chain may still be running. Their entries of the next day are accepted outside
            the chain.
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
        sealed = select(audit_log.c.id).where(audit_log.c.hash.is_not(None)).limit(1)
        if connection.scalar(sealed) or connection.scalar(select(audit_checkpoints.c.first_sequence).limit(1)):
            return  # The head was removed: a new chain would hide that.
        claim = upsert_insert(connection, audit_head).values(**first, seal=head_mac(key, first))
        if connection.scalar(claim.on_conflict_do_nothing().returning(audit_head.c.id)) is None:
            return
        count = _chain_entries(connection, key, first)
    if count:
        logger.info("the audit log is now a chain of %s entries", count)


def begin_again(database: Database, secret: bytes, at: datetime) -> None:
    """Begin another chain with the entries that are there, after an operator has accepted them.

    It follows the dropped entries. Checkpoints that are damaged are removed.
    """
    key = key_of(secret)
    with database.bulk_write() as connection:
        try:
            dropped = load_dropped(connection, key)
        except ChainBroken:
            connection.execute(delete(audit_checkpoints))
            dropped = NOTHING
        connection.execute(delete(audit_head))
        first = {"id": HEAD_ID, "entries": dropped.entries, "hash": dropped.hash, "began_at": at}
        first["unchained_until"] = None
        connection.execute(insert(audit_head).values(**first, seal=head_mac(key, first)))
        _chain_entries(connection, key, first)


def _chain_entries(connection: Connection, key: bytes, head: dict[str, Any]) -> int:
    """Chain all entries after a head, in the order of their ids; return the number of the last one."""
    count, previous = head["entries"], head["hash"]
    chain_entry = (
        update(audit_log)
        .where(audit_log.c.id == bindparam("row"))
        .values(previous_hash=bindparam("previous"), hash=bindparam("own"), sequence=bindparam("number"), mac=None)
    )
    for batch in entry_batches(connection):
        parameters = []
        for entry in batch:
            own = digest(key, previous, entry._mapping)
            count += 1
            parameters.append({"row": entry.id, "previous": previous, "own": own, "number": count})
            previous = own
        connection.execute(chain_entry, parameters)
    update_head(connection, key, head, entries=count, hash=previous)
    return int(count)

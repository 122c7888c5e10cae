"""Verification of the audit log: its checkpoints, its head and every entry."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, inspect, null, select

from service.audit.seals import (
    GENESIS_HASH,
    NOTHING,
    ChainBroken,
    Dropped,
    digest,
    entry_mac,
    load_dropped,
    require_head,
    sealed_digest,
)
from service.db.engine import Record
from service.db.statements import after_key
from service.db.tables import audit_head, audit_log
from service.digests import are_equal

BATCH_SIZE = 2_000
MIN_NUMBER = -(2**63)
ALTERED = "it was altered after it was written"
MOVED = "an earlier entry was removed, or the order of entries was changed"
UNCHAINED = "it is not in the chain: the platform did not write it"
REFUSED = "it was altered before it was sealed, or the platform did not write it"


@dataclass(frozen=True, slots=True)
class Fault:
    """The first bad entry, or the last entry before a missing end; without an id if the head or a checkpoint is bad."""

    id: int | None
    at: datetime | None
    reason: str


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of `verify`."""

    entries: int
    """Number of valid entries in the chain, without dropped ones."""
    unsealed: int
    """Number of entries that the sealer will chain."""
    unchained: int
    """Number of entries by older replicas during an upgrade."""
    dropped: Dropped
    head: str
    """The hash of the last valid entry."""
    began_at: datetime | None
    fault: Fault | None


class ChainWalk:
    """Follows the chain, entry by entry.

    Args:
        position: the number of the entry before the first.
        last_hash: its hash.
    """

    def __init__(self, key: bytes, position: int, last_hash: str) -> None:
        self._key = key
        self.position = position
        self.last_hash = last_hash
        self.last: Record | None = None
        self._last_id: int | None = None
        self._digests = [self._digest_with_id, self._digest_without_id]

    def fault_of(self, entry: Record) -> str | None:
        """Return why an entry cannot be the next one; None if it is valid. It is then the last entry."""
        if entry.hash is None or entry.previous_hash is None:
            return UNCHAINED
        if not self._is_equal(entry):
            # Entries of one writer follow each other mostly, so the digest of the last one is tried first.
            self._digests.reverse()
            if not self._is_equal(entry):
                return ALTERED
        if entry.previous_hash != self.last_hash or entry.sequence not in (None, self.position + 1):
            return MOVED
        if self._digests[0] == self._digest_without_id:
            # The writer of such an entry gave it an id after those before.
            if self._last_id is not None and entry.id <= self._last_id:
                return MOVED
            self._last_id = entry.id
        self.position, self.last_hash, self.last = self.position + 1, entry.hash, entry
        return None

    def _is_equal(self, entry: Record) -> bool:
        return are_equal(self._digests[0](entry), entry.hash)

    def _digest_with_id(self, entry: Record) -> str:
        return sealed_digest(self._key, entry.previous_hash, entry_mac(self._key, entry._mapping))

    def _digest_without_id(self, entry: Record) -> str:
        return digest(self._key, entry.previous_hash, entry._mapping)


def verify(connection: Connection, key: bytes) -> Verification:
    """Verify the log up to the first bad entry, in a snapshot (`Database.read`)."""
    row = connection.execute(select(audit_head)).mappings().one_or_none()
    result = Verification(0, 0, 0, NOTHING, GENESIS_HASH, None, None)
    head: dict[str, Any] = {"entries": 0, "hash": GENESIS_HASH, "unchained_until": None}
    head_fault = None
    try:
        head = require_head(row, key)
        result = replace(result, began_at=head["began_at"])
    except ChainBroken as error:
        head_fault = Fault(None, None, str(error))
    try:
        result = replace(result, dropped=load_dropped(connection, key))
    except ChainBroken as error:
        # The entries follow the entries of the checkpoints.
        return replace(result, fault=Fault(None, None, str(error)))
    walk = ChainWalk(key, result.dropped.entries, result.dropped.hash)
    unchained, unsealed, fault = 0, 0, None
    for entry in _chain_order(connection):
        if entry.hash is None and entry.sequence is None:
            if reason := _unchained_fault(connection, key, entry, head["unchained_until"]):
                fault = Fault(entry.id, entry.at, reason)
                break
            unsealed, unchained = unsealed + (entry.mac is not None), unchained + (entry.mac is None)
        elif reason := walk.fault_of(entry):
            fault = Fault(entry.id, entry.at, reason)
            break
    fault = fault or head_fault
    if fault is None and (walk.position, walk.last_hash) != (head["entries"], head["hash"]):
        missing = head["entries"] - walk.position
        reason = f"{missing} after it are missing" if missing > 0 else "the end of the chain differs"
        fault = Fault(walk.last.id if walk.last else None, walk.last.at if walk.last else None, reason)
    return replace(
        result,
        entries=walk.position - result.dropped.entries,
        unsealed=unsealed,
        unchained=unchained,
        head=walk.last_hash,
        fault=fault,
    )


def numbered_entries(connection: Connection, after: int) -> Iterator[Record]:
    """Yield the entries with a number above `after`, in the order of the chain."""
    for batch in _batches(connection, [audit_log.c.sequence, audit_log.c.id], audit_log.c.sequence > after):
        yield from batch


def entry_batches(connection: Connection) -> Iterator[Sequence[Record]]:
    """Yield all entries, ordered by id."""
    return _batches(connection, [audit_log.c.id])


def _chain_order(connection: Connection) -> Iterator[Record]:
    """Yield all entries: numbered ones, then those without a number, of which the chained ones follow by id."""
    stored = {column["name"] for column in inspect(connection).get_columns(audit_log.name)}
    if "sequence" not in stored:
        # A backup of an earlier release.
        columns = [column if column.name in stored else null().label(column.name) for column in audit_log.c]
        for batch in _batches(connection, [audit_log.c.id], columns=columns):
            yield from batch
        return
    yield from numbered_entries(connection, MIN_NUMBER)
    for batch in _batches(connection, [audit_log.c.id], audit_log.c.sequence.is_(None)):
        yield from batch


def _batches(
    connection: Connection,
    order: Sequence[Column[Any]],
    *conditions: ColumnElement[bool],
    columns: Sequence[ColumnElement[Any]] = (),
) -> Iterator[Sequence[Record]]:
    query = select(*(columns or audit_log.c)).where(*conditions).order_by(*order).limit(BATCH_SIZE)
    batch = connection.execute(query).all()
    while batch:
        yield batch
        last = tuple(batch[-1]._mapping[column.name] for column in order)
        batch = connection.execute(query.where(after_key(order, last))).all()


def _unchained_fault(connection: Connection, key: bytes, entry: Record, until: datetime | None) -> str | None:
    """Return why an entry outside the chain is bad; None if it waits for the sealer, or an older replica wrote it."""
    if entry.mac is not None:
        is_intact = entry.previous_hash is None and are_equal(entry_mac(key, entry._mapping), entry.mac)
        return None if is_intact else REFUSED
    if until is None or entry.at > until:
        return UNCHAINED
    before = select(audit_log.c.at).where(audit_log.c.id < entry.id, audit_log.c.hash.is_not(None))
    previous = connection.scalar(before.order_by(audit_log.c.id.desc()).limit(1))
    return None if previous is None or previous <= until else UNCHAINED

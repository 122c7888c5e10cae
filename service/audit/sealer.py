"""The sealer of the audit log on PostgreSQL, and the entries that wait for it.

A change inserts its entries concurrently, without a lock. Each has a keyed digest of its fields and its id, so that an
altered, inserted or copied entry is detected and is never sealed. The ids are taken when the transaction commits: of
two changes, one of which waited for the other, the later one has the higher id, also in the chain.

The sealer chains committed entries in batches. Every process runs one; a lock of the database admits one at a time. A
sealer wakes after a commit of its own process, waits for more of them, and seals the entries of all processes. Every
few seconds it also looks for entries of killed processes and of replicas of the release before, which chain theirs
themselves but do not number them.
"""

import logging
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    String,
    and_,
    bindparam,
    event,
    func,
    insert,
    literal_column,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.pool import ConnectionPoolEntry

from service.audit.seals import (
    ENTRY_FIELDS,
    ChainBroken,
    entry_mac,
    key_of,
    lock_head,
    require_head,
    sealed_digest,
    update_head,
)
from service.db import dialect
from service.db.dialect import is_unreachable
from service.db.engine import Database
from service.db.prepared import prepared
from service.db.statements import named_parameters
from service.db.tables import audit_checkpoints, audit_log
from service.digests import are_equal

logger = logging.getLogger(__name__)

UNSEALED = "frost unsealed entries"
"""The key in `Connection.info` of whether the transaction inserted entries, for the sealer."""
_ID = func.nextval(func.pg_get_serial_sequence("audit_log", "id"))
_HEAD: ColumnElement[Any] = literal_column("(SELECT to_jsonb(audit_head) FROM audit_head)")

_RESERVE = prepared(
    select(_ID, _HEAD).select_from(func.generate_series(1, bindparam("count", type_=Integer)).table_valued("number"))
)
_INSERT = prepared(insert(audit_log).values(named_parameters(audit_log, ("id", *ENTRY_FIELDS, "mac"))))
DELAY_SECONDS = 0.04
"""Wait for further commits after the first. Entries are sealed within 100 ms."""
POLL_SECONDS = 5.0
RETRY_SECONDS = 0.02
"""Wait while the sealer of another process works."""
FAILURE_SECONDS = 1.0
STOP_SECONDS = 10.0
BATCH_ENTRIES = 1_000
NUMBERED_ENTRIES = 5_000
MARGIN_IDS = 1_000
"""Ids below the last batch among which entries may still commit. Those with lower ids are sealed at the next poll."""
MIN_ID = -(2**63)


class SealerLimits(NamedTuple):
    """Sizes of batches, and the pause after an error."""

    batch_entries: int = BATCH_ENTRIES
    numbered_entries: int = NUMBERED_ENTRIES
    margin_ids: int = MARGIN_IDS
    failure_seconds: float = FAILURE_SECONDS


_SEAL = text(
    "UPDATE audit_log SET sequence = sealed.sequence, previous_hash = sealed.previous_hash, hash = sealed.hash,"
    " mac = NULL FROM unnest(:ids, :sequences, :previous_hashes, :hashes)"
    " AS sealed(id, sequence, previous_hash, hash) WHERE audit_log.id = sealed.id"
).bindparams(
    bindparam("ids", type_=ARRAY(BigInteger)),
    bindparam("sequences", type_=ARRAY(BigInteger)),
    bindparam("previous_hashes", type_=ARRAY(String)),
    bindparam("hashes", type_=ARRAY(String)),
)


def is_unsealed() -> ColumnElement[bool]:
    """Return whether a row waits for the sealer, which has not refused it."""
    return and_(
        audit_log.c.sequence.is_(None),
        audit_log.c.hash.is_(None),
        audit_log.c.previous_hash.is_(None),
        audit_log.c.mac.is_not(None),
    )


def insert_unsealed(connection: Connection, key: bytes, entries: Sequence[dict[str, Any]]) -> None:
    """Insert entries for the sealer.

    Raises:
        ChainBroken: the head is missing or forged, so that no entry would be sealed.
    """
    reserved = connection.execute(_RESERVE, {"count": len(entries)}).all()
    require_head(reserved[0][1], key)
    rows = []
    for entry, (number, _) in zip(entries, reserved, strict=True):
        row = {"id": number, **entry}
        rows.append({**row, "mac": entry_mac(key, row)})
    connection.execute(_INSERT, rows)
    connection.info[UNSEALED] = True


class Batch(NamedTuple):
    """A batch of a sealer; more entries may wait if it is full. Without a first id if it is empty."""

    is_full: bool
    first_id: int | None


class Sealer:
    """Seals entries in a thread. SQLite chains entries in the transaction of their change, and needs none.

    Args:
        delay_seconds: how long to wait for further commits.
        poll_seconds: how often to look for entries of other processes.
        limits: sizes of batches, and the pause after an error.
    """

    def __init__(
        self,
        database: Database,
        secret: bytes,
        *,
        delay_seconds: float = DELAY_SECONDS,
        poll_seconds: float = POLL_SECONDS,
        limits: SealerLimits = SealerLimits(),
    ) -> None:
        self._database = database
        self._limits = limits
        self._key = key_of(secret)
        self._delay_seconds = delay_seconds
        self._poll_seconds = poll_seconds
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        # The index of entries that wait has one for each sealed entry, too, until the database removes it. Most looks
        # begin after those.
        self._after_id = MIN_ID
        self._looked_at = float("-inf")

    def start(self) -> None:
        if self._database.kind == "postgresql":
            event.listen(self._database.engine, "checkin", self._wake_after_commit)
            self._wake.set()
            self._thread = threading.Thread(target=self._loop, name="audit sealer", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Seal the entries of ended requests, and stop."""
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            # A hanging database must not block the exit; the next start seals the rest.
            self._thread.join(STOP_SECONDS)
            event.remove(self._database.engine, "checkin", self._wake_after_commit)
            self._thread = None

    def _wake_after_commit(self, driver_connection: object, record: ConnectionPoolEntry) -> None:
        # When a connection returns to the pool, its transaction has ended.
        if record.info.pop(UNSEALED, False):
            self._wake.set()

    def _loop(self) -> None:
        while not self._stopping.is_set():
            if self._wake.wait(self._poll_seconds):
                self._stopping.wait(self._delay_seconds)
            self._wake.clear()
            self._seal_waiting()
        self._seal_waiting()

    def _seal_waiting(self) -> None:
        """Seal all entries that wait; after an error, plan the next try."""
        try:
            if time.monotonic() - self._looked_at >= self._poll_seconds:
                self._after_id, self._looked_at = MIN_ID, time.monotonic()
            while has_waiting(self._database, self._after_id):
                batch = seal_batch(self._database, self._key, self._after_id, self._limits)
                if batch is None:
                    time.sleep(RETRY_SECONDS)
                    continue
                if batch.first_id is not None:
                    self._after_id = batch.first_id - self._limits.margin_ids
                if not batch.is_full:
                    # Later commits set the event again.
                    break
        except Exception as error:
            if isinstance(error, ChainBroken):
                logger.error("the audit log is not sealed: %s", error)
            elif is_unreachable(error):
                logger.warning("the audit log is not sealed: %s", type(error).__name__)
            else:
                logger.exception("the audit log is not sealed")
            self._stopping.wait(self._limits.failure_seconds)
            self._wake.set()


def has_waiting(database: Database, after_id: int) -> bool:
    """Return whether entries with higher ids wait for their seal or their number."""
    query = select(audit_log.c.id).where(or_(is_unsealed(), _is_unnumbered()), audit_log.c.id > after_id).limit(1)
    with database.read_committed() as connection:
        return connection.execute(query).first() is not None


def seal_all(database: Database, secret: bytes) -> None:
    """Seal and number all entries, while no other sealer works.

    Raises:
        ChainBroken: the head is missing or forged.
    """
    while (batch := seal_batch(database, key_of(secret))) and batch.is_full:
        pass


def seal_batch(
    database: Database, key: bytes, after_id: int = MIN_ID, limits: SealerLimits = SealerLimits()
) -> Batch | None:
    """Number entries that a replica of the release before has chained, then seal entries with ids above `after_id`.

    Returns:
        The batch; None if another sealer works.

    Raises:
        ChainBroken: the head is missing or forged.
    """
    with database.write() as connection:
        if not dialect.try_sealer_lock(connection):
            return None
        head = lock_head(connection, key)
        last = last_sequence(connection)
        if (
            last < head["entries"]
            and _number_batch(connection, last, limits.numbered_entries) == limits.numbered_entries
        ):
            return Batch(True, None)
        return _seal_batch(connection, key, head, after_id, limits.batch_entries)


def last_sequence(connection: Connection) -> int:
    """Return the number of the last numbered entry, which may be dropped."""
    newest = select(func.max(audit_log.c.sequence)).scalar_subquery()
    dropped = select(func.max(audit_checkpoints.c.last_sequence)).scalar_subquery()
    return int(connection.execute(select(func.coalesce(newest, dropped, 0))).scalar_one())


def _is_unnumbered() -> ColumnElement[bool]:
    return and_(audit_log.c.sequence.is_(None), audit_log.c.hash.is_not(None))


def _number_batch(connection: Connection, last: int, most: int) -> int:
    """Number up to `most` chained entries in the order of their ids, which is that of the chain; return how many."""
    rows = (
        select(audit_log.c.id, (last + func.row_number().over(order_by=audit_log.c.id)).label("sequence"))
        .where(_is_unnumbered())
        .order_by(audit_log.c.id)
        .limit(most)
        .subquery()
    )
    number = update(audit_log).where(audit_log.c.id == rows.c.id).values(sequence=rows.c.sequence)
    return connection.execute(number).rowcount


def _seal_batch(connection: Connection, key: bytes, head: dict[str, Any], after_id: int, most: int) -> Batch:
    waits = and_(is_unsealed(), audit_log.c.id > after_id)
    query = select(audit_log).where(waits).order_by(audit_log.c.id).limit(most)
    entries = connection.execute(query).mappings().all()
    previous: str = head["hash"]
    first: int = head["entries"] + 1
    ids, hashes, refused = [], [previous], []
    for entry in entries:
        mac = entry_mac(key, entry)
        if are_equal(mac, entry["mac"]):
            previous = sealed_digest(key, previous, mac)
            ids.append(entry["id"])
            hashes.append(previous)
        else:
            refused.append(entry["id"])
    if refused:
        logger.error("audit entries %s are not sealed: the platform did not write them so", refused[:10])
        connection.execute(update(audit_log).where(audit_log.c.id.in_(refused)).values(previous_hash=head["hash"]))
    if ids:
        values = {
            "ids": ids,
            "sequences": list(range(first, first + len(ids))),
            "previous_hashes": hashes[:-1],
            "hashes": hashes[1:],
        }
        if connection.execute(_SEAL, values).rowcount != len(ids):
            raise RuntimeError("entries were removed while they were sealed")
        update_head(connection, key, head, entries=head["entries"] + len(ids), hash=previous)
    return Batch(len(entries) == most, entries[0]["id"] if entries else None)

"""The audit log as a chain: an entry that is altered, removed, inserted or moved is found. hostile I04

Each entry has a keyed digest of itself and of the digest before it; `audit_head` says how many there are and what the
last one is, under a keyed digest of its own, so that a missing end is found too. The key comes from the platform's
secret: whoever can only write to the database cannot make a whole chain. What the database alone cannot tell is that
all of it was put back to an earlier state, or to one from before there were chains, so that the next start begins a new
one (`began_at`); for that, keep what `frost platform audit verify` prints elsewhere.

There is one chain, so changes wait for each other there. That is why entries are added last, when everything else of
their transaction is done: nobody who holds the head waits for another row, and so nobody waits in a circle.

Whether the audit log's chain is whole, and where it is not. hostile I04
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
"""Where a transaction keeps its entries until it is committed, in the `info` of its connection."""
GENESIS_HASH = "0" * 64
"""The hash before the first entry."""
HEAD = 1
ROLLING_UPGRADE = timedelta(days=1)
PORTION = 2_000
LOWEST = -(2**63)
# Longer than a page of the database: it needs room that is not there yet.
ROOM = "." * 10_000
# What an entry says; its number is the database's, and the chain says where it belongs.
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
    """The end of the chain is missing or is not the platform's. Nothing is written behind it: that would hide it."""


def key_of(secret: bytes) -> bytes:
    """The chain's key, of the platform's secret; no digest of anything else is made with it."""
    return hmac.digest(secret, b"frost audit chain 1", "sha256")


def digest(key: bytes, previous: str, entry: Any) -> str:
    """The hash of an entry (a mapping with the members `SAID`) that follows the hash `previous`."""
    said = {name: _canonical(entry[name]) for name in ENTRY_FIELDS}
    return _keyed(key, {"previous": previous, **said})


def head_mac(key: bytes, head: Any) -> str:
    """The digest that tells a head of the platform's (a mapping of the row) from anybody's."""
    names = ("entries", "hash", "began_at", "unchained_until")
    return _keyed(key, {"head": {name: _canonical(head[name]) for name in names}})


def _keyed(key: bytes, value: dict[str, Any]) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hmac.digest(key, text.encode("ascii"), "sha256").hex()


def _canonical(value: Any) -> Any:
    """A value as it is digested, the same whatever database it comes from.

    Instants are whole microseconds. PostgreSQL gives a number without a fraction back as a whole one, SQLite as it was
    given.
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


def install_audit_hooks(database: Database, secret: bytes, failed: Callable[[], None] = lambda: None) -> None:
    """Have the entries that `audit.record` is given written at the end of their transactions.

    Args:
        failed: told of each change that does not happen because its entry could not be written.
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
                failed()
                raise

    event.listen(database.engine, "begin", begin)
    event.listen(database.engine, "commit", commit)


def append(connection: Connection, key: bytes, entries: Sequence[dict[str, Any]]) -> None:
    """Write entries behind the last one; until this transaction ends, nobody else can.

    Raises:
        BrokenHead: there is no end to write them behind.
    """
    head = require_head(connection.execute(select(audit_head).with_for_update()).one_or_none(), key)
    last, chained = str(head["hash"]), []
    for entry in entries:
        following = digest(key, last, entry)
        chained.append({**entry, "previous_hash": last, "hash": following})
        last = following
    connection.execute(insert(audit_log), chained)
    _update_head(connection, key, head, entries=head["entries"] + len(chained), hash=last)


def can_append(database: Database, secret: bytes) -> bool:
    """Return whether an entry could be added now: one is, in a transaction that is rolled back.

    Raises:
        Busy: other changes hold the end of the log.
        BrokenHead: there is no end to add it behind.
    """
    entry: dict[str, Any] = dict.fromkeys(ENTRY_FIELDS, "readiness") | {"at": EPOCH, "tenant_id": None, "details": {}}
    if database.kind == "sqlite":
        # Pages that are taken back are never written there; PostgreSQL would have to clean up after each.
        entry["details"] = {"room": ROOM}
    try:
        with database.write_without_waiting() as connection:
            append(connection, key_of(secret), [entry])
            connection.rollback()
    except DBAPIError as error:
        logger.warning("the audit log takes no entry: %s", type(error.orig).__name__)
        return False
    return True


def require_head(row: Record | None, key: bytes) -> dict[str, Any]:
    """The head as a mapping.

    Raises:
        BrokenHead: it is missing, or somebody else wrote it.
    """
    if row is None:
        raise ChainBroken("the end of the audit log's chain is missing")
    head = dict(row._mapping)
    if not hmac.compare_digest(head_mac(key, head), head["seal"]):
        raise ChainBroken("the end of the audit log's chain was not written by this platform")
    return head


def _update_head(connection: Connection, key: bytes, head: dict[str, Any], **changed: Any) -> None:
    moved = {**head, **changed}
    connection.execute(update(audit_head).values(**changed, seal=head_mac(key, moved)))


def initialize_chain(database: Database, secret: bytes, at: datetime, *, rolling: bool) -> None:
    """Chain what is in a log that has no chain yet. Of several replicas that start at once, one does.

    Args:
        rolling: replicas of a version that knows no chain may still be writing beside this one. Their entries of the
            next day stay outside the chain, and are counted; later ones are found like inserted ones.
    """
    with database.read() as connection:
        if connection.scalar(select(audit_head.c.id)):
            return
    key = key_of(secret)
    first = {
        "id": HEAD,
        "entries": 0,
        "hash": GENESIS_HASH,
        "began_at": at,
        "unchained_until": at + ROLLING_UPGRADE if rolling else None,
    }
    with database.bulk_write() as connection:
        if connection.scalar(select(audit_log.c.id).where(audit_log.c.hash.is_not(None)).limit(1)):
            return  # There was a chain, and its end was taken away: a new one would make the log look whole.
        claim = upsert_insert(connection, audit_head).values(**first, seal=head_mac(key, first))
        if connection.scalar(claim.on_conflict_do_nothing().returning(audit_head.c.id)) is None:
            return
        count, last = 0, GENESIS_HASH
        for portion in entries_of(connection):
            rows = []
            for row in portion:
                following = digest(key, last, row._mapping)
                rows.append({"row": row.id, "previous": last, "own": following})
                last = following
            place = update(audit_log).where(audit_log.c.id == bindparam("row"))
            connection.execute(place.values(previous_hash=bindparam("previous"), hash=bindparam("own")), rows)
            count += len(rows)
        _update_head(connection, key, first, entries=count, hash=last)
    if count:
        logger.info("the audit log is a chain from now on, of %s entries", count)


def entries_of(connection: Connection) -> Iterator[Sequence[Record]]:
    """The log in its order, in portions."""
    last = LOWEST
    page = select(audit_log).where(audit_log.c.id > bindparam("last")).order_by(audit_log.c.id).limit(PORTION)
    while portion := connection.execute(page, {"last": last}).all():
        yield portion
        last = portion[-1].id


ALTERED = "it was altered after it was written"
MOVED = "an entry before it was removed, or entries were put into another order"
UNCHAINED = "it is in no chain: the platform did not write it"


@dataclass(frozen=True, slots=True)
class Fault:
    """The first bad entry; without an id when it is the end of the chain that is."""

    id: int | None
    at: datetime | None
    why: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found: `entries` in the chain, and `unchained` ones of replicas that knew none during an upgrade.

    `head` is the digest of the last entry and `began_at` when the chain began: kept elsewhere, they tell whether the
    whole log was ever put back to an earlier state.
    """

    entries: int
    unchained: int
    head: str
    began_at: datetime | None
    fault: Fault | None


def verify(connection: Connection, key: bytes) -> Verification:
    """Read the whole log, a portion at a time, in one consistent view (`Database.read`)."""
    row = connection.execute(select(audit_head)).one_or_none()
    try:
        head, broken = require_head(row, key), None
    except ChainBroken as error:
        head, broken = {"entries": 0, "hash": GENESIS_HASH, "began_at": None, "unchained_until": None}, str(error)
    entries, unchained, last, newest = 0, 0, GENESIS_HASH, None
    fault: Fault | None = None
    for portion in entries_of(connection):
        for entry in portion:
            if entry.hash is None and _of_an_upgrade(entry, newest, head["unchained_until"]):
                unchained += 1
                continue
            why = _fault_of(entry, last, key)
            if why:
                fault = Fault(entry.id, entry.at, why)
                return Verification(entries, unchained, last, head["began_at"], fault)
            entries, last, newest = entries + 1, entry.hash, entry
    if broken:
        fault = Fault(None, None, broken)
    elif (entries, last) != (head["entries"], head["hash"]):
        missing = head["entries"] - entries
        why = f"{missing} after it are missing" if missing > 0 else "the end of the chain is another one"
        fault = Fault(newest.id if newest else None, newest.at if newest else None, why)
    return Verification(entries, unchained, last, head["began_at"], fault)


def _of_an_upgrade(entry: Record, before: Record | None, until: datetime | None) -> bool:
    """Whether an entry without a hash may be of a replica that knew no chain: by when it says it was written, and by
    where it stands."""
    return until is not None and entry.at <= until and (before is None or before.at <= until)


def _fault_of(entry: Record, last: str, key: bytes) -> str | None:
    if entry.hash is None or entry.previous_hash is None:
        return UNCHAINED
    own = digest(key, entry.previous_hash, entry._mapping)
    if not hmac.compare_digest(own, entry.hash):
        return ALTERED
    return None if entry.previous_hash == last else MOVED

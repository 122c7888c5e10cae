"""Whether the audit log's chain is whole, and where it is not. hostile I04"""

import hmac
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, select

from service.access.audit_chain import NOTHING, BrokenHead, digest, entries_of, sound_head
from service.db.engine import Record
from service.db.tables import audit_head

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
class Verdict:
    """What was found: `entries` in the chain, and `unchained` ones of replicas that knew none during an upgrade.

    `head` is the digest of the last entry and `began_at` when the chain began: kept elsewhere, they tell whether the
    whole log was ever put back to an earlier state.
    """

    entries: int
    unchained: int
    head: str
    began_at: datetime | None
    fault: Fault | None


def verify(connection: Connection, key: bytes) -> Verdict:
    """Read the whole log, a portion at a time, in one consistent view (`Database.read`)."""
    row = connection.execute(select(audit_head)).one_or_none()
    try:
        head, broken = sound_head(row, key), None
    except BrokenHead as error:
        head, broken = {"entries": 0, "hash": NOTHING, "began_at": None, "unchained_until": None}, str(error)
    entries, unchained, last, newest = 0, 0, NOTHING, None
    fault: Fault | None = None
    for portion in entries_of(connection):
        for entry in portion:
            if entry.hash is None and _of_an_upgrade(entry, newest, head["unchained_until"]):
                unchained += 1
                continue
            why = _what_is_wrong(entry, last, key)
            if why:
                fault = Fault(entry.id, entry.at, why)
                return Verdict(entries, unchained, last, head["began_at"], fault)
            entries, last, newest = entries + 1, entry.hash, entry
    if broken:
        fault = Fault(None, None, broken)
    elif (entries, last) != (head["entries"], head["hash"]):
        missing = head["entries"] - entries
        why = f"{missing} after it are missing" if missing > 0 else "the end of the chain is another one"
        fault = Fault(newest.id if newest else None, newest.at if newest else None, why)
    return Verdict(entries, unchained, last, head["began_at"], fault)


def _of_an_upgrade(entry: Record, before: Record | None, until: datetime | None) -> bool:
    """Whether an entry without a hash may be of a replica that knew no chain: by when it says it was written, and by
    where it stands."""
    return until is not None and entry.at <= until and (before is None or before.at <= until)


def _what_is_wrong(entry: Record, last: str, key: bytes) -> str | None:
    if entry.hash is None or entry.previous_hash is None:
        return UNCHAINED
    own = digest(key, entry.previous_hash, entry._mapping)
    if not hmac.compare_digest(own, entry.hash):
        return ALTERED
    return None if entry.previous_hash == last else MOVED

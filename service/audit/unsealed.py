"""Entries on PostgreSQL between their commit and their seal.

A change inserts its entries concurrently, without a lock. Each has a keyed digest of its fields and its id, so that an
altered, inserted or copied entry is detected and is never sealed. The ids are taken when the transaction commits: of
two changes, one of which waited for the other, the later one has the higher id, also in the chain.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Integer, and_, bindparam, func, insert, literal_column, select

from service.audit.seals import ENTRY_FIELDS, entry_mac, require_head
from service.db.prepared import prepared
from service.db.statements import named_parameters
from service.db.tables import audit_log

UNSEALED = "frost unsealed entries"
"""The key in `Connection.info` of whether the transaction inserted entries, for the sealer."""
_ID = func.nextval(func.pg_get_serial_sequence("audit_log", "id"))
_HEAD: ColumnElement[Any] = literal_column("(SELECT to_jsonb(audit_head) FROM audit_head)")

_RESERVE = prepared(
    select(_ID, _HEAD).select_from(func.generate_series(1, bindparam("count", type_=Integer)).table_valued("number"))
)
_INSERT = prepared(insert(audit_log).values(named_parameters(audit_log, ("id", *ENTRY_FIELDS, "mac"))))


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

"""Checkpoints of the audit log: sealed records of dropped segments."""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, inspect, select

from service.audit.digests import checkpoint_mac
from service.audit.head import GENESIS_HASH, ChainBroken
from service.db.engine import Record
from service.db.tables import audit_checkpoints


@dataclass(frozen=True, slots=True)
class Dropped:
    """The dropped part of the chain, from its first entry."""

    entries: int
    """Number of entries, which is also the position of the last one."""
    hash: str
    """The hash of the last entry; `GENESIS_HASH` if none was dropped."""
    at: datetime | None
    """When the last segment was dropped."""


NOTHING = Dropped(0, GENESIS_HASH, None)


def load_dropped(connection: Connection, key: bytes) -> Dropped:
    """Verify all checkpoints, and return what they state.

    Raises:
        ChainBroken: a checkpoint is forged or missing.
    """
    dropped = NOTHING
    for row in _checkpoints(connection):
        _require_seal(row, key)
        if (row.first_sequence, row.previous_hash) != (dropped.entries + 1, dropped.hash):
            raise ChainBroken(f"the checkpoint of entry {dropped.entries + 1} is missing")
        dropped = Dropped(row.last_sequence, row.hash, row.dropped_at)
    return dropped


def latest_dropped(connection: Connection, key: bytes) -> Dropped:
    """Return what the last checkpoint states, without a look at those before.

    Raises:
        ChainBroken: the checkpoint is forged.
    """
    query = select(audit_checkpoints).order_by(audit_checkpoints.c.first_sequence.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    if row is None:
        return NOTHING
    _require_seal(row, key)
    return Dropped(row.last_sequence, row.hash, row.dropped_at)


def add_checkpoint(connection: Connection, key: bytes, checkpoint: dict[str, Any]) -> None:
    """Store a checkpoint, given all columns but the seal."""
    connection.execute(insert(audit_checkpoints).values(**checkpoint, seal=checkpoint_mac(key, checkpoint)))


def _require_seal(row: Record, key: bytes) -> None:
    if not hmac.compare_digest(checkpoint_mac(key, row._mapping), row.seal):
        raise ChainBroken(f"the checkpoint of entry {row.first_sequence} was not written by this platform")


def _checkpoints(connection: Connection) -> Sequence[Record]:
    if not inspect(connection).has_table(audit_checkpoints.name):
        return ()  # A backup of an earlier release.
    return connection.execute(select(audit_checkpoints).order_by(audit_checkpoints.c.first_sequence)).all()

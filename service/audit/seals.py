"""Seals of the audit log: keyed digests of entries, the head of the chain, and checkpoints of dropped segments.

The key is derived from the platform's secret. The head authenticates the number of entries and the last digest.
"""

import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, Update, insert, inspect, select, update

from service.db.engine import Record
from service.db.prepared import prepared
from service.db.statements import named_parameters
from service.db.tables import EPOCH, MICROSECOND, audit_checkpoints, audit_head
from service.digests import are_equal

# The fields in the digest of an entry.
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
GENESIS_HASH = "0" * 64
"""The previous hash of the first entry."""
HEAD_ID = 1
_LOCKED_HEAD = prepared(select(audit_head).with_for_update())

# `json.dumps` would create an encoder for each text.
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def key_of(secret: bytes) -> bytes:
    """Derive the key of the chain from the platform's secret."""
    return hmac.digest(secret, b"frost audit chain 1", "sha256")


def digest(key: bytes, previous: str, entry: Any) -> str:
    """Return the hash of an entry, a mapping with `ENTRY_FIELDS`, that its writer chains after the hash `previous`.

    It is without the id, which the database assigns in the order of the chain.
    """
    return keyed(key, {"previous": previous, **_values(entry)})


def entry_mac(key: bytes, entry: Any) -> str:
    """Return the message authentication code of an entry that is not sealed, of `ENTRY_FIELDS` and its id."""
    return keyed(key, {"unsealed": entry["id"], **_values(entry)})


def sealed_digest(key: bytes, previous: str, mac: str) -> str:
    """Return the hash of an entry that the sealer chains after the hash `previous`.

    Args:
        mac: `entry_mac` of the entry.
    """
    return keyed(key, {"previous": previous, "sealed": mac})


def head_mac(key: bytes, head: Any) -> str:
    """Return the message authentication code of a head."""
    names = ("entries", "hash", "began_at", "unchained_until")
    return keyed(key, {"head": {name: _canonical(head[name]) for name in names}})


def checkpoint_mac(key: bytes, checkpoint: Any) -> str:
    """Return the message authentication code of a checkpoint."""
    names = (
        "first_sequence",
        "last_sequence",
        "entries",
        "previous_hash",
        "hash",
        "export_digest",
        "dropped_at",
    )
    return keyed(key, {"checkpoint": {name: _canonical(checkpoint[name]) for name in names}})


def keyed(key: bytes, value: dict[str, Any]) -> str:
    """Return the HMAC-SHA256 of a JSON object, as 64 hex digits."""
    return hmac.digest(key, _ENCODER.encode(value).encode("ascii"), "sha256").hex()


def _values(entry: Any) -> dict[str, Any]:
    return {name: _canonical(entry[name]) for name in ENTRY_FIELDS}


def _canonical(value: Any) -> Any:
    """Normalize a value for equal digests on both databases: PostgreSQL returns whole floats as integers."""
    if isinstance(value, datetime):
        return (value - EPOCH) // MICROSECOND
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _canonical(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_canonical(member) for member in value]
    return value


class ChainBroken(Exception):
    """The head is missing or forged. To append an entry would hide the damage."""


def lock_head(connection: Connection, key: bytes) -> dict[str, Any]:
    """Lock the head until the transaction ends, and return it.

    Raises:
        ChainBroken: the head is missing or forged.
    """
    row = connection.execute(_LOCKED_HEAD).one_or_none()
    return require_head(None if row is None else row._asdict(), key)


def require_head(row: Mapping[Any, Any] | None, key: bytes) -> dict[str, Any]:
    """Return the verified head.

    Args:
        row: the columns of the stored head; None if there is none.

    Raises:
        ChainBroken: the head is missing or forged.
    """
    if row is None:
        raise ChainBroken("the end of the audit log's chain is missing")
    head = {str(name): value for name, value in row.items()}
    if not are_equal(head_mac(key, head), head["seal"]):
        raise ChainBroken("the end of the audit log's chain was not written by this platform")
    return head


def update_head(connection: Connection, key: bytes, head: dict[str, Any], **changed: Any) -> None:
    """Change columns of a locked head."""
    seal = head_mac(key, {**head, **changed})
    connection.execute(_update(tuple(changed)), {**changed, "seal": seal})


@cache
def _update(columns: tuple[str, ...]) -> Update:
    return prepared(update(audit_head).values(named_parameters(audit_head, (*columns, "seal"))))


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
    if not are_equal(checkpoint_mac(key, row._mapping), row.seal):
        raise ChainBroken(f"the checkpoint of entry {row.first_sequence} was not written by this platform")


def _checkpoints(connection: Connection) -> Sequence[Record]:
    if not inspect(connection).has_table(audit_checkpoints.name):
        return ()  # A backup of an earlier release.
    return connection.execute(select(audit_checkpoints).order_by(audit_checkpoints.c.first_sequence)).all()

"""Keyed digests of the audit log. The key is derived from the platform's secret."""

import hmac
import json
from datetime import datetime
from typing import Any

from service.db.tables import EPOCH, MICROSECOND

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

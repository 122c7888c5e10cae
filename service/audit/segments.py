"""Segments of the audit log: parts of the chain that are exported, each with a sealed proof, and then dropped.

An exported segment is JSON Lines: an entry a line, then the proof. The proof has the SHA-256 of the lines, and the
hashes of the entry before the first and of the last, under a MAC of the platform's key. The chain is verified while it
is exported, so an intact file proves the entries. A file may have several segments, in order.

A drop needs the proof of the oldest segment. It replaces the entries by a checkpoint in one transaction.
"""

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, delete, select

from service.audit.seals import add_checkpoint, keyed, latest_dropped
from service.audit.verification import ChainWalk, numbered_entries
from service.clock import wire_time
from service.db import dialect
from service.db.engine import Record
from service.db.tables import audit_checkpoints, audit_log
from service.digests import are_equal

MAX_ENTRIES = 2_000
MAX_BYTES = 8 * 1024 * 1024


class SegmentRefused(Exception):
    """A segment cannot be exported or dropped. Nothing was changed.

    Args:
        code: for programs.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Proof:
    """What is sealed about a segment.

    `first` and `last` are numbers of entries, `begins` and `ends` the times of these entries (RFC 3339), `sha256` the
    digest of the exported lines.
    """

    first: int
    last: int
    begins: str
    ends: str
    previous_hash: str
    hash: str
    sha256: str

    @property
    def entries(self) -> int:
        return self.last - self.first + 1

    def seal(self, key: bytes) -> str:
        return keyed(key, {"segment": asdict(self)})


def export_segment(
    connection: Connection,
    key: bytes,
    *,
    after: int,
    before: datetime,
    max_entries: int = MAX_ENTRIES,
    max_bytes: int = MAX_BYTES,
) -> tuple[Proof, str] | None:
    """Export the next entries, up to the first that was not written before an instant.

    Args:
        connection: a snapshot (`Database.read`).
        after: the number of the last entry that is exported already; 0 for none.
        max_bytes: a segment ends after the entry that exceeds this size.

    Returns:
        The proof, and the lines; None if there is no such entry.

    Raises:
        SegmentRefused: the log was altered.
        ChainBroken: the last checkpoint is forged.
    """
    dropped = latest_dropped(connection, key)
    position, last_hash = dropped.entries, dropped.hash
    if after > position:
        stored = connection.scalar(select(audit_log.c.hash).where(audit_log.c.sequence == after))
        if stored is None:
            return None
        position, last_hash = after, stored
    walk = ChainWalk(key, position, last_hash)
    lines = list[str]()
    size, first = 0, None
    for entry in numbered_entries(connection, position):
        if entry.at >= before:
            break
        if reason := walk.fault_of(entry):
            raise SegmentRefused("AUDIT_BROKEN", f"entry {entry.id} of the audit log: {reason}")
        first = first or entry
        lines.append(json.dumps(_document(entry), separators=(",", ":"), allow_nan=False) + "\n")
        size += len(lines[-1])
        if len(lines) == max_entries or size > max_bytes:
            break
    if first is None or walk.last is None:
        return None
    text = "".join(lines)
    proof = Proof(
        first=position + 1,
        last=walk.position,
        begins=wire_time(first.at),
        ends=wire_time(walk.last.at),
        previous_hash=last_hash,
        hash=walk.last_hash,
        sha256=sha256(text.encode()).hexdigest(),
    )
    return proof, text


def drop_segment(connection: Connection, key: bytes, proof: Proof, seal: str, at: datetime) -> None:
    """Replace the entries of the oldest segment by a checkpoint.

    Raises:
        SegmentRefused: the proof is forged, or not of the oldest entries.
        ChainBroken: the last checkpoint is forged.
    """
    _require_seal(proof, seal, key)
    dialect.lock_table(connection, audit_checkpoints)
    dropped = latest_dropped(connection, key)
    if proof.last <= dropped.entries:
        raise SegmentRefused("ALREADY_DROPPED", f"entries {proof.first} to {proof.last} were already dropped")
    if (proof.first, proof.previous_hash) != (dropped.entries + 1, dropped.hash):
        raise SegmentRefused("NOT_OLDEST", f"the oldest entry of the audit log is {dropped.entries + 1}")
    walk = ChainWalk(key, dropped.entries, dropped.hash)
    for entry in numbered_entries(connection, dropped.entries):
        if walk.position == proof.last or walk.fault_of(entry):
            break
    if (walk.position, walk.last_hash) != (proof.last, proof.hash):
        raise _differs(proof)
    connection.execute(delete(audit_log).where(audit_log.c.sequence.between(proof.first, proof.last)))
    add_checkpoint(
        connection,
        key,
        {
            "first_sequence": proof.first,
            "last_sequence": proof.last,
            "entries": proof.entries,
            "previous_hash": proof.previous_hash,
            "hash": proof.hash,
            "export_digest": proof.sha256,
            "dropped_at": at,
        },
    )


def is_dropped(connection: Connection, key: bytes, proof: Proof, seal: str) -> bool:
    """Return whether the entries of a segment were dropped; False if they are in the log.

    Raises:
        SegmentRefused: the proof is forged, or matches neither a checkpoint nor the log.
        ChainBroken: the last checkpoint is forged.
    """
    _require_seal(proof, seal, key)
    if proof.first > latest_dropped(connection, key).entries:
        if _hash_of(connection, proof.last) != proof.hash:
            raise _differs(proof)
        return False
    query = select(audit_checkpoints).where(audit_checkpoints.c.first_sequence == proof.first)
    row = connection.execute(query).one_or_none()
    if row is None or (row.last_sequence, row.hash, row.export_digest) != (proof.last, proof.hash, proof.sha256):
        raise SegmentRefused(
            "OTHER_EXPORT", f"entries {proof.first} to {proof.last} were dropped after a different export"
        )
    return True


def _differs(proof: Proof) -> SegmentRefused:
    message = f"entries {proof.first} to {proof.last} of the audit log differ from the export"
    return SegmentRefused("AUDIT_BROKEN", message)


def _require_seal(proof: Proof, seal: str, key: bytes) -> None:
    if not are_equal(proof.seal(key), seal):
        raise SegmentRefused(
            "NOT_EXPORTED", f"the proof of entries {proof.first} to {proof.last} was not written by this platform"
        )


def _hash_of(connection: Connection, sequence: int) -> str | None:
    return connection.scalar(select(audit_log.c.hash).where(audit_log.c.sequence == sequence).limit(1))


def _document(entry: Record) -> dict[str, Any]:
    """Return an entry with all that its digest covers."""
    return {
        "sequence": entry.sequence,
        "id": entry.id,
        "at": entry.at.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "requestId": entry.request_id,
        "actorKind": entry.actor_kind,
        "actorId": entry.actor_id,
        "credentialId": entry.credential_id,
        "organizationId": entry.organization_id,
        "tenantId": entry.tenant_id,
        "operation": entry.operation,
        "target": entry.target,
        "outcome": entry.outcome,
        "details": entry.details,
        "previousHash": entry.previous_hash,
        "hash": entry.hash,
    }

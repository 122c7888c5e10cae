"""Segments of the audit log: exported, dropped behind a checkpoint, and the changes that are detected afterwards."""

import json
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest
from sqlalchemy import Executable, delete, select, update

from service.audit import chain
from service.audit.seals import ChainBroken, key_of
from service.audit.segments import Proof, SegmentRefused, drop_segment, export_segment, is_dropped
from service.audit.verification import ALTERED, MOVED
from service.db.engine import Database
from service.db.tables import audit_checkpoints, audit_head, audit_log
from tests.service.audited import KEY, NOW, SECRET, fault_of, fault_within, seal, verdict, write_entry
from tests.service.queries import execute, fetch, fetch_row, fetch_scalars

LATER = NOW + timedelta(days=365)


def write(database: Database, number: int) -> None:
    write_entry(database, f"t:{number}", NOW + timedelta(days=number))


@pytest.fixture
def log(database: Database) -> Database:
    for number in range(1, 11):
        write(database, number)
    seal(database)
    return database


def export(database: Database, *, days: int, after: int = 0, **limits: int) -> Proof:
    with database.read() as connection:
        before = NOW + timedelta(days=days, microseconds=1)
        exported = export_segment(connection, KEY, after=after, before=before, **limits)
    assert exported
    return exported[0]


def drop(database: Database, proof: Proof, seal: str | None = None) -> None:
    with database.write() as connection:
        drop_segment(connection, KEY, proof, proof.seal(KEY) if seal is None else seal, LATER)


def sizes(database: Database) -> tuple[int, int]:
    """Return the numbers of entries and of dropped entries of a log without a fault."""
    result = verdict(database)
    assert result.fault is None
    return result.entries, result.dropped.entries


def refusal(database: Database, proof: Proof, seal: str | None = None) -> str:
    """Return the code with which a drop is refused; nothing is removed."""
    ids = select(audit_log.c.id).order_by(audit_log.c.id)
    before = fetch(database, ids)
    with pytest.raises(SegmentRefused) as refused:
        drop(database, proof, seal)
    assert fetch(database, ids) == before
    return refused.value.code


def alter(database: Database, sequence: int, **values: Any) -> None:
    execute(database, update(audit_log).where(audit_log.c.sequence == sequence).values(values))


def test_an_export_has_the_entries_before_an_instant_and_their_proof(log: Database) -> None:
    with log.read() as connection:
        exported = export_segment(connection, KEY, after=0, before=NOW + timedelta(days=4))
    assert exported
    hashes = fetch_scalars(log, select(audit_log.c.hash).order_by(audit_log.c.sequence))
    proof, lines = exported
    documents = [json.loads(line) for line in lines.splitlines()]
    assert [(document["sequence"], document["target"], document["hash"]) for document in documents] == [
        (number, f"t:{number}", hashes[number - 1]) for number in (1, 2, 3)
    ]
    assert documents[0]["at"] == "2026-03-02T12:00:00.123456Z"
    assert proof == Proof(
        first=1,
        last=3,
        begins="2026-03-02T12:00:00.123Z",
        ends="2026-03-04T12:00:00.123Z",
        previous_hash="0" * 64,
        hash=hashes[2],
        sha256=sha256(lines.encode()).hexdigest(),
    )


def test_an_export_is_bounded_by_an_instant_its_size_and_an_altered_entry(log: Database) -> None:
    with log.read() as connection:
        for after, before in ((0, NOW), (10, LATER), (99, LATER)):
            assert export_segment(connection, KEY, after=after, before=before) is None
    first = export(log, days=10, max_entries=4)
    second = export(log, days=10, after=4, max_entries=4)
    assert [(one.first, one.last) for one in (first, second)] == [(1, 4), (5, 8)]
    assert second.previous_hash == first.hash
    assert export(log, days=10, max_bytes=1).last == 1
    # An export ends before the first later entry.
    write(log, 2)
    seal(log)
    assert [export(log, days=days).last for days in (9, 10)] == [9, 11]
    alter(log, 3, target="other")
    with log.read() as connection, pytest.raises(SegmentRefused, match=ALTERED):
        export_segment(connection, KEY, after=0, before=LATER)
    assert export(log, days=2).last == 2


def test_after_a_drop_the_rest_verifies_and_names_what_was_dropped(log: Database) -> None:
    proof = export(log, days=4)
    drop(log, proof)
    row = fetch_row(log, select(audit_checkpoints))
    assert row == {
        "first_sequence": 1,
        "last_sequence": 4,
        "entries": 4,
        "previous_hash": "0" * 64,
        "hash": proof.hash,
        "export_digest": proof.sha256,
        "dropped_at": LATER,
        "seal": row["seal"],
    }
    write(log, 11)
    assert sizes(log) == (7, 4)
    assert verdict(log).dropped.at == LATER
    drop(log, export(log, days=6))
    assert sizes(log) == (5, 6)
    drop(log, export(log, days=11))
    assert sizes(log) == (0, 11)
    write(log, 12)
    assert sizes(log) == (1, 11)
    assert export(log, days=12).first == 12


def test_a_refused_drop_removes_nothing(log: Database) -> None:
    assert refusal(log, export(log, days=8, after=4)) == "NOT_OLDEST"
    proof = export(log, days=4)
    earlier = "2020-01-01T00:00:00Z"
    for name, value in (("last", 5), ("hash", "0" * 64), ("sha256", "0" * 64), ("ends", earlier)):
        forged = replace(proof, **{name: value})  # type: ignore[arg-type]
        assert refusal(log, forged, proof.seal(KEY)) == "NOT_EXPORTED"
    for other in (proof.seal(key_of(b"another platform")), "é" * 64, "\udcff"):
        assert refusal(log, proof, other) == "NOT_EXPORTED"
    with pytest.raises(ZeroDivisionError), log.write() as connection:  # noqa: PT012 - it fails at its end
        drop_segment(connection, KEY, proof, proof.seal(KEY), LATER)
        raise ZeroDivisionError
    assert sizes(log) == (10, 0)
    alter(log, 2, target="other")
    assert refusal(log, proof) == "AUDIT_BROKEN"
    alter(log, 2, target="t:2")
    drop(log, proof)
    assert refusal(log, proof) == "ALREADY_DROPPED"


NOT_WRITTEN = "the checkpoint of entry 1 was not written by this platform"
CHANGED = {"dropped_at": NOW, "last_sequence": 5, "entries": 5}
CHANGED |= dict.fromkeys(("hash", "previous_hash", "export_digest"), "0" * 63 + "1")
TAMPERING: dict[str, tuple[Executable, tuple[int | None, str]]] = {
    **{name: (update(audit_checkpoints).values({name: value}), (None, NOT_WRITTEN)) for name, value in CHANGED.items()},
    "checkpoint": (delete(audit_checkpoints), (5, MOVED)),
    "end": (delete(audit_log).where(audit_log.c.sequence > 7), (7, "3 after it are missing")),
    "all": (delete(audit_log), (None, "6 after it are missing")),
    "entries after the checkpoint": (delete(audit_log).where(audit_log.c.sequence <= 6), (7, MOVED)),
}


def test_a_removal_or_another_checkpoint_after_a_drop_is_detected(log: Database) -> None:
    drop(log, export(log, days=4))
    for name, (statement, expected) in TAMPERING.items():
        with log.write() as connection:
            connection.execute(statement)
            assert fault_within(connection, log.kind) == expected, name
            if name in CHANGED:
                with pytest.raises(ChainBroken):
                    export_segment(connection, KEY, after=0, before=LATER)
            connection.rollback()


def test_dropped_entries_and_a_removed_checkpoint_or_head_are_not_replaced(log: Database) -> None:
    row = fetch_row(log, select(audit_log).where(audit_log.c.sequence == 4))
    drop(log, export(log, days=4))
    execute(log, audit_log.insert().values(row))
    assert fault_of(log)[1] == MOVED
    execute(log, delete(audit_log).where(audit_log.c.sequence == 4))
    drop(log, export(log, days=10))
    execute(log, delete(audit_checkpoints).where(audit_checkpoints.c.first_sequence == 1))
    assert fault_of(log)[1] == "the checkpoint of entry 1 is missing"
    execute(log, delete(audit_head))
    chain.initialize_chain(log, SECRET, NOW, rolling=False)
    assert fetch(log, select(audit_head)) == []


def test_a_proof_is_linked_to_the_log_or_to_its_checkpoint(log: Database) -> None:
    proof, other = export(log, days=4), export(log, days=3)

    def state(proof: Proof) -> bool:
        with log.read() as connection:
            return is_dropped(connection, KEY, proof, proof.seal(KEY))

    assert not state(proof)
    drop(log, proof)
    assert state(proof)
    with pytest.raises(SegmentRefused, match="after a different export"):
        state(other)
    with log.read() as connection, pytest.raises(SegmentRefused, match="was not written by this platform"):
        is_dropped(connection, KEY, replace(proof, last=3), proof.seal(KEY))
    rest = export(log, days=8)
    alter(log, 8, hash="0" * 64)
    with pytest.raises(SegmentRefused, match="differ from the export"):
        state(rest)

"""Segments of the audit log: exported, dropped behind a checkpoint, and what is detected afterwards."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest
from sqlalchemy import Executable, delete, func, select, update

from service.audit import chain, entries
from service.audit.entries import AuditEvent
from service.audit.seals import ChainBroken, key_of
from service.audit.segments import Proof, SegmentRefused, drop_segment, export_segment, is_dropped
from service.audit.verification import ALTERED, MOVED, Verification, verify
from service.db.engine import Database
from service.db.tables import audit_checkpoints, audit_head, audit_log
from service.principal import PLATFORM
from tests.service.audited import SECRET, seal

NOW = datetime(2026, 3, 1, 12, 0, 0, 123_456, tzinfo=UTC)
KEY = key_of(SECRET)
LATER = NOW + timedelta(days=365)


def write(database: Database, number: int) -> None:
    """Write the entry of a day."""
    at = NOW + timedelta(days=number)
    with database.write() as connection:
        entries.record(connection, PLATFORM, event=AuditEvent.PLATFORM_STOP, target=f"t:{number}", at=at)


@pytest.fixture
def log(database: Database) -> Database:
    """A log with an entry a day, numbered from 1."""
    for number in range(1, 11):
        write(database, number)
    seal(database)
    return database


def export(database: Database, *, days: int, after: int = 0, **limits: int) -> Proof:
    """Export the entries up to a day."""
    with database.read() as connection:
        before = NOW + timedelta(days=days, microseconds=1)
        exported = export_segment(connection, KEY, after=after, before=before, **limits)
    assert exported
    return exported[0]


def drop(database: Database, proof: Proof, seal: str | None = None) -> None:
    with database.write() as connection:
        drop_segment(connection, KEY, proof, proof.seal(KEY) if seal is None else seal, LATER)


def verdict(database: Database) -> Verification:
    seal(database)
    with database.read() as connection:
        return verify(connection, KEY)


def fault(database: Database) -> tuple[int | None, str]:
    found = verdict(database).fault
    assert found
    return found.id, found.reason


def refusal(database: Database, proof: Proof, seal: str | None = None) -> str:
    """Return the code with which a drop is refused; nothing is removed."""
    with database.read() as connection:
        before = connection.execute(select(audit_log.c.id).order_by(audit_log.c.id)).all()
    with pytest.raises(SegmentRefused) as refused:
        drop(database, proof, seal)
    with database.read() as connection:
        assert connection.execute(select(audit_log.c.id).order_by(audit_log.c.id)).all() == before
    return refused.value.code


def test_an_export_has_the_entries_before_an_instant_and_their_proof(log: Database) -> None:
    with log.read() as connection:
        exported = export_segment(connection, KEY, after=0, before=NOW + timedelta(days=4))
        hashes = connection.scalars(select(audit_log.c.hash).order_by(audit_log.c.sequence)).all()
    assert exported
    proof, lines = exported
    documents = [json.loads(line) for line in lines.splitlines()]
    assert [document["target"] for document in documents] == ["t:1", "t:2", "t:3"]
    assert [document["sequence"] for document in documents] == [1, 2, 3]
    assert documents[0]["at"] == "2026-03-02T12:00:00.123456Z"
    assert [document["hash"] for document in documents] == list(hashes[:3])
    assert proof == Proof(
        first=1,
        last=3,
        begins="2026-03-02T12:00:00.123Z",
        ends="2026-03-04T12:00:00.123Z",
        previous_hash="0" * 64,
        hash=hashes[2],
        sha256=sha256(lines.encode()).hexdigest(),
    )


def test_an_export_ends_before_the_first_later_entry(log: Database) -> None:
    write(log, 2)
    seal(log)
    assert export(log, days=9).last == 9
    assert export(log, days=10).last == 11


def test_nothing_is_exported_without_an_older_entry(log: Database) -> None:
    with log.read() as connection:
        assert export_segment(connection, KEY, after=0, before=NOW) is None
        assert export_segment(connection, KEY, after=10, before=LATER) is None
        assert export_segment(connection, KEY, after=99, before=LATER) is None


def test_a_large_export_has_several_segments(log: Database) -> None:
    first = export(log, days=10, max_entries=4)
    second = export(log, days=10, after=4, max_entries=4)
    assert [(one.first, one.last) for one in (first, second)] == [(1, 4), (5, 8)]
    assert second.previous_hash == first.hash
    assert export(log, days=10, max_bytes=1).last == 1


def test_an_altered_log_is_not_exported(log: Database) -> None:
    with log.write() as connection:
        connection.execute(update(audit_log).where(audit_log.c.sequence == 3).values(target="other"))
    with log.read() as connection, pytest.raises(SegmentRefused, match=ALTERED):
        export_segment(connection, KEY, after=0, before=LATER)
    assert export(log, days=2).last == 2


def test_after_a_drop_the_rest_verifies_and_names_what_was_dropped(log: Database) -> None:
    drop(log, export(log, days=4))
    write(log, 11)
    result = verdict(log)
    assert (result.entries, result.fault) == (7, None)
    assert (result.dropped.entries, result.dropped.at) == (4, LATER)
    drop(log, export(log, days=6))
    result = verdict(log)
    assert (result.entries, result.dropped.entries, result.fault) == (5, 6, None)


def test_all_entries_can_be_dropped(log: Database) -> None:
    drop(log, export(log, days=10))
    result = verdict(log)
    assert (result.entries, result.dropped.entries, result.fault) == (0, 10, None)
    write(log, 11)
    result = verdict(log)
    assert (result.entries, result.dropped.entries, result.fault) == (1, 10, None)
    assert export(log, days=11).first == 11


def test_a_checkpoint_states_what_was_dropped(log: Database) -> None:
    proof = export(log, days=4)
    drop(log, proof)
    with log.read() as connection:
        row = dict(connection.execute(select(audit_checkpoints)).one()._mapping)
    del row["seal"]
    assert row == {
        "first_sequence": 1,
        "last_sequence": 4,
        "entries": 4,
        "previous_hash": "0" * 64,
        "hash": proof.hash,
        "export_digest": proof.sha256,
        "dropped_at": LATER,
    }


@pytest.mark.parametrize(
    "changed",
    [{"last": 5}, {"hash": "0" * 64}, {"sha256": "0" * 64}, {"ends": "2020-01-01T00:00:00Z"}, {}],
    ids=lambda changed: next(iter(changed), "key of another platform"),
)
def test_a_forged_proof_drops_nothing(log: Database, changed: dict[str, Any]) -> None:
    proof = export(log, days=4)
    key = KEY if changed else key_of(b"another platform")
    assert refusal(log, replace(proof, **changed), proof.seal(key)) == "NOT_EXPORTED"


def test_entries_are_dropped_once_and_the_oldest_first(log: Database) -> None:
    assert refusal(log, export(log, days=8, after=4)) == "NOT_OLDEST"
    proof = export(log, days=4)
    drop(log, proof)
    assert refusal(log, proof) == "ALREADY_DROPPED"


def test_entries_that_were_altered_after_the_export_are_not_dropped(log: Database) -> None:
    proof = export(log, days=4)
    with log.write() as connection:
        connection.execute(update(audit_log).where(audit_log.c.sequence == 2).values(target="other"))
    assert refusal(log, proof) == "AUDIT_BROKEN"


def test_a_drop_that_fails_removes_nothing(log: Database) -> None:
    proof = export(log, days=4)
    with pytest.raises(ZeroDivisionError), log.write() as connection:  # noqa: PT012 - it fails at its end
        drop_segment(connection, KEY, proof, proof.seal(KEY), LATER)
        raise ZeroDivisionError
    assert verdict(log).entries == 10


REMOVALS: dict[str, tuple[Executable, tuple[int | None, str]]] = {
    "checkpoint": (delete(audit_checkpoints), (5, MOVED)),
    "end": (delete(audit_log).where(audit_log.c.sequence > 7), (7, "3 after it are missing")),
    "all": (delete(audit_log), (None, "6 after it are missing")),
    "entries after the checkpoint": (delete(audit_log).where(audit_log.c.sequence <= 6), (7, MOVED)),
}


@pytest.mark.parametrize("name", REMOVALS)
def test_a_removal_after_a_drop_is_detected(log: Database, name: str) -> None:
    drop(log, export(log, days=4))
    statement, expected = REMOVALS[name]
    with log.write() as connection:
        connection.execute(statement)
    assert fault(log) == expected


def test_a_removed_checkpoint_before_another_is_detected(log: Database) -> None:
    drop(log, export(log, days=4))
    drop(log, export(log, days=6))
    with log.write() as connection:
        connection.execute(delete(audit_checkpoints).where(audit_checkpoints.c.first_sequence == 1))
    assert fault(log)[1] == "the checkpoint of entry 1 is missing"


@pytest.mark.parametrize("column", ["last_sequence", "entries", "dropped_at", "hash", "previous_hash", "export_digest"])
def test_an_altered_checkpoint_is_detected(log: Database, column: str) -> None:
    drop(log, export(log, days=4))
    value = {"dropped_at": NOW, "last_sequence": 5, "entries": 5}.get(column, "0" * 63 + "1")
    with log.write() as connection:
        connection.execute(update(audit_checkpoints).values({column: value}))
    assert fault(log)[1] == "the checkpoint of entry 1 was not written by this platform"
    with log.read() as connection, pytest.raises(ChainBroken):
        export_segment(connection, KEY, after=0, before=LATER)


def test_dropped_entries_that_are_put_back_are_detected(log: Database) -> None:
    with log.read() as connection:
        row = dict(connection.execute(select(audit_log).where(audit_log.c.sequence == 4)).one()._mapping)
    drop(log, export(log, days=4))
    with log.write() as connection:
        connection.execute(audit_log.insert().values(row))
    assert fault(log)[1] == MOVED


def test_a_removed_head_of_a_dropped_log_is_not_replaced(log: Database) -> None:
    drop(log, export(log, days=10))
    with log.write() as connection:
        connection.execute(delete(audit_head))
    chain.initialize_chain(log, SECRET, NOW, rolling=False)
    with log.read() as connection:
        assert connection.scalar(select(func.count()).select_from(audit_head)) == 0


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
    with log.write() as connection:
        connection.execute(update(audit_log).where(audit_log.c.sequence == 8).values(hash="0" * 64))
    with pytest.raises(SegmentRefused, match="differ from the export"):
        state(rest)

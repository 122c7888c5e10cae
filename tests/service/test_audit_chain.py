"""The audit log as a chain: what is done to it behind the platform's back is found, and nothing else."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlalchemy import Executable, delete, func, insert, select, text, update

from service.app import open_platform
from service.audit import chain, entries
from service.audit.entries import AuditEvent
from service.audit.seals import ENTRY_FIELDS, ChainBroken, digest, key_of
from service.audit.verification import ALTERED, BATCH_SIZE, MOVED, UNCHAINED, Verification, verify
from service.db import migrate
from service.db.engine import Database
from service.db.tables import audit_head, audit_log, platform_state
from service.principal import PLATFORM
from service.settings import from_arguments
from tests.service.audited import SECRET, audited, seal
from tests.service.conftest import KINDS

NOW = datetime(2026, 3, 1, 12, 0, 0, 123_456, tzinfo=UTC)
OTHER = b"another platform's secret"


def write(database: Database, target: str = "t", **details: Any) -> None:
    with database.write() as connection:
        entries.record(connection, PLATFORM, event=AuditEvent.PLATFORM_STOP, target=target, details=details, at=NOW)


def verdict(database: Database, secret: bytes = SECRET) -> Verification:
    """The verification of a log without unsealed entries."""
    with suppress(ChainBroken):
        seal(database, secret)
    with database.read() as connection:
        return verify(connection, key_of(secret))


def found(database: Database) -> tuple[int | None, str]:
    """The number of the first bad entry, and what is said of it."""
    fault = verdict(database).fault
    assert fault
    return fault.id, fault.reason


def fill(database: Database) -> Database:
    """Write ten entries, numbered from 1."""
    for number in range(10):
        write(database, f"thing:{number}", number=number, name="Zoë")
    seal(database)
    return database


@pytest.fixture
def log(database: Database) -> Database:
    return fill(database)


def test_an_untouched_log_is_whole(database: Database) -> None:
    assert verdict(database).fault is None
    fill(database)
    result = verdict(database)
    assert (result.entries, result.unchained, result.fault) == (10, 0, None)
    with database.read() as connection:
        assert result.head == connection.scalar(select(audit_log.c.hash).where(audit_log.c.id == 10))


ID, SEQUENCE = audit_log.c.id, audit_log.c.sequence
FOURTH, END = update(audit_log).where(ID == 4), delete(audit_log).where(ID > 7)
HEAD_OF_SEVEN = {"entries": 7, "hash": select(audit_log.c.hash).where(ID == 7).scalar_subquery()}


def swap(column: Any) -> list[Executable]:
    """Swap the values 4 and 5 of a column."""
    return [update(audit_log).where(column == old).values({column: new}) for old, new in ((4, 99), (5, 4), (99, 5))]


TAMPERING: dict[str, tuple[list[Executable], tuple[int | None, str]]] = {
    **{
        name: ([FOURTH.values({name: "other"})], (4, ALTERED)) for name in ENTRY_FIELDS if name not in ("at", "details")
    },
    "at": ([FOURTH.values(at=NOW + timedelta(microseconds=1))], (4, ALTERED)),
    "details": ([FOURTH.values(details={"number": 3})], (4, ALTERED)),
    "hash": ([FOURTH.values(hash="0")], (4, ALTERED)),
    "entry removed": ([delete(audit_log).where(ID == 4)], (5, MOVED)),
    "first entry removed": ([delete(audit_log).where(ID == 1)], (2, MOVED)),
    "sequence numbers swapped": (swap(SEQUENCE), (5, MOVED)),
    "gap in the sequence": ([update(audit_log).where(ID > 7).values(sequence=SEQUENCE + 1)], (8, MOVED)),
    "end removed": ([END], (7, "3 after it are missing")),
    "all removed": ([delete(audit_log)], (None, "10 after it are missing")),
    "end removed, head set back": (
        [update(audit_head).values(HEAD_OF_SEVEN), END],
        (None, "the end of the audit log's chain was not written by this platform"),
    ),
}


@pytest.mark.parametrize("name", TAMPERING)
def test_tampering_with_the_log_is_detected(log: Database, name: str) -> None:
    statements, fault = TAMPERING[name]
    with log.write() as connection:
        for statement in statements:
            connection.execute(statement)
    assert found(log) == fault


def test_entries_in_another_order_are_detected(log: Database) -> None:
    with log.write() as connection:
        for statement in swap(ID):
            connection.execute(statement)
    # The sealer digests the id as well.
    assert found(log) == ((4, MOVED) if log.kind == "sqlite" else (5, ALTERED))


UNCHAIN = {"hash": None, "previous_hash": None}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [({"target": "forged"} | UNCHAIN, UNCHAINED), ({"target": "forged"}, ALTERED), ({}, None)],
    ids=["without hashes", "with copied hashes", "unchanged copy"],
)
def test_an_inserted_entry_is_detected(log: Database, changed: dict[str, Any], reason: str | None) -> None:
    with log.write() as connection:
        row = dict(connection.execute(select(audit_log).where(ID == 10)).one()._mapping)
        connection.execute(insert(audit_log).values(row | {"id": 11} | changed))
    # The sealer digests the id as well.
    assert found(log) == (11, reason or (MOVED if log.kind == "sqlite" else ALTERED))


def test_an_entry_chained_with_another_key_is_detected(log: Database) -> None:
    with log.write() as connection:
        entry = connection.execute(select(audit_log).where(audit_log.c.id == 4)).one()
        forged = dict(entry._mapping) | {"target": "other"}
        values = {"target": "other", "hash": digest(key_of(OTHER), entry.previous_hash, forged)}
        connection.execute(update(audit_log).where(audit_log.c.id == 4).values(values))
    assert found(log) == (4, ALTERED)


def test_a_removed_head_is_detected_and_not_replaced_at_the_start(log: Database) -> None:
    with log.write() as connection:
        connection.execute(delete(audit_head))
    chain.initialize_chain(log, SECRET, NOW, rolling=False)
    assert found(log) == (None, "the end of the audit log's chain is missing")


@pytest.mark.parametrize("tampered", [delete(audit_head), update(audit_head).values(entries=3)], ids=["gone", "other"])
def test_nothing_is_appended_to_a_tampered_head(log: Database, tampered: Any) -> None:
    with log.write() as connection:
        connection.execute(tampered)
    with pytest.raises(ChainBroken):
        write(log)
    with log.read() as connection:
        assert connection.scalar(select(func.count()).select_from(audit_log)) == 10


def test_a_change_and_its_entries_are_one(log: Database) -> None:
    with pytest.raises(ZeroDivisionError), log.write() as connection:  # noqa: PT012 - a change that fails at its end
        entries.record(connection, PLATFORM, event=AuditEvent.PLATFORM_STOP, target="t", at=NOW)
        raise ZeroDivisionError
    with log.write() as connection:
        for target in "abc":
            entries.record(connection, PLATFORM, event=AuditEvent.PLATFORM_STOP, target=target, at=NOW)
    result = verdict(log)
    assert (result.entries, result.fault) == (13, None)
    with log.read() as connection:
        targets = connection.scalars(select(audit_log.c.target).order_by(ID.desc()).limit(4)).all()
    assert list(targets) == ["c", "b", "a", "thing:9"]


def test_an_entry_is_refused_without_an_audit_log(database_url: str) -> None:
    database = Database(database_url)
    with pytest.raises(LookupError), database.write() as connection:
        entries.record(connection, PLATFORM, event=AuditEvent.PLATFORM_STOP, target="t", at=NOW)
    database.close()


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(-1e15, 1e15, allow_nan=False)
    | st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abü", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=25, deadline=None)
@example(details={"large": 1e22, "whole": 2.0, "zero": -0.0, "small": 1e-7})
@given(details=st.dictionaries(st.text("kä", min_size=1, max_size=4), VALUES, max_size=4))
def test_an_entry_reads_back_as_it_was_digested(chained: Database, details: dict[str, Any]) -> None:
    """JSONB keeps no order of members and no kind of number; what is digested is what both databases give back."""
    write(chained, **{"target": "t"}, **{f"_{name}": value for name, value in details.items()})
    assert verdict(chained).fault is None


@pytest.fixture(scope="module", params=KINDS)
def chained(request: pytest.FixtureRequest, new_database_url: Callable[[str, bool], str]) -> Iterator[Database]:
    """One database for all examples."""
    opened = audited(new_database_url(request.param, True))
    yield opened
    opened.close()


# Side by side


def test_writers_at_once_make_one_chain(database_url: str) -> None:
    """Each as a process of its own would be: with an engine of its own."""
    writers = [audited(database_url) for _ in range(4)]

    def change(number: int) -> None:
        for turn in range(10):
            write(writers[number], f"{number}:{turn}")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(change, range(4)))
    result = verdict(writers[0])
    assert (result.entries, result.fault) == (40, None)
    for writer in writers:
        writer.close()


def test_changes_that_wait_for_rows_of_each_other_do_not_deadlock(
    new_database_url: Callable[[str, bool], str],
) -> None:
    """One notes its entry before it takes a row that the other holds: the head is taken by neither until it is done."""
    database = audited(new_database_url("postgresql", True))
    with database.write() as connection:
        connection.execute(insert(platform_state).values(name="row", value=""))
    held, done = threading.Event(), []
    row = select(platform_state).where(platform_state.c.name == "row").with_for_update()

    def holds_first() -> None:
        with database.write() as connection:
            connection.execute(row)
            held.set()
            entries.record(connection, PLATFORM, event=AuditEvent.PLATFORM_STOP, target="holds", at=NOW)
        done.append("holds")

    def notes_first() -> None:
        with database.write() as connection:
            entries.record(connection, PLATFORM, event=AuditEvent.PLATFORM_STOP, target="notes", at=NOW)
            thread = threading.Thread(target=holds_first)
            thread.start()
            held.wait(60)
            connection.execute(text("SET LOCAL lock_timeout = '5s'"))
            connection.execute(row)
        thread.join()
        done.append("notes")

    notes_first()
    assert sorted(done) == ["holds", "notes"]
    assert verdict(database).fault is None
    database.close()


def test_a_log_is_verified_as_of_one_moment_while_others_write(log: Database) -> None:
    with log.read() as connection:
        connection.execute(select(audit_head)).one()
        write(log, "meanwhile")
        result = verify(connection, key_of(SECRET))
    assert (result.entries, result.fault) == (10, None)


# From a version that knew no chain


def unchained(target: str, at: datetime = NOW) -> dict[str, Any]:
    return {
        "at": at,
        "request_id": "r",
        "actor_kind": "platform",
        "actor_id": "platform",
        "operation": "x.y",
        "target": target,
        "outcome": "done",
        "details": {"n": 1.0, "b": {"z": 1, "a": [2.5]}},
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_entries_of_an_older_version_are_chained_once(
    kind: str, new_database_url: Callable[[str, bool], str]
) -> None:
    database = Database(new_database_url(kind, True))
    with database.write() as connection:
        connection.execute(insert(audit_log), [unchained(f"t:{n}") for n in range(BATCH_SIZE + 5)])
    replicas = [Database(database.engine.url.render_as_string(hide_password=False)) for _ in range(3)]
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda replica: chain.initialize_chain(replica, SECRET, NOW, rolling=False), replicas))
    result = verdict(database)
    assert (result.entries, result.fault, result.began_at) == (BATCH_SIZE + 5, None, NOW)
    with database.write() as connection:
        connection.execute(update(audit_log).where(audit_log.c.id == BATCH_SIZE + 2).values(target="other"))
    assert found(database) == (BATCH_SIZE + 2, ALTERED)
    for one in (database, *replicas):
        one.close()


@pytest.mark.parametrize(
    ("rolling", "late", "bad"),
    [(True, timedelta(hours=1), False), (True, timedelta(hours=25), True), (False, timedelta(hours=1), True)],
)
def test_unchained_entries_are_accepted_for_a_day_after_a_rolling_upgrade(
    database_url: str, rolling: bool, late: timedelta, bad: bool
) -> None:
    database = Database(database_url)
    chain.initialize_chain(database, SECRET, NOW, rolling=rolling)
    chain.install_audit_hooks(database, SECRET)
    write(database)
    with database.write() as connection:
        connection.execute(insert(audit_log).values(unchained("old replica", NOW + late)))
    write(database)
    result = verdict(database)
    assert (result.entries, result.unchained, result.fault and result.fault.reason) == (
        (2, 0, UNCHAINED) if bad else (2, 1, None)
    )
    database.close()


def test_a_backdated_unchained_entry_is_detected(database_url: str) -> None:
    database = Database(database_url)
    chain.initialize_chain(database, SECRET, NOW, rolling=True)
    chain.install_audit_hooks(database, SECRET)
    with database.write() as connection:
        later = NOW + timedelta(days=2)
        entries.record(connection, PLATFORM, event=AuditEvent.PLATFORM_STOP, target="t", at=later)
    with database.write() as connection:
        connection.execute(insert(audit_log).values(unchained("backdated")))
    assert found(database) == (2, UNCHAINED)
    database.close()


@pytest.mark.parametrize("kind", KINDS)
def test_only_postgresql_accepts_unchained_entries_after_an_upgrade(
    kind: str, new_database_url: Callable[[str, bool], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = new_database_url(kind, False)
    with monkeypatch.context() as older:
        older.setattr(migrate, "HEAD", "0006")
        database = Database(url)
        migrate.upgrade(database)
        database.close()
    arguments = ["--data-dir", str(tmp_path), "--database", url, "--world", "empty"]
    platform = open_platform(from_arguments(arguments, {}))
    with platform.database.read() as connection:
        until = connection.scalar(select(audit_head.c.unchained_until))
    assert (until is not None) == (kind == "postgresql")
    platform.database.close()


def test_an_upgrade_returns_the_revision_before_it(
    new_database_url: Callable[[str, bool], str],
) -> None:
    database = Database(new_database_url("sqlite", False))
    assert [migrate.upgrade(database), migrate.upgrade(database)] == [None, migrate.HEAD]
    database.close()

"""The audit log as a chain: changes behind the platform's back are detected, and nothing else."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlalchemy import Executable, delete, insert, select, update

from service.app import open_platform
from service.audit import chain
from service.audit.seals import ENTRY_FIELDS, GENESIS_HASH, ChainBroken, digest, head_mac, key_of
from service.audit.segments import export_segment
from service.audit.verification import ALTERED, BATCH_SIZE, MOVED, UNCHAINED, verify
from service.db import migrate
from service.db.engine import Database
from service.db.tables import audit_head, audit_log
from service.settings import from_arguments
from tests.service.audited import (
    KEY,
    NOW,
    SECRET,
    append_as_before,
    audited,
    fault_of,
    fault_within,
    record,
    seal,
    verdict,
    write_entry,
)
from tests.service.conftest import KINDS
from tests.service.factories import entry
from tests.service.queries import execute, fetch, fetch_row, fetch_scalars

NewDatabaseUrl = Callable[[str, bool], str]


def fill(database: Database) -> Database:
    for number in range(10):
        write_entry(database, f"thing:{number}", number=number, name="Zoë")
    seal(database)
    return database


@pytest.fixture
def log(database: Database) -> Database:
    return fill(database)


def test_an_untouched_log_is_whole_also_while_others_write(database: Database) -> None:
    assert verdict(database).fault is None
    result = verdict(fill(database))
    assert (result.entries, result.unchained, result.fault) == (10, 0, None)
    assert fetch_scalars(database, select(audit_log.c.hash).where(ID == 10)) == [result.head]
    with database.read() as connection:
        connection.execute(select(audit_head)).one()
        write_entry(database, "meanwhile")
        result = verify(connection, KEY)
    assert (result.entries, result.fault) == (10, None)


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
    "hash of other letters": ([FOURTH.values(hash="é" * 64)], (4, ALTERED)),
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
    # The sealer digests the id as well.
    "another order": (swap(ID), (4, MOVED)),
}


def fault_after(log: Database, *statements: Executable) -> tuple[int | None, str]:
    """Return the first bad entry and the reason after some statements, which are rolled back."""
    with log.write() as connection:
        for statement in statements:
            connection.execute(statement)
        fault = fault_within(connection, log.kind)
        connection.rollback()
    return fault


def test_tampering_with_the_log_is_detected(log: Database) -> None:
    for name, (statements, fault) in TAMPERING.items():
        expected = (5, ALTERED) if name == "another order" and log.kind == "postgresql" else fault
        assert fault_after(log, *statements) == expected, name
    assert verdict(log).fault is None


def test_an_inserted_entry_is_detected(log: Database) -> None:
    row = fetch_row(log, select(audit_log).where(ID == 10)) | {"id": 11}
    forged = row | {"target": "forged"}
    # The sealer digests the id as well.
    of_copy = MOVED if log.kind == "sqlite" else ALTERED
    without_hashes = forged | {"hash": None, "previous_hash": None}
    for inserted, reason in ((without_hashes, UNCHAINED), (forged, ALTERED), (row, of_copy)):
        assert fault_after(log, insert(audit_log).values(inserted)) == (11, reason)


def test_an_entry_chained_with_another_key_is_detected(log: Database) -> None:
    entry = fetch_row(log, select(audit_log).where(ID == 4)) | {"target": "other"}
    forged = digest(key_of(b"another platform's secret"), entry["previous_hash"], entry)
    assert fault_after(log, FOURTH.values(target="other", hash=forged)) == (4, ALTERED)


@pytest.mark.parametrize(
    "tampered",
    [delete(audit_head), update(audit_head).values(entries=3), update(audit_head).values(seal="é" * 64)],
    ids=["gone", "other", "seal of other letters"],
)
def test_a_tampered_head_is_not_replaced_and_ends_the_log(log: Database, tampered: Any) -> None:
    execute(log, tampered)
    chain.initialize_chain(log, SECRET, NOW, rolling=False)
    how = "is missing" if tampered.is_delete else "was not written by this platform"
    assert fault_of(log) == (None, f"the end of the audit log's chain {how}")
    with pytest.raises(ChainBroken):
        write_entry(log)
    assert len(fetch(log, select(ID))) == 10


def test_a_change_and_its_entries_are_one(log: Database, database_url: str) -> None:
    with pytest.raises(ZeroDivisionError), log.write() as connection:  # noqa: PT012 - a change that fails at its end
        record(connection)
        raise ZeroDivisionError
    with log.write() as connection:
        for target in "abc":
            record(connection, target)
    assert (verdict(log).entries, verdict(log).fault) == (13, None)
    assert fetch_scalars(log, select(audit_log.c.target).order_by(ID.desc()).limit(4)) == ["c", "b", "a", "thing:9"]
    # Without the hooks of an audit log an entry is refused.
    with closing(Database(database_url)) as plain, pytest.raises(LookupError):
        write_entry(plain)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(-1e15, 1e15, allow_nan=False)
    | st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abü", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=25)
@example(details={"large": 1e22, "whole": 2.0, "zero": -0.0, "small": 1e-7})
@given(details=st.dictionaries(st.text("kä", min_size=1, max_size=4), VALUES, max_size=4))
def test_an_entry_reads_back_as_it_was_digested(chained: Database, details: dict[str, Any]) -> None:
    """JSONB keeps neither the order of members nor the kind of a number."""
    write_entry(chained, **{f"_{name}": value for name, value in details.items()})
    assert verdict(chained).fault is None


@pytest.fixture(scope="module", params=KINDS)
def chained(request: pytest.FixtureRequest, new_database_url: NewDatabaseUrl) -> Iterator[Database]:
    with closing(audited(new_database_url(request.param, True))) as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_entries_of_an_older_version_are_chained_once(kind: str, new_database_url: NewDatabaseUrl) -> None:
    url = new_database_url(kind, True)
    database, *replicas = (Database(url) for _ in range(4))
    with database.write() as connection:
        connection.execute(insert(audit_log), [entry(f"t:{n}") for n in range(BATCH_SIZE + 5)])
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda replica: chain.initialize_chain(replica, SECRET, NOW, rolling=False), replicas))
    result = verdict(database)
    assert (result.entries, result.fault, result.began_at) == (BATCH_SIZE + 5, None, NOW)
    execute(database, update(audit_log).where(ID == BATCH_SIZE + 2).values(target="other"))
    assert fault_of(database) == (BATCH_SIZE + 2, ALTERED)
    for one in (database, *replicas):
        one.close()


@pytest.mark.parametrize(
    ("rolling", "unchained_hours", "later_hours", "bad"),
    [(True, 1, 0, False), (True, 25, 0, True), (False, 1, 0, True), (True, 0, 48, True)],
    ids=["in time", "late", "not rolling", "backdated"],
)
def test_unchained_entries_are_accepted_for_a_day_after_a_rolling_upgrade(
    database_url: str, rolling: bool, unchained_hours: int, later_hours: int, bad: bool
) -> None:
    with closing(Database(database_url)) as database:
        chain.initialize_chain(database, SECRET, NOW, rolling=rolling)
        chain.install_audit_hooks(database, SECRET)
        write_entry(database, at=NOW + timedelta(hours=later_hours))
        old = entry("old replica", NOW + timedelta(hours=unchained_hours))
        execute(database, insert(audit_log).values(old))
        write_entry(database, at=NOW + timedelta(hours=later_hours))
        result = verdict(database)
        assert (result.entries, result.unchained) == (2, not bad)
        assert (result.fault and (result.fault.id, result.fault.reason)) == ((2, UNCHAINED) if bad else None)


@pytest.mark.parametrize("kind", KINDS)
def test_only_postgresql_accepts_unchained_entries_after_an_upgrade(
    kind: str, new_database_url: NewDatabaseUrl, tmp_path: Path
) -> None:
    url = new_database_url(kind, False)
    with closing(Database(url)) as database:
        # An upgrade returns the revision before it.
        assert [migrate.upgrade(database, "0006") for _ in range(2)] == [None, "0006"]
    arguments = ["--data-dir", str(tmp_path), "--database", url, "--world", "empty"]
    with closing(open_platform(from_arguments(arguments, {})).database) as database:
        [until] = fetch_scalars(database, select(audit_head.c.unchained_until))
    assert (until is not None) == (kind == "postgresql")


@pytest.fixture(params=KINDS)
def older(request: pytest.FixtureRequest, new_database_url: NewDatabaseUrl) -> Iterator[Database]:
    """A database of revision 0014 with a chain of five entries."""
    with closing(Database(new_database_url(request.param, False))) as database:
        migrate.upgrade(database, "0014")
        head = {"entries": 0, "hash": GENESIS_HASH, "began_at": NOW, "unchained_until": None}
        with database.write() as connection:
            connection.execute(insert(audit_head).values(id=1, **head, seal=head_mac(KEY, head)))
            for number in range(5):
                append_as_before(connection, entry(str(number), NOW))
        yield database


def test_a_chain_is_verified_before_an_upgrade_and_goes_on_after_it(older: Database) -> None:
    """A restore verifies the chain of a backup before its database is upgraded."""

    def require_verified(entries: int) -> None:
        """An altered entry is detected, and nothing after it was put back."""
        for outcome, reason in (("other", ALTERED), ("x", None)):
            execute(older, update(audit_log).where(audit_log.c.target == "3").values(outcome=outcome))
            result = verdict(older, sealed=False)
            assert (result.fault and result.fault.reason) == reason
        assert result.entries == entries

    require_verified(5)
    migrate.upgrade(older)
    require_verified(5)
    chain.initialize_chain(older, SECRET, NOW, rolling=False)
    chain.install_audit_hooks(older, SECRET)
    write_entry(older, "new")
    seal(older)
    require_verified(6)
    rows = fetch(older, select(audit_log.c.sequence, audit_log.c.target).order_by(audit_log.c.id))
    assert rows == [*((number + 1, str(number)) for number in range(5)), (6, "new")]
    with older.read() as connection:
        exported = export_segment(connection, KEY, after=0, before=NOW + timedelta(days=1))
    assert exported
    assert (exported[0].first, exported[0].last) == (1, 6)

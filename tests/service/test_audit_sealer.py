"""The sealer of the audit log on PostgreSQL."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete, insert, select, text, update

from service.audit import chain
from service.audit.sealer import Sealer, SealerLimits, insert_unsealed, seal_batch
from service.audit.seals import ENTRY_FIELDS, ChainBroken, entry_mac, key_of
from service.audit.verification import REFUSED, UNCHAINED
from service.db import dialect
from service.db.dialect import Busy
from service.db.engine import Database
from service.db.tables import audit_head, audit_log
from tests.service.audited import KEY, NOW, SECRET, append_as_before, audited, record, seal, verdict, write_entry
from tests.service.factories import entry
from tests.service.queries import execute, fetch, fetch_scalars, listening
from tests.waiting import until

NEVER = 3_600.0


@pytest.fixture
def url(new_database_url: Callable[[str, bool], str]) -> str:
    return new_database_url("postgresql", True)


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    """A database without a running sealer."""
    with closing(audited(url)) as opened:
        yield opened


@pytest.fixture
def other(url: str, database: Database) -> Iterator[Database]:
    with closing(audited(url)) as opened:
        yield opened


def write_three(database: Database) -> None:
    for number in range(3):
        write_entry(database, str(number))


def counts(database: Database) -> tuple[int, int, Any]:
    """Return the numbers of sealed and of unsealed entries, and the fault."""
    result = verdict(database, sealed=False)
    return result.entries, result.unsealed, result.fault


def refused(database: Database) -> tuple[int, int | None, str]:
    """Return the number of sealed entries, and the id and reason of the first bad one."""
    entries, _, fault = counts(database)
    assert fault
    return entries, fault.id, fault.reason


def targets(database: Database) -> list[str]:
    """Return the targets of the sealed entries, in the order of the chain."""
    query = select(audit_log.c.target).where(audit_log.c.sequence.is_not(None)).order_by(audit_log.c.sequence)
    return fetch_scalars(database, query)


@contextmanager
def statements(database: Database) -> Iterator[list[str]]:
    executed = list[str]()
    with listening(database, lambda *event: executed.append(event[2])):
        yield executed


def sealing(
    database: Database, *, delay_seconds: float = 0, poll_seconds: float = NEVER, limits: SealerLimits = SealerLimits()
) -> Sealer:
    return Sealer(database, SECRET, delay_seconds=delay_seconds, poll_seconds=poll_seconds, limits=limits)


@contextmanager
def running(*started: Sealer) -> Iterator[None]:
    for one in started:
        one.start()
    yield
    for one in started:
        one.stop()


def test_changes_neither_lock_the_head_nor_wait_for_each_other(database: Database, other: Database) -> None:
    with database.write() as holder:
        insert_unsealed(holder, KEY, [entry("slow")])
        holder.execute(select(audit_head).with_for_update())
        with statements(other) as executed, other.write() as connection:
            connection.execute(text("SET LOCAL lock_timeout = '10ms'"))
            record(connection, "fast")
    assert [statement.split(" ")[0] for statement in executed] == ["SET", "SELECT", "INSERT"]
    assert counts(database) == (0, 2, None)


def test_an_entry_that_commits_after_one_with_a_higher_id_is_sealed(database: Database, other: Database) -> None:
    with database.write() as holder:
        insert_unsealed(holder, KEY, [entry("first id")])
        write_entry(other, "second id")
        seal(other)
    assert (targets(database), counts(database)[1]) == (["second id"], 1)
    seal(database)
    assert targets(database) == ["second id", "first id"]
    assert counts(database) == (2, 0, None)


def test_an_entry_that_is_altered_before_its_seal_is_detected(database: Database) -> None:
    log, sealed = audit_log.c, 0
    changes = dict.fromkeys((*ENTRY_FIELDS, "mac"), "0")
    for column, value in (changes | {"at": NOW + timedelta(microseconds=1), "details": {"n": 2}, "id": 99}).items():
        write_three(database)
        _, second, _ = fetch(database, select(audit_log).where(log.sequence.is_(None)).order_by(log.id))
        bad = value if column == "id" else second.id
        execute(database, update(audit_log).where(log.id == second.id).values({column: value}))
        assert refused(database) == (sealed, bad, REFUSED), column
        seal(database)
        # The others do not wait for it.
        assert refused(database) == (sealed + 2, bad, REFUSED), column
        execute(database, update(audit_log).where(log.id == bad).values(dict(second._mapping)))
        seal(database)
        sealed += 3
        assert counts(database) == (sealed, 0, None)


def test_an_inserted_or_copied_entry_is_detected_and_not_sealed(database: Database) -> None:
    write_entry(database)
    [row] = fetch(database, select(audit_log))
    copy, remove = insert(audit_log).values(dict(row._mapping) | {"id": 7}), delete(audit_log).where(audit_log.c.id > 1)
    execute(database, copy)
    seal(database)
    assert refused(database) == (1, 7, REFUSED)
    forged = {"id": 2, **entry("forged")}
    execute(database, remove, insert(audit_log).values({**forged, "mac": entry_mac(key_of(b"other"), forged)}))
    seal(database)
    assert refused(database) == (1, 2, REFUSED)
    execute(database, update(audit_log).where(audit_log.c.id == 2).values(mac=None, previous_hash=None))
    assert refused(database) == (1, 2, UNCHAINED)
    # A sealed entry does not become an unsealed one.
    unsealed = {"mac": row.mac, "sequence": None, "hash": None, "previous_hash": None}
    execute(database, remove, update(audit_log).values(unsealed))
    assert counts(database)[2]
    write_entry(database, "b")
    seal(database)
    assert counts(database)[2]
    execute(database, update(audit_head).values(seal="0" * 64))
    with pytest.raises(ChainBroken):
        seal_batch(database, KEY)


def test_concurrent_sealers_make_one_chain(url: str, database: Database, other: Database) -> None:
    limits = SealerLimits(batch_entries=3)
    opened = [database, other, audited(url)]

    def change(number: int) -> None:
        for turn in range(20):
            write_entry(opened[number], f"{number}:{turn}")

    sealers = [sealing(one, limits=limits) for one in opened]
    with running(*sealers), ThreadPoolExecutor(3) as threads:
        list(threads.map(change, range(3)))
    seal(database)
    assert counts(database) == (60, 0, None)
    # A writer's entries are in their order.
    assert [target for target in targets(database) if target[0] == "1"] == [f"1:{turn}" for turn in range(20)]
    opened[2].close()
    # One sealer works at a time.
    write_entry(database)
    with database.write() as connection:
        assert dialect.try_sealer_lock(connection)
        assert seal_batch(other, KEY) is None
    assert seal_batch(other, KEY)


@pytest.mark.parametrize("statement", ["UPDATE audit_log", "UPDATE audit_head", "COMMIT"])
def test_a_sealer_that_dies_loses_nothing_and_a_removed_entry_leaves_no_gap(
    database: Database, other: Database, statement: str
) -> None:
    write_three(database)

    def die(*executed: Any) -> None:
        if statement == "COMMIT" or executed[2].startswith(statement):
            raise KeyboardInterrupt

    def remove(*executed: Any) -> None:
        if executed[2].startswith("UPDATE audit_log"):
            execute(other, delete(audit_log).where(audit_log.c.target == "1"))

    name = "commit" if statement == "COMMIT" else "before_cursor_execute"
    with listening(database, die, name), pytest.raises(KeyboardInterrupt):
        seal_batch(database, KEY)
    assert counts(database) == (0, 3, None)
    with listening(database, remove), pytest.raises(RuntimeError):
        seal_batch(database, KEY)
    seal(database)
    assert targets(database) == ["0", "2"]
    assert counts(database) == (2, 0, None)


def test_commits_and_polls_wake_the_sealer_and_its_stop_seals_the_rest(database: Database, other: Database) -> None:
    with running(sealing(database)):
        write_entry(database, "first")
        until(lambda: counts(database) == (1, 0, None))
        write_entry(database, "second")
        until(lambda: counts(database) == (2, 0, None))
    with running(sealing(database, delay_seconds=NEVER)):
        write_three(database)
    assert targets(database) == ["first", "second", "0", "1", "2"]
    # The sealer finds the entries of a process that was killed, too.
    with running(sealing(database, poll_seconds=0.05)):
        write_entry(other, "killed")
        until(lambda: counts(database) == (6, 0, None))


def test_an_entry_that_commits_while_the_sealer_stops_is_sealed(database: Database) -> None:
    looked, go_on = threading.Event(), threading.Event()

    def hold(*executed: Any) -> None:
        if threading.current_thread().name == "audit sealer" and not looked.is_set():
            looked.set()
            go_on.wait(60)

    one = sealing(database)
    with listening(database, hold, "after_cursor_execute"):
        one.start()
        assert looked.wait(60)
        write_entry(database)
        stopping = threading.Thread(target=one.stop)
        stopping.start()
        until(one._stopping.is_set)
        go_on.set()
        stopping.join()
    assert targets(database) == ["t"]


def test_an_entry_that_commits_late_is_sealed(database: Database, other: Database) -> None:
    with running(sealing(database, poll_seconds=0.5, limits=SealerLimits(margin_ids=0))):
        with other.write() as holder:
            insert_unsealed(holder, KEY, [entry("late")])
            for number in range(3):
                write_entry(database, str(number))
                until(lambda: counts(database)[1] == 0)

        def is_late_entry_sealed() -> bool:
            # With further commits the sealer never waits for a poll.
            write_entry(database, "later")
            return "late" in targets(database)

        until(is_late_entry_sealed)
    assert counts(database)[2] is None


def test_a_sealer_continues_after_an_error(database: Database) -> None:
    limits = SealerLimits(failure_seconds=0.01)
    failed = threading.Event()

    def fail(*executed: Any) -> None:
        if executed[2].startswith("UPDATE audit_head") and not failed.is_set():
            failed.set()
            raise RuntimeError("the disk is full")

    with listening(database, fail), running(sealing(database, limits=limits)):
        write_entry(database)
        assert failed.wait(60)
        until(lambda: counts(database)[0] == 1)


def test_an_idle_sealer_writes_nothing_and_asks_once_a_poll(database: Database) -> None:
    polled = threading.Semaphore(0)
    polls = listening(database, lambda *_: polled.release(), "checkin")
    with statements(database) as executed, polls, running(sealing(database, poll_seconds=0.01)):
        for _ in range(10):
            assert polled.acquire(timeout=60)
    assert 10 <= len(executed) <= 12
    assert {statement.split(" ")[0] for statement in executed} == {"SELECT"}
    assert not [statement for statement in executed if "lock" in statement.lower()]
    one = sealing(database)
    with running(one):
        until(lambda: not one._wake.is_set())
        assert chain.can_append(database, SECRET)
        with pytest.raises(ZeroDivisionError), database.write() as connection:  # noqa: PT012 - it fails at its end
            record(connection)
            raise ZeroDivisionError
        assert not one._wake.is_set(), "a rolled-back change and readiness do not wake it"


def test_a_log_that_is_locked_or_broken_is_not_writable(database: Database, other: Database) -> None:
    assert chain.can_append(database, SECRET)
    with other.write() as connection:
        dialect.lock_table(connection, audit_log)
        with pytest.raises(Busy):
            chain.can_append(database, SECRET)
    assert counts(database)[1] == 0
    execute(other, text("ALTER TABLE audit_log ADD CONSTRAINT full_disk CHECK (mac IS NULL) NOT VALID"))
    assert not chain.can_append(database, SECRET)
    execute(other, update(audit_head).values(entries=9))
    with pytest.raises(ChainBroken):
        chain.can_append(database, SECRET)


def test_replicas_of_the_release_before_append_to_the_same_chain(database: Database) -> None:
    for number in range(4):
        write_entry(database, f"new {number}")
        for turn in range(2):
            with database.write() as connection:
                append_as_before(connection, entry(f"old {number} {turn}"))
        # Entries without a number follow the numbered ones.
        assert counts(database)[1:] == (1, None)
        seal(database)
        assert counts(database)[1:] == (0, None)
    assert targets(database) == [
        target for number in range(4) for target in (f"old {number} 0", f"old {number} 1", f"new {number}")
    ]
    execute(database, update(audit_log).where(audit_log.c.target == "old 2 0").values(outcome="other"))
    assert counts(database)[2]


def test_an_old_chain_is_numbered_in_batches(database: Database) -> None:
    limits = SealerLimits(numbered_entries=3)
    for number in range(10):
        with database.write() as connection:
            append_as_before(connection, entry(str(number)))
    write_entry(database, "new")
    assert counts(database) == (10, 1, None)
    batch = seal_batch(database, KEY, limits=limits)
    assert batch
    assert batch.is_full
    assert targets(database) == ["0", "1", "2"]
    assert counts(database) == (10, 1, None)
    with running(sealing(database, limits=limits)):
        pass
    assert targets(database) == [*map(str, range(10)), "new"]
    assert counts(database)[2] is None

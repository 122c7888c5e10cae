"""The sealer of the audit log on PostgreSQL."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import delete, event, insert, select, text, update

from service.audit import chain, entries, sealer
from service.audit.entries import AuditEvent
from service.audit.sealer import Sealer, insert_unsealed, seal_all, seal_batch
from service.audit.seals import ENTRY_FIELDS, ChainBroken, entry_mac, key_of
from service.audit.verification import REFUSED, UNCHAINED, Verification, verify
from service.db import dialect
from service.db.dialect import Busy
from service.db.engine import Database
from service.db.tables import audit_head, audit_log
from service.principal import PLATFORM
from tests.service.audited import SECRET, append_as_before, audited
from tests.service.planned import until
from tests.service.running import OWNER, STAGING, Running

NOW = datetime(2026, 3, 1, 12, 0, 0, 123_456, tzinfo=UTC)
KEY = key_of(SECRET)
NEVER = 3_600.0


@pytest.fixture
def url(new_database_url: Callable[[str, bool], str]) -> str:
    return new_database_url("postgresql", True)


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    """A database without a running sealer."""
    opened = audited(url)
    yield opened
    opened.close()


@pytest.fixture
def other(url: str, database: Database) -> Iterator[Database]:
    """The same, as another process opens it."""
    opened = audited(url)
    yield opened
    opened.close()


def write(database: Database, target: str = "t", at: datetime = NOW) -> None:
    with database.write() as connection:
        entries.record(connection, PLATFORM, event=AuditEvent.PLATFORM_STOP, target=target, at=at)


def write_three(database: Database) -> None:
    for number in range(3):
        write(database, str(number))


def entry(target: str) -> dict[str, Any]:
    return dict.fromkeys(ENTRY_FIELDS, "x") | {"at": NOW, "details": {"n": 1.0}, "target": target}


def verdict(database: Database) -> Verification:
    with database.read() as connection:
        return verify(connection, KEY)


def counts(database: Database) -> tuple[int, int, Any]:
    """Return the numbers of sealed and of unsealed entries, and the fault."""
    result = verdict(database)
    return result.entries, result.unsealed, result.fault


def refused(database: Database) -> tuple[int, int | None, str]:
    """Return the number of sealed entries, and the id and reason of the first bad one."""
    result = verdict(database)
    assert result.fault
    return result.entries, result.fault.id, result.fault.reason


def targets(database: Database) -> list[str]:
    """Return the targets of the sealed entries, in the order of the chain."""
    query = select(audit_log.c.target).where(audit_log.c.sequence.is_not(None)).order_by(audit_log.c.sequence)
    with database.read() as connection:
        return list(connection.scalars(query))


@contextmanager
def listener(database: Database, notice: Callable[..., None], name: str = "before_cursor_execute") -> Iterator[None]:
    event.listen(database.engine, name, notice)
    yield
    event.remove(database.engine, name, notice)


@contextmanager
def statements(database: Database) -> Iterator[list[str]]:
    noted = list[str]()
    with listener(database, lambda *executed: noted.append(executed[2])):
        yield noted


@contextmanager
def running(*started: Sealer) -> Iterator[None]:
    for one in started:
        one.start()
    yield
    for one in started:
        one.stop()


def test_a_change_inserts_its_entries_with_two_statements(database: Database) -> None:
    with statements(database) as noted:
        write(database)
    assert [statement.split(" ")[0] for statement in noted] == ["SELECT", "INSERT"]
    assert not [statement for statement in noted if "FOR UPDATE" in statement]


def test_changes_do_not_wait_for_each_other(database: Database, other: Database) -> None:
    with database.write() as holder:
        insert_unsealed(holder, KEY, [entry("slow")])
        holder.execute(select(audit_head).with_for_update())
        with other.write() as connection:
            connection.execute(text("SET LOCAL lock_timeout = '10ms'"))
            entries.record(connection, PLATFORM, event=AuditEvent.PLATFORM_STOP, target="fast", at=NOW)
    assert counts(database) == (0, 2, None)


def test_an_entry_that_commits_after_one_with_a_higher_id_is_sealed(database: Database, other: Database) -> None:
    with database.write() as holder:
        insert_unsealed(holder, KEY, [entry("first id")])
        write(other, "second id")
        seal_all(other, SECRET)
    assert (targets(database), verdict(database).unsealed) == (["second id"], 1)
    seal_all(database, SECRET)
    assert targets(database) == ["second id", "first id"]
    assert counts(database) == (2, 0, None)


@pytest.mark.parametrize("column", [*ENTRY_FIELDS, "id", "mac"])
def test_an_entry_that_is_altered_before_its_seal_is_detected(database: Database, column: str) -> None:
    write_three(database)
    value = {"at": NOW + timedelta(microseconds=1), "details": {"n": 2}, "id": 99}.get(column, "0")
    with database.write() as connection:
        connection.execute(update(audit_log).where(audit_log.c.id == 2).values({column: value}))
    bad = value if column == "id" else 2
    for _ in range(2):
        assert refused(database)[1:] == (bad, REFUSED)
        seal_all(database, SECRET)
        # The others do not wait for it.
        assert targets(database) == ["0", "2"]
    write(database, "after")
    seal_all(database, SECRET)
    assert targets(database) == ["0", "2", "after"]


def test_an_inserted_entry_is_detected_and_not_sealed(database: Database) -> None:
    write(database)
    forged = {"id": 2, **entry("forged")}
    with database.write() as connection:
        connection.execute(insert(audit_log).values({**forged, "mac": entry_mac(key_of(b"other"), forged)}))
    seal_all(database, SECRET)
    assert refused(database) == (1, 2, REFUSED)
    with database.write() as connection:
        connection.execute(update(audit_log).where(audit_log.c.id == 2).values(mac=None, previous_hash=None))
    assert refused(database) == (1, 2, UNCHAINED)


@pytest.mark.parametrize("sealed", [True, False])
def test_a_copy_of_an_entry_that_was_not_sealed_is_detected(database: Database, sealed: bool) -> None:
    write(database)
    with database.read() as connection:
        row = dict(connection.execute(select(audit_log)).one()._mapping)
    if sealed:
        seal_all(database, SECRET)
    with database.write() as connection:
        connection.execute(insert(audit_log).values(row | {"id": 7}))
    seal_all(database, SECRET)
    assert refused(database) == (1, 7, REFUSED)


def test_a_sealed_entry_cannot_become_an_unsealed_one(database: Database) -> None:
    write(database, "a")
    with database.read() as connection:
        mac = connection.scalar(select(audit_log.c.mac))
    seal_all(database, SECRET)
    with database.write() as connection:
        connection.execute(update(audit_log).values(mac=mac, sequence=None, hash=None, previous_hash=None))
    assert verdict(database).fault
    write(database, "b")
    seal_all(database, SECRET)
    assert verdict(database).fault


# Sealers


def test_one_sealer_works_at_a_time(database: Database, other: Database) -> None:
    write(database)
    with database.write() as connection:
        assert dialect.try_sealer_lock(connection)
        assert seal_batch(other, KEY) is None
    assert seal_batch(other, KEY)
    assert verdict(database).entries == 1


def test_concurrent_sealers_and_writers_make_one_chain(
    url: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealer, "BATCH_ENTRIES", 3)
    opened = [audited(url) for _ in range(3)]

    def change(number: int) -> None:
        for turn in range(20):
            write(opened[number], f"{number}:{turn}")

    sealers = [Sealer(one, SECRET, delay_seconds=0, poll_seconds=NEVER) for one in opened]
    with running(*sealers), ThreadPoolExecutor(3) as threads:
        list(threads.map(change, range(3)))
    seal_all(database, SECRET)
    assert counts(database) == (60, 0, None)
    # A writer's entries are in their order.
    assert [target for target in targets(database) if target[0] == "1"] == [f"1:{turn}" for turn in range(20)]
    for one in opened:
        one.close()


@pytest.mark.parametrize("statement", ["UPDATE audit_log", "UPDATE audit_head", "COMMIT"])
def test_a_sealer_that_dies_loses_nothing(database: Database, statement: str) -> None:
    write_three(database)

    def die(*noted: Any) -> None:
        if statement == "COMMIT" or noted[2].startswith(statement):
            raise KeyboardInterrupt

    name = "commit" if statement == "COMMIT" else "before_cursor_execute"
    with listener(database, die, name), pytest.raises(KeyboardInterrupt):
        seal_batch(database, KEY)
    assert counts(database) == (0, 3, None)
    seal_all(database, SECRET)
    assert counts(database) == (3, 0, None)


def test_an_entry_that_is_removed_while_it_is_sealed_leaves_no_gap(database: Database, other: Database) -> None:
    write_three(database)

    def remove(*noted: Any) -> None:
        if noted[2].startswith("UPDATE audit_log"):
            with other.write() as connection:
                connection.execute(delete(audit_log).where(audit_log.c.target == "1"))

    with listener(database, remove), pytest.raises(RuntimeError):
        seal_batch(database, KEY)
    seal_all(database, SECRET)
    assert targets(database) == ["0", "2"]
    assert verdict(database).fault is None


def test_nothing_is_sealed_after_a_forged_head(database: Database) -> None:
    write(database)
    with database.write() as connection:
        seal = connection.scalar(select(audit_head.c.seal))
        connection.execute(update(audit_head).values(seal="0" * 64))
    with pytest.raises(ChainBroken):
        seal_batch(database, KEY)
    with pytest.raises(ChainBroken):
        write(database)
    with database.write() as connection:
        connection.execute(update(audit_head).values(seal=seal))
    seal_all(database, SECRET)
    assert counts(database) == (1, 0, None)


# The thread


def test_a_commit_wakes_the_sealer(database: Database) -> None:
    with running(Sealer(database, SECRET, delay_seconds=0, poll_seconds=NEVER)):
        for number in range(3):
            write(database, str(number))
            until(lambda: verdict(database).unsealed == 0)
    assert targets(database) == ["0", "1", "2"]


def test_a_stopped_sealer_has_sealed_all_entries(database: Database) -> None:
    with running(Sealer(database, SECRET, delay_seconds=NEVER, poll_seconds=NEVER)):
        write_three(database)
    assert targets(database) == ["0", "1", "2"]


def test_an_entry_that_commits_while_the_sealer_stops_is_sealed(database: Database) -> None:
    looked, go_on = threading.Event(), threading.Event()

    def hold(*noted: Any) -> None:
        if threading.current_thread().name == "audit sealer" and not looked.is_set():
            looked.set()
            go_on.wait(60)

    one = Sealer(database, SECRET, delay_seconds=0, poll_seconds=NEVER)
    with listener(database, hold, "after_cursor_execute"):
        one.start()
        assert looked.wait(60)
        write(database)
        stopping = threading.Thread(target=one.stop)
        stopping.start()
        until(one._stopping.is_set)
        go_on.set()
        stopping.join()
    assert targets(database) == ["t"]


def test_entries_of_a_killed_process_are_sealed_by_another(database: Database, other: Database) -> None:
    with running(Sealer(database, SECRET, delay_seconds=0, poll_seconds=0.05)):
        write(other, "killed")
        until(lambda: verdict(database).entries == 1)


def test_an_entry_that_commits_long_after_its_id_was_taken_is_sealed(
    database: Database, other: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealer, "MARGIN_IDS", 0)
    with running(Sealer(database, SECRET, delay_seconds=0, poll_seconds=0.5)):
        with other.write() as holder:
            insert_unsealed(holder, KEY, [entry("late")])
            for number in range(3):
                write(database, str(number))
                until(lambda: verdict(database).unsealed == 0)

        def is_late_entry_sealed() -> bool:
            # With further commits the sealer never waits for a poll.
            write(database, "later")
            return "late" in targets(database)

        until(is_late_entry_sealed)
    assert verdict(database).fault is None


def test_a_sealer_continues_after_an_error(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealer, "FAILURE_SECONDS", 0.01)
    failed = threading.Event()

    def fail(*noted: Any) -> None:
        if noted[2].startswith("UPDATE audit_head") and not failed.is_set():
            failed.set()
            raise RuntimeError("the disk is full")

    with listener(database, fail), running(Sealer(database, SECRET, delay_seconds=0, poll_seconds=NEVER)):
        write(database)
        assert failed.wait(60)
        until(lambda: verdict(database).entries == 1)


def test_an_idle_sealer_writes_nothing_and_asks_once_a_poll(database: Database) -> None:
    polled = threading.Semaphore(0)
    with statements(database) as noted:
        event.listen(database.engine, "checkin", lambda *_: polled.release())
        with running(Sealer(database, SECRET, delay_seconds=0, poll_seconds=0.01)):
            for _ in range(10):
                assert polled.acquire(timeout=60)
    assert 10 <= len(noted) <= 12
    assert {statement.split(" ")[0] for statement in noted} == {"SELECT"}
    assert not [statement for statement in noted if "lock" in statement.lower()]


def test_a_rolled_back_change_and_readiness_do_not_wake_the_sealer(database: Database) -> None:
    one = Sealer(database, SECRET, delay_seconds=0, poll_seconds=NEVER)
    with running(one):
        until(lambda: not one._wake.is_set())
        assert chain.can_append(database, SECRET)
        with pytest.raises(ZeroDivisionError), database.write() as connection:  # noqa: PT012 - it fails at its end
            entries.record(connection, PLATFORM, event=AuditEvent.PLATFORM_STOP, target="t", at=NOW)
            raise ZeroDivisionError
        assert not one._wake.is_set()
    assert verdict(database).entries == 0


def test_sqlite_needs_no_sealer(new_database_url: Callable[[str, bool], str]) -> None:
    opened = audited(new_database_url("sqlite", True))
    with running(Sealer(opened, SECRET)):
        write(opened)
        assert verdict(opened).entries == 1
    opened.close()


# Readiness


def test_a_log_that_is_locked_or_broken_is_not_writable(database: Database, other: Database) -> None:
    assert chain.can_append(database, SECRET)
    with other.write() as connection:
        dialect.lock_table(connection, audit_log)
        with pytest.raises(Busy):
            chain.can_append(database, SECRET)
    assert verdict(database).unsealed == 0
    with other.write() as connection:
        connection.execute(text("ALTER TABLE audit_log ADD CONSTRAINT full_disk CHECK (mac IS NULL) NOT VALID"))
    assert not chain.can_append(database, SECRET)
    with other.write() as connection:
        connection.execute(update(audit_head).values(entries=9))
    with pytest.raises(ChainBroken):
        chain.can_append(database, SECRET)


# Beside a replica of the release before, which chains its entries itself


def test_replicas_of_the_release_before_append_to_the_same_chain(database: Database) -> None:
    for number in range(4):
        write(database, f"new {number}")
        for turn in range(2):
            with database.write() as connection:
                append_as_before(connection, entry(f"old {number} {turn}"))
        # Entries without a number follow the numbered ones.
        assert (verdict(database).unsealed, verdict(database).fault) == (1, None)
        seal_all(database, SECRET)
        assert (verdict(database).unsealed, verdict(database).fault) == (0, None)
    assert targets(database) == [
        target for number in range(4) for target in (f"old {number} 0", f"old {number} 1", f"new {number}")
    ]
    with database.write() as connection:
        connection.execute(update(audit_log).where(audit_log.c.target == "old 2 0").values(outcome="other"))
    assert verdict(database).fault


def test_a_chain_of_the_release_before_is_numbered_in_batches(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealer, "NUMBERED_ENTRIES", 3)
    for number in range(10):
        with database.write() as connection:
            append_as_before(connection, entry(str(number)))
    write(database, "new")
    assert counts(database) == (10, 1, None)
    batch = seal_batch(database, KEY)
    assert batch
    assert batch.is_full
    assert targets(database) == ["0", "1", "2"]
    assert counts(database) == (10, 1, None)
    with running(Sealer(database, SECRET, delay_seconds=0, poll_seconds=NEVER)):
        pass
    assert targets(database) == [*map(str, range(10)), "new"]
    assert verdict(database).fault is None


# A platform


@pytest.mark.slow
def test_a_killed_platform_loses_no_entry(url: str) -> None:
    renamed = list[str]()
    with Running(url) as platform:
        platform.token(OWNER)

        def rename(name: str) -> None:
            path = f"/api/v1/tenants/{STAGING}"
            if platform.ask("PATCH", path, as_=OWNER, body={"displayName": name}).status == 200:
                renamed.append(name)

        for turn in range(3):
            with ThreadPoolExecutor(4) as threads:
                done = [threads.submit(rename, f"{turn} {number}") for number in range(40)]
                until(lambda before=len(renamed): len(renamed) > before + 5)  # type: ignore[misc]
                platform.kill()
            assert [one.exception() for one in done if one.exception()] or len(renamed)
            platform.start()
        until(lambda: platform.get("/api/v1/platform/audit/verify").json()["unsealed"] == 0)
        assert platform.get("/api/v1/platform/audit/verify").json()["ok"]
        database = Database(url)
        with database.read() as connection:
            query = select(audit_log.c.details).where(audit_log.c.operation == "tenant.rename")
            logged = repr(connection.execute(query).all())
        database.close()
    assert all(repr(name) in logged for name in renamed)

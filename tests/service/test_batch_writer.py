"""The thread that writes batches of what requests gather in memory, such as the last use of credentials."""

import logging
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Connection, delete, event, insert, select, update
from sqlalchemy.exc import OperationalError

from service.authn.credential_use import CredentialUse
from service.db import tables
from service.db.batch_writer import BatchWriter
from service.db.engine import Database
from service.db.tables import platform_state
from service.principal import Principal
from tests.service import factories
from tests.service.conftest import KINDS, DemoUrl
from tests.service.inside import Inside
from tests.service.queries import execute, fetch, fetch_scalars
from tests.service.running import Running
from tests.waiting import until


class Source:
    def __init__(self, *names: str, error: Exception | None = None) -> None:
        self.names, self.error = list(names), error

    def drain(self) -> list[str]:
        names, self.names = self.names, []
        return names

    def write(self, connection: Connection, batch: list[str]) -> None:
        connection.execute(insert(platform_state), [{"name": name, "value": ""} for name in batch])
        if self.error:
            raise self.error

    def put_back(self, batch: list[str]) -> None:
        self.names += batch


def written(database: Database) -> set[str]:
    return {*fetch_scalars(database, select(platform_state.c.name))} & {"a", "b", "c"}


def test_the_thread_runs_tasks_and_writes_and_the_stop_writes_the_rest(database: Database) -> None:
    runs = threading.Semaphore(0)

    def fail() -> None:
        runs.release()
        raise ValueError

    source = Source("a")
    writer = BatchWriter(database, [source], [(fail, 0.02)], seconds=0.01)
    writer.start()
    for _ in range(3):
        assert runs.acquire(timeout=60)
    until(lambda: written(database) == {"a"})
    source.names = ["b"]
    writer.stop()
    source.names = ["c"]
    assert written(database) == {"a", "b"}
    assert source.names == ["c"]
    # The stop does not wait for the next interval.
    writer = BatchWriter(database, [source], seconds=3_600)
    writer.start()
    writer.stop()
    assert written(database) == {"a", "b", "c"}


def test_the_stop_does_not_wait_for_a_silent_database(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    answers = threading.Event()

    class Hanging(Source):
        def write(self, connection: Connection, batch: list[str]) -> None:
            assert answers.wait(60)

    writer = BatchWriter(database, [Hanging("a")], seconds=3_600, stop_seconds=0.05)
    writer.start()
    writer.stop()
    answers.set()
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_sources_keep_their_changes_if_one_fails(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    sources = [Source("a"), Source("b", error=OperationalError("s", {}, Exception("full")))]
    writer = BatchWriter(database, sources)
    for _ in range(3):
        writer.flush()
    assert written(database) == set()
    assert [source.names for source in sources] == [["a"], ["b"]]
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1
    sources[1].error = None
    writer.flush()
    assert written(database) == {"a", "b"}


def test_an_idle_platform_runs_no_statement(inside: Inside) -> None:
    inside.get("/api/v1/me", {"X-API-Key": inside.stored_key(rate_limit=60_000)})
    inside.platform.writer.flush()
    inside.forget()
    for _ in range(120):
        inside.platform.writer.flush()
    assert inside.statements == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_stopped_platform_has_written_the_last_use(kind: str, demo_url: DemoUrl) -> None:
    query = select(tables.api_keys.c.last_used_at).where(tables.api_keys.c.name == "tenant-reader")
    with Running(demo_url(kind)) as platform, closing(Database(platform.database_url)) as database:
        secret, before = platform.key("tenant-reader"), fetch(database, query)
        assert platform.get("/api/v1/me", headers={"X-API-Key": secret}).status == 200
        platform.stop()
        assert fetch(database, query) != before
        platform.start()


NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def of_key(key_id: str, last_used_at: datetime | None = None) -> Principal:
    return Principal(kind="api_key", request_id="r", key_id=key_id, last_used_at=last_used_at)


class Uses:
    """The unused keys k1, k2 and k3 and the session s, whose uses are written in batches."""

    def __init__(self, database: Database) -> None:
        keys = [factories.api_key(f"k{number}", NOW) for number in (1, 2, 3)]
        with database.write() as connection:
            factories.add(connection, factories.seat(NOW))
            factories.add(connection, {tables.sessions: factories.session(at=NOW), tables.api_keys: keys})
        self.database, self.gathered = database, CredentialUse()
        self.flush = BatchWriter(database, [self.gathered]).flush

    def record(self, *keys: str, at: datetime = NOW) -> None:
        for key in keys:
            self.gathered.record(of_key(key), at)

    def stored(self) -> dict[str, datetime | None]:
        keys, sessions = tables.api_keys.c, tables.sessions.c
        rows = fetch(self.database, select(keys.id, keys.last_used_at))
        rows += fetch(self.database, select(sessions.id, sessions.last_seen_at))
        return dict(map(tuple, rows))


@pytest.fixture
def uses(database: Database) -> Uses:
    return Uses(database)


def test_uses_are_written_in_one_transaction(uses: Uses) -> None:
    transactions: list[object] = []
    event.listen(uses.database.engine, "commit", transactions.append)
    uses.record("k2", "k1", at=NOW + MINUTE)
    session = Principal(kind="session", request_id="r", session_id="s", last_used_at=NOW)
    uses.gathered.record(session, NOW + MINUTE)
    assert uses.stored() == {"k1": None, "k2": None, "k3": None, "s": NOW}
    for expected in (1, 0):
        transactions.clear()
        uses.flush()
        assert len(transactions) == expected
    assert uses.stored() == {"k1": NOW + MINUTE, "k2": NOW + MINUTE, "k3": None, "s": NOW + MINUTE}


def test_a_use_is_gathered_once_a_minute_and_leaves_the_memory() -> None:
    use = CredentialUse()
    recent = of_key("k1", NOW - MINUTE + timedelta(seconds=1))
    use.record(recent, NOW)
    assert use.drain() == {}
    for seconds in range(1, 62):
        at = NOW + timedelta(seconds=seconds)
        use.record(recent, at)
        assert list(use.drain().values()) == ([at] if seconds in (1, 61) else [])
    use = CredentialUse(max_recorded=10)
    for number in range(1_000):
        use.record(of_key(str(number)), NOW + timedelta(seconds=number))
        use.drain()
    assert len(use._recorded) <= 130


def test_a_locked_key_is_written_later_a_removed_one_forgotten_and_a_later_use_remains(
    uses: Uses, database_url: str
) -> None:
    keys = tables.api_keys
    uses.record("k1", "k2", "k3")
    later = update(keys).where(keys.c.id == "k3").values(last_used_at=NOW + MINUTE)
    execute(uses.database, delete(keys).where(keys.c.id == "k1"), later)
    if uses.database.kind == "postgresql":  # SQLite locks no rows.
        lock = select(keys).where(keys.c.id == "k2").with_for_update(read=True)
        with closing(Database(database_url)) as other, other.write() as connection:
            connection.execute(lock)
            uses.flush()
            assert uses.stored() == {"k2": None, "k3": NOW + MINUTE, "s": NOW}
    uses.flush()
    assert uses.stored() == {"k2": NOW, "k3": NOW + MINUTE, "s": NOW}
    assert uses.gathered.drain() == {}

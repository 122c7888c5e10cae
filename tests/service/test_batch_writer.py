"""The thread that writes what requests gather in memory."""

import logging
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import Connection, insert, select
from sqlalchemy.exc import OperationalError

from service.db.batch_writer import BatchWriter
from service.db.engine import Database
from service.db.tables import platform_state
from tests.service.conftest import KINDS, DemoUrl
from tests.service.inside import Inside
from tests.service.planned import until
from tests.service.running import Running


class Source:
    """Gathers names for `platform_state`."""

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
    with database.read() as connection:
        return set(connection.scalars(select(platform_state.c.name))) & {"a", "b", "c"}


def test_the_thread_writes_and_the_stop_writes_the_rest(database: Database) -> None:
    source = Source("a")
    writer = BatchWriter(database, [source], seconds=0.01)
    writer.start()
    until(lambda: written(database) == {"a"})
    source.names = ["b"]
    writer.stop()
    source.names = ["c"]
    assert written(database) == {"a", "b"}
    assert source.names == ["c"]


def test_the_stop_does_not_wait_for_the_next_second(database: Database) -> None:
    source = Source("a")
    writer = BatchWriter(database, [source], seconds=3_600)
    writer.start()
    writer.stop()
    assert written(database) == {"a"}


def test_the_stop_does_not_wait_for_a_database_that_does_not_answer(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    answers = threading.Event()

    class Hanging(Source):
        def write(self, connection: Connection, batch: list[str]) -> None:
            assert answers.wait(60)

    writer = BatchWriter(database, [Hanging("a")], seconds=3_600, stop_seconds=0.05)
    writer.start()
    writer.stop()
    answers.set()
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_sources_share_a_transaction_and_keep_changes_if_one_fails(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
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


def test_a_task_runs_at_its_interval_and_its_error_ends_nothing(database: Database) -> None:
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
    writer.stop()


def test_an_idle_platform_runs_no_statement(inside: Inside) -> None:
    inside.get("/api/v1/me", {"X-API-Key": inside.stored_key(rate_limit=60_000)})
    inside.platform.writer.flush()
    inside.forget()
    for _ in range(120):
        inside.platform.writer.flush()
    assert inside.statements == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_stopped_platform_has_written_the_last_use(kind: str, demo_url: DemoUrl) -> None:
    with Running(demo_url(kind)) as platform:
        secret = platform.key("tenant-reader")
        before = last_use(platform)
        assert platform.get("/api/v1/me", headers={"X-API-Key": secret}).status == 200
        platform.stop()
        assert last_use(platform) != before
        platform.start()


def last_use(platform: Running) -> Mapping[str, Any]:
    database = Database(platform.database_url)
    with database.read() as connection:
        rows = connection.exec_driver_sql("SELECT name, last_used_at FROM api_keys").all()
    database.close()
    return dict(tuple(row) for row in rows)

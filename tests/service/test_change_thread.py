"""Changes in the thread of changes: they share commits as those of other threads do."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

import pytest
from sqlalchemy import event, insert, select
from sqlalchemy.exc import DBAPIError

from service.db import group_commit
from service.db.change_thread import ChangeThread
from service.db.dialect import is_lock_timeout
from service.db.engine import Database
from service.db.group_commit import GroupCommit
from service.db.prepared import PreparedStatements
from service.db.tables import platform_state
from tests.service.audited import audited
from tests.waiting import until

TIMEOUT_SECONDS = 60
CALLER: ContextVar[str] = ContextVar("caller", default="")


@pytest.fixture
def database(new_database_url: Callable[[str, bool], str]) -> Iterator[Database]:
    opened = audited(new_database_url("sqlite", True))
    # The default is milliseconds, which a busy machine exceeds.
    opened.group_commit = GroupCommit(
        opened.engine, PreparedStatements(opened.engine.dialect), max_seconds=TIMEOUT_SECONDS
    )
    yield opened
    opened.close()


@pytest.fixture
def statements(database: Database) -> list[str]:
    recorded: list[str] = []

    def record(statement: str) -> None:
        if statement.startswith(("BEGIN", "SAVEPOINT", "ROLLBACK", "RELEASE", "COMMIT")):
            recorded.append(statement.removesuffix(" frost_change").removesuffix(" IMMEDIATE"))

    event.listen(database.engine, "connect", lambda driver, _: driver.set_trace_callback(record))
    database.engine.dispose()
    return recorded


def store(database: Database, name: str, error: Exception | None = None) -> str:
    with database.write() as connection:
        connection.execute(insert(platform_state).values(name=f"test {name}", value=CALLER.get()))
        if error is not None:
            raise error
    return name


def stored(database: Database) -> dict[str, str]:
    with database.read() as connection:
        query = select(platform_state.c.name, platform_state.c.value).where(platform_state.c.name.like("test %"))
        return dict(connection.execute(query).all())


async def run_together(database: Database, *functions: Callable[[], object]) -> list[object]:
    """Run functions that wait in the thread behind a first call; return results and errors."""
    thread, proceed = ChangeThread(), threading.Event()
    first = asyncio.create_task(thread.run(lambda _: proceed.wait(TIMEOUT_SECONDS), None))
    calls = [asyncio.create_task(thread.run(lambda function: function(), function)) for function in functions]
    await asyncio.sleep(0)
    proceed.set()
    await first
    return list(await asyncio.gather(*calls, return_exceptions=True))


async def test_changes_that_wait_share_a_commit_and_have_the_context_of_their_callers(
    database: Database, statements: list[str]
) -> None:
    thread, proceed = ChangeThread(), threading.Event()
    first = asyncio.create_task(thread.run(lambda _: proceed.wait(TIMEOUT_SECONDS), None))

    async def change(name: str) -> str:
        CALLER.set(name)
        return await thread.run(lambda name: store(database, name), name)

    calls = [asyncio.create_task(change(name)) for name in "abc"]
    await asyncio.sleep(0)
    proceed.set()
    await first
    assert await asyncio.gather(*calls) == ["a", "b", "c"]
    assert statements == ["BEGIN", *["SAVEPOINT", "RELEASE"] * 2, "COMMIT"]
    assert stored(database) == {f"test {name}": name for name in "abc"}
    assert CALLER.get() == ""


async def test_changes_of_the_thread_and_of_others_take_turns(database: Database) -> None:
    started, proceed = threading.Event(), threading.Event()

    def hold() -> None:
        with database.write() as connection:
            connection.execute(insert(platform_state).values(name="test other", value=""))
            started.set()
            assert proceed.wait(TIMEOUT_SECONDS)

    other = threading.Thread(target=hold)
    other.start()
    await asyncio.to_thread(started.wait, TIMEOUT_SECONDS)
    thread = ChangeThread()
    calls = [asyncio.create_task(thread.run(lambda name: store(database, name), name)) for name in "ab"]
    group_commit = database.group_commit
    assert group_commit is not None
    await asyncio.to_thread(until, lambda: len(group_commit._waiting) == 2, TIMEOUT_SECONDS)
    proceed.set()
    assert await asyncio.gather(*calls) == ["a", "b"]
    other.join()
    assert set(stored(database)) == {"test other", "test a", "test b"}


async def test_a_cancelled_caller_waits_for_its_change(database: Database) -> None:
    thread, started, proceed = ChangeThread(), threading.Event(), threading.Event()

    def slow(_: None) -> None:
        started.set()
        assert proceed.wait(TIMEOUT_SECONDS)
        store(database, "a")

    call = asyncio.create_task(thread.run(slow, None))
    await asyncio.to_thread(started.wait, TIMEOUT_SECONDS)
    call.cancel()
    await asyncio.sleep(0)
    assert not call.done()
    proceed.set()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert stored(database) == {"test a": ""}


async def test_a_busy_database_fails_the_changes_that_waited_for_it(
    database: Database, statements: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "BUSY_SECONDS", 0.2)
    event.listen(database.engine, "connect", lambda driver, _: driver.execute("PRAGMA busy_timeout = 200"))
    database.engine.dispose()
    other = Database(database.engine.url.render_as_string(hide_password=False))
    with other.bulk_write():
        results = await run_together(database, *[lambda name=name: store(database, name) for name in "abcdef"])
    other.close()
    assert all(isinstance(result, DBAPIError) and is_lock_timeout(result) for result in results), results
    assert stored(database) == {}
    assert statements.count("BEGIN") >= 6  # each tries again in the rest of its time
    assert await run_together(database, lambda: store(database, "a")) == ["a"]


def test_callers_of_several_event_loops_get_their_results() -> None:
    thread = ChangeThread()

    async def count(first: int) -> list[int]:
        with pytest.raises(RuntimeError, match="StopIteration"):
            await thread.run(lambda _: next(iter(())), None)
        return list(await asyncio.gather(*(thread.run(lambda number: number + 1, first + each) for each in range(50))))

    with ThreadPoolExecutor() as threads:
        results = list(threads.map(lambda first: asyncio.run(count(first)), range(0, 400, 100)))
    assert results == [[first + each + 1 for each in range(50)] for first in range(0, 400, 100)]

"""Reads on the event loop: which statements run there, their results, and the repetition in a thread."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import Connection, String, bindparam, func, insert, literal, select, text
from sqlalchemy.exc import IntegrityError, OperationalError

from client.policy.coverage import Catalogue
from client.policy.document import parse_document
from client.policy.engine import Engine, granted_rules
from service.api import protected_route
from service.api.protected_route import MAX_RULES_ON_EVENT_LOOP
from service.catalogue import operations as shipped
from service.db.engine import Database
from service.db.loop_reads import READER
from service.db.prepared import NotPreparedError, PreparedStatement, prepared
from service.db.revisions import memory_of, read_revisions
from service.db.statements import add_row, delete_rows, has_row, insert_row, update_row
from service.db.tables import resources, revisions, tenants
from tests.people import AURORA, WEB_SHOP
from tests.service.counted import TENANT, Counted
from tests.waiting import until

BY_ID = select(resources).where(resources.c.tenant_id == bindparam("tenant"), resources.c.id == bindparam("one"))
PREPARED = prepared(BY_ID)
LISTED = select(resources.c.id).where(resources.c.tenant_id == WEB_SHOP).order_by(resources.c.id)


on_sqlite = pytest.mark.parametrize("world_url", ["sqlite"], indirect=True)
on_postgresql = pytest.mark.parametrize("world_url", ["postgresql"], indirect=True)


@pytest.fixture
def database(counted: Counted) -> Database:
    return counted.platform.database


@pytest.fixture
def one(database: Database) -> dict[str, str]:
    with database.read() as connection:
        return {"tenant": WEB_SHOP, "one": str(connection.scalar(LISTED.limit(1)))}


def on_loop(database: Database, function: Callable[[Connection], Any]) -> Any:
    """Run a function of a snapshot on an event loop."""

    def read() -> Any:
        with database.read() as connection:
            return function(connection)

    async def run() -> Any:
        try:
            return await database.loop_reads.run(read)
        finally:
            await database.loop_reads.close()

    return asyncio.run(run())


def test_a_prepared_statement_returns_the_row_of_sqlalchemy(database: Database, one: dict[str, str]) -> None:
    with database.engine.connect() as connection:
        expected = connection.execute(BY_ID, one).one()
    with database.read() as connection:
        in_thread = connection.execute(PREPARED, one).one()
    by_loop = on_loop(database, lambda connection: connection.execute(PREPARED, one).one())
    assert in_thread._asdict() == by_loop._asdict() == expected._asdict()
    assert READER.get() is None
    assert (type(by_loop.tags), type(by_loop.attributes), by_loop.created_at.tzinfo is None) == (dict, dict, False)
    assert on_loop(database, lambda connection: connection.scalar(PREPARED, one)) == expected.id


def read_twice(connection: Connection, one: dict[str, str]) -> bool:
    first = connection.execute(PREPARED, one).one()
    return bool(first == connection.execute(PREPARED, one).one())


def test_what_cannot_be_read_on_the_event_loop_is_left_to_a_thread(database: Database, one: dict[str, str]) -> None:
    def change(begin: str) -> Callable[[Connection], None]:
        def function(_: Connection) -> None:
            with getattr(database, begin)():
                raise AssertionError("a transaction has begun")

        return function

    functions: list[Callable[[Connection], Any]] = [lambda connection: connection.execute(LISTED)]
    functions += [change(begin) for begin in ("write", "bulk_write", "write_without_waiting", "autocommit")]
    if database.kind == "sqlite":
        assert on_loop(database, lambda connection: read_twice(connection, one))
    else:
        functions.append(lambda connection: read_twice(connection, one))
    for function in functions:
        with pytest.raises(NotPreparedError):
            on_loop(database, function)


def test_a_quick_read_runs_on_the_event_loop(counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    policies = counted.get(f"{TENANT}/iam/policies", counted.session).json()["policies"]
    made = counted.ask("POST", f"{TENANT}/api-keys", counted.session, {"name": "kk", "scopes": ["compute:read"]})
    key = made.json()["apiKey"]["id"]
    urls = [instance(counted), f"{TENANT}/iam/policies/{policies[0]['id']}", f"{TENANT}/api-keys/{key}"]
    urls.append(f"{TENANT}/default-tags")
    answers = [counted.get(url, counted.session) for url in urls]
    assert {answer.status_code for answer in answers} == {200}

    def fail(*_: object) -> None:
        raise AssertionError("a thread was used")

    def is_read_on_the_loop(url: str, expected: object) -> bool:
        with monkeypatch.context() as patch:
            patch.setattr(protected_route, "run_in_slot", fail)
            patch.setattr(protected_route, "run_in_threadpool", fail)
            if counted.get(url, counted.session).json() == expected:
                return True
        # The connection of the event loop was busy, or a lease has ended, which a thread renews.
        assert counted.get(url, counted.session).json() == expected
        return False

    for url, answer in zip(urls, answers, strict=True):
        until(partial(is_read_on_the_loop, url, answer.json()))


def instance(counted: Counted) -> str:
    """The URL of an instance."""
    path = f"{TENANT}/resources/instance"
    return f"{path}/{counted.get(f'{path}?limit=1', counted.key).json()['resources'][0]['id']}"


def test_a_failed_quick_read_is_repeated_in_a_thread(counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    url, arguments, calls = instance(counted), PreparedStatement.arguments, []
    expected = counted.get(url, counted.key)

    def wrong(self: PreparedStatement, parameters: Any) -> Any:
        if READER.get() is None:
            return arguments(self, parameters)
        calls.append(self.text)
        return []

    monkeypatch.setattr(PreparedStatement, "arguments", wrong)
    answer = counted.get(url, counted.key)
    assert (answer.status_code, answer.json()) == (200, expected.json())
    assert calls


def test_errors_of_prepared_changes_are_those_of_sqlalchemy(database: Database, one: dict[str, str]) -> None:
    with database.read() as connection:
        row = connection.execute(PREPARED, one).one()._asdict()
    with pytest.raises(IntegrityError) as prepared_error, database.write() as connection:
        insert_row(connection, resources, row)
    with pytest.raises(IntegrityError) as expected, database.write() as connection:
        connection.execute(insert(resources).values(row))
    assert type(prepared_error.value.orig) is type(expected.value.orig)
    assert row["name"] not in str(prepared_error.value)


@on_postgresql
def test_a_lost_connection_is_replaced(database: Database) -> None:
    with database.write() as connection:
        terminated = connection.execute(select(func.pg_backend_pid())).scalar_one()
        with database.engine.connect() as other:
            other.execute(text(f"SELECT pg_terminate_backend({terminated})"))
        with pytest.raises(OperationalError) as lost:
            connection.execute(PREPARED, {"tenant": WEB_SHOP, "one": "x"})
        assert lost.value.connection_invalidated
        connection.rollback()
    with database.write() as connection:
        assert connection.execute(PREPARED, {"tenant": WEB_SHOP, "one": "x"}).all() == []


def test_a_row_is_changed_added_and_deleted_by_some_of_its_values(database: Database, one: dict[str, str]) -> None:
    key, new = ({"tenant_id": WEB_SHOP, "id": identifier} for identifier in (one["one"], "new"))
    with database.write() as connection:
        changed = update_row(connection, resources, key, {"name": "renamed", "tags": {"a": "b"}})
        assert changed is not None
        assert (changed.name, changed.tags) == ("renamed", {"a": "b"})
        assert update_row(connection, resources, {**key, "tenant_id": "other"}, {"name": "x"}) is None
    with database.write() as connection:
        row = connection.execute(BY_ID, one).one()._asdict()
        assert row == changed._asdict()
        assert not has_row(connection, resources, new)
        add_row(connection, resources, {**row, **new})
        assert has_row(connection, resources, new)
        delete_rows(connection, resources, {**new, "tenant_id": "other"})
        assert has_row(connection, resources, new)
        delete_rows(connection, resources, new)
        assert not has_row(connection, resources, new)
        assert has_row(connection, resources, {"id": one["one"]})


def test_a_prepared_statement_has_default_parameters_and_no_list(database: Database) -> None:
    nothing, seven = prepared(select(bindparam("value", None, type_=String))), prepared(select(literal(7)))
    with database.read() as connection:
        assert (connection.scalar(nothing), connection.scalar(seven)) == (None, 7)
        assert connection.scalar(nothing, {"value": "given"}) == "given"
    with pytest.raises(ValueError, match="cannot be prepared"), database.read() as connection:
        connection.execute(prepared(select(tenants.c.id).where(tenants.c.id.in_(["a"]))))


@on_postgresql
def test_a_connection_is_not_used_after_a_cancelled_read(database: Database) -> None:
    backend = prepared(select(func.pg_backend_pid().label("pid")))
    sleep = prepared(select(func.pg_backend_pid().label("pid"), func.pg_sleep(60)))

    def read(statement: Any) -> int:
        with database.read() as connection:
            return int(connection.execute(statement).one().pid)

    async def run() -> tuple[int, int]:
        first = await database.loop_reads.run(lambda: read(backend))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await database.loop_reads.run(lambda: read(sleep))
        second = await database.loop_reads.run(lambda: read(backend))
        await database.loop_reads.close()
        return first, second

    first, second = asyncio.run(run())
    assert first != second


@on_postgresql
def test_reads_of_an_unreachable_server_are_left_to_threads(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = []

    async def fail(_: object) -> None:
        attempts.append(1)
        await asyncio.sleep(0)
        raise TimeoutError

    monkeypatch.setattr(type(database.loop_reads), "_connect", fail)

    async def run() -> list[Any]:
        reads = [database.loop_reads.run(lambda: None) for _ in range(40)]
        return await asyncio.gather(*reads, return_exceptions=True)

    results = asyncio.run(run())
    assert {type(result) for result in results} == {NotPreparedError}
    assert len(attempts) <= 8


@pytest.mark.parametrize(("rules", "light"), [(0, True), (MAX_RULES_ON_EVENT_LOOP, True), (101, False)])
def test_a_decision_with_up_to_100_rules_is_light(rules: int, light: bool) -> None:
    operations = Catalogue(operation.name for operation in shipped.operations())
    rule = {"access": "allow", "operations": ["compute:*"], "targets": ["*"]}
    text = json.dumps({"schemaVersion": "1", "rules": [rule] * rules})
    granted = granted_rules(parse_document(text, operations).document, "p", "p") if rules else []
    grants = SimpleNamespace(policies=Engine(granted))
    context: Any = SimpleNamespace(grants=grants)
    assert protected_route.is_light(context) is light
    assert protected_route.is_light(cast(Any, SimpleNamespace(grants=None)))


def test_a_read_with_many_rules_runs_in_a_thread(counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    url, functions, run = instance(counted), [], protected_route.run_in_slot

    async def note(function: Any, *arguments: Any) -> Any:
        functions.append(function)
        return await run(function, *arguments)

    assert counted.get(url, counted.key).status_code == 200
    monkeypatch.setattr(protected_route, "run_in_slot", note)
    for is_light, threads in ((True, 0), (False, 1)):
        monkeypatch.setattr(protected_route, "is_light", lambda _, is_light=is_light: is_light)
        assert counted.get(url, counted.key).status_code == 200
        assert len(functions) == threads


def test_parallel_first_reads_leave_no_connection_without_a_wait_for_locks(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'platform.db'}")

    async def read() -> None:
        await asyncio.gather(*(database.loop_reads.run(lambda: None) for _ in range(8)))

    asyncio.run(read())
    with ExitStack() as stack:
        connections = [stack.enter_context(database.engine.connect()) for _ in range(4)]
        waits = {connection.exec_driver_sql("PRAGMA busy_timeout").scalar() for connection in connections}
    assert waits == {10_000}
    asyncio.run(database.loop_reads.close())
    database.close()


def increase(database: Database) -> None:
    with database.write() as connection:
        connection.execute(text("INSERT OR IGNORE INTO revisions (domain, revision) VALUES (:d, 0)"), {"d": AURORA})
        connection.execute(text("UPDATE revisions SET revision = revision + 1 WHERE domain = :d"), {"d": AURORA})


@on_sqlite
@pytest.mark.parametrize("process", ["this", "another"])
async def test_a_snapshot_does_not_see_a_later_commit_which_empties_the_memory(
    counted: Counted, database: Database, process: str
) -> None:
    writer = database if process == "this" else Database(counted.platform.settings.database_url)
    stored, domain = prepared(select(revisions.c.revision).where(revisions.c.domain == bindparam("d"))), {"d": AURORA}

    def read() -> int:
        with database.read() as connection:
            before, memory = read_revisions(connection, [AURORA])[AURORA], memory_of(connection)
            assert memory is not None
            with ThreadPoolExecutor(1) as threads:
                threads.submit(increase, writer).result()
            assert memory_of(connection) is memory
            assert connection.scalar(stored, domain) == before == read_revisions(connection, [AURORA])[AURORA]
            return before

    first = await database.loop_reads.run(read)
    await asyncio.sleep(0)  # the snapshot ends with the iteration of the event loop
    assert await database.loop_reads.run(read) == first + 1
    await database.loop_reads.close()

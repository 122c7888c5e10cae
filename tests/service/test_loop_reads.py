"""Reads on the event loop: which statements run there, what they return, and what a thread repeats."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import Connection, String, bindparam, func, insert, literal, select, text, update
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
from service.db.statements import add_row, delete_rows, has_row, insert_row, update_row
from service.db.tables import resources, tenants
from tests.service.conftest import DemoUrl
from tests.service.counted import TENANT, Counted
from tests.service.planned import until
from tests.service.running import WEB_SHOP

BY_ID = select(resources).where(resources.c.tenant_id == bindparam("tenant"), resources.c.id == bindparam("one"))
PREPARED = prepared(BY_ID)
LISTED = select(resources.c.id).where(resources.c.tenant_id == WEB_SHOP).order_by(resources.c.id)


@pytest.fixture
def platform(tmp_path: Path, world_url: str | None) -> Iterator[Counted]:
    opened = Counted(tmp_path, world_url)
    yield opened
    opened.close()


@pytest.fixture
def postgresql(tmp_path: Path, demo_url: DemoUrl) -> Iterator[Counted]:
    opened = Counted(tmp_path, demo_url("postgresql"))
    yield opened
    opened.close()


@pytest.fixture
def database(platform: Counted) -> Database:
    return platform.platform.database


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


def test_a_statement_that_is_not_prepared_is_left_to_a_thread(database: Database) -> None:
    with pytest.raises(NotPreparedError):
        on_loop(database, lambda connection: connection.execute(LISTED))


def test_a_second_statement_of_a_snapshot_runs_on_sqlite_only(database: Database, one: dict[str, str]) -> None:
    def read_twice(connection: Connection) -> bool:
        first = connection.execute(PREPARED, one).one()
        return bool(first == connection.execute(PREPARED, one).one())

    if database.kind == "sqlite":
        assert on_loop(database, read_twice)
    else:
        with pytest.raises(NotPreparedError):
            on_loop(database, read_twice)


def test_a_sqlite_snapshot_does_not_see_a_later_commit(tmp_path: Path) -> None:
    platform = Counted(tmp_path, None)
    database = platform.platform.database
    name = prepared(select(tenants.c.display_name).where(tenants.c.id == bindparam("tenant")))

    def rename() -> None:
        with database.write() as connection:
            connection.execute(update(tenants).where(tenants.c.id == WEB_SHOP).values(display_name="changed"))

    def read(connection: Connection) -> list[Any]:
        names = [connection.scalar(name, {"tenant": WEB_SHOP})]
        thread = threading.Thread(target=rename)
        thread.start()
        thread.join(60)
        return [*names, connection.scalar(name, {"tenant": WEB_SHOP})]

    before, after = on_loop(database, read)
    assert before == after != "changed"
    assert on_loop(database, lambda connection: connection.scalar(name, {"tenant": WEB_SHOP})) == "changed"
    platform.close()


@pytest.mark.parametrize("path", ["resource", "policy", "key", "default-tags"])
def test_a_quick_read_runs_on_the_event_loop(
    platform: Counted, one: dict[str, str], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies = platform.get(f"{TENANT}/iam/policies", platform.session).json()["policies"]
    made = platform.ask("POST", f"{TENANT}/api-keys", platform.session, {"name": "kk", "scopes": ["compute:read"]})
    url = {
        "resource": f"{TENANT}/resources/instance/{instance(platform)}",
        "policy": f"{TENANT}/iam/policies/{policies[0]['id']}",
        "key": f"{TENANT}/api-keys/{made.json()['apiKey']['id']}",
        "default-tags": f"{TENANT}/default-tags",
    }[path]
    expected = platform.get(url, platform.session)
    assert expected.status_code == 200, expected.text

    def fail(*_: object) -> None:
        raise AssertionError("a thread was used")

    monkeypatch.setattr(protected_route, "run_in_threadpool", fail)
    assert platform.get(url, platform.session).json() == expected.json()


def instance(platform: Counted) -> str:
    return str(platform.get(f"{TENANT}/resources/instance?limit=1", platform.key).json()["resources"][0]["id"])


def test_a_failed_quick_read_is_repeated_in_a_thread(
    platform: Counted, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{TENANT}/resources/instance/{instance(platform)}"
    expected = platform.get(url, platform.key)
    text_of, calls = PreparedStatement.arguments, []

    def wrong(self: PreparedStatement, parameters: Any) -> Any:
        if READER.get() is not None:
            calls.append(self.text)
            return []
        return text_of(self, parameters)

    monkeypatch.setattr(PreparedStatement, "arguments", wrong)
    answer = platform.get(url, platform.key)
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


def test_a_lost_connection_is_replaced(postgresql: Counted) -> None:
    database = postgresql.platform.database
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


def test_a_changed_row_is_returned(database: Database, one: dict[str, str]) -> None:
    key = {"tenant_id": WEB_SHOP, "id": one["one"]}
    with database.write() as connection:
        changed = update_row(connection, resources, key, {"name": "renamed", "tags": {"a": "b"}})
        assert changed is not None
        assert (changed.name, changed.tags) == ("renamed", {"a": "b"})
        assert update_row(connection, resources, {**key, "tenant_id": "other"}, {"name": "x"}) is None
    with database.read() as connection:
        assert connection.execute(BY_ID, one).one()._asdict() == changed._asdict()


def test_a_row_is_added_found_and_deleted_by_some_of_its_values(database: Database, one: dict[str, str]) -> None:
    key = {"tenant_id": WEB_SHOP, "id": "new"}
    with database.write() as connection:
        row = connection.execute(PREPARED, one).one()._asdict()
        assert not has_row(connection, resources, key)
        add_row(connection, resources, {**row, **key})
        assert has_row(connection, resources, key)
        delete_rows(connection, resources, {**key, "tenant_id": "other"})
        assert has_row(connection, resources, key)
        delete_rows(connection, resources, key)
        assert not has_row(connection, resources, key)
        assert has_row(connection, resources, {"id": one["one"]})


def test_a_prepared_statement_has_default_parameters(database: Database) -> None:
    nothing, seven = prepared(select(bindparam("value", None, type_=String))), prepared(select(literal(7)))
    with database.read() as connection:
        assert (connection.scalar(nothing), connection.scalar(seven)) == (None, 7)
        assert connection.scalar(nothing, {"value": "given"}) == "given"


def test_a_statement_with_a_list_or_a_default_cannot_be_prepared(database: Database) -> None:
    with pytest.raises(ValueError, match="cannot be prepared"), database.read() as connection:
        connection.execute(prepared(select(tenants.c.id).where(tenants.c.id.in_(["a"]))))


@pytest.mark.parametrize("begin", ["write", "bulk_write", "write_without_waiting", "autocommit"])
def test_a_change_does_not_begin_on_the_event_loop(database: Database, begin: str) -> None:
    def change(_: Connection) -> None:
        with getattr(database, begin)():
            raise AssertionError("a transaction has begun")

    with pytest.raises(NotPreparedError):
        on_loop(database, change)


def test_a_connection_is_not_used_after_a_cancelled_read(postgresql: Counted) -> None:
    database = postgresql.platform.database
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


def test_reads_of_an_unreachable_server_are_left_to_threads(
    postgresql: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = postgresql.platform.database
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


def test_a_read_with_many_rules_runs_in_a_thread(platform: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"{TENANT}/resources/instance/{instance(platform)}"
    assert platform.get(url, platform.key).status_code == 200
    threads: list[Any] = []
    run = protected_route.run_in_slot

    async def note(function: Any, *arguments: Any) -> Any:
        threads.append(function)
        return await run(function, *arguments)

    def runs_on_the_loop() -> bool:
        threads.clear()
        assert platform.get(url, platform.key).status_code == 200
        return not threads

    monkeypatch.setattr(protected_route, "run_in_slot", note)
    until(runs_on_the_loop)  # On a busy machine the loop's first connection may time out, and is opened again later.
    monkeypatch.setattr(protected_route, "is_light", lambda _: False)
    assert platform.get(url, platform.key).status_code == 200
    assert len(threads) == 1

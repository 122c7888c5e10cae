"""The database layer: transactions, writers, and how each kind is set up."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, literal, select, text, update
from sqlalchemy.exc import IntegrityError, OperationalError

from service.db.engine import Database
from service.db.statements import PORTION, records
from service.db.tables import Document, platform_state, users
from tests.service import factories


@pytest.fixture
def counter(database: Database) -> Database:
    """A database with one number in it."""
    with database.write() as connection:
        connection.execute(insert(platform_state).values(name="counter", value="0"))
    return database


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Database]:
    opened = Database(f"sqlite:///{tmp_path / 'platform.db'}")
    yield opened
    opened.close()


def count(database: Database) -> int:
    with database.read() as connection:
        return int(connection.scalar(select(platform_state.c.value)) or 0)


def test_a_transaction_that_fails_is_rolled_back(counter: Database) -> None:
    with counter.write() as connection:
        connection.execute(update(platform_state).values(value="1"))

    def fail() -> None:
        with counter.write() as connection:
            connection.execute(update(platform_state).values(value="2"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert count(counter) == 1


def test_a_list_has_the_values_of_its_rows(database: Database) -> None:
    rows = [{"name": f"name {number}", "value": str(number)} for number in range(2 * PORTION + 1)]
    with database.write() as connection:
        connection.execute(insert(platform_state), rows)
    query = select(platform_state).order_by(platform_state.c.name)
    with database.read() as connection:
        expected = connection.execute(query).all()
        found = list(records(connection, query))
    assert found == [tuple(row) for row in expected]
    assert [(row.name, row.value) for row in found] == [(row.name, row.value) for row in expected]
    assert found[0]._asdict() == expected[0]._asdict()


@pytest.mark.parametrize("text", ["0001-01-01", "1969-12-31T23:59:59.999999", "2026-03-01T12:00:05.25", "9999-12-31"])
def test_an_instant_is_read_as_written_and_compared_to_the_microsecond(database: Database, text: str) -> None:
    instant = datetime.fromisoformat(text).replace(tzinfo=UTC)
    with database.write() as connection:
        connection.execute(insert(users).values(factories.user(at=instant)))
        row = connection.execute(select(users.c.created_at, users.c.deleted_at)).one()
        assert connection.scalar(select(users.c.id).where(users.c.created_at < instant + timedelta(microseconds=1)))
    assert tuple(row) == (instant, None)


@pytest.mark.parametrize(
    "value", [{}, [], None, "é 🧊 \u2028", [10**30, -1, 0.1, 1e16], {"a": {"b": [True, None]}}], ids=repr
)
def test_a_json_value_is_read_as_written(database: Database, value: Any) -> None:
    with database.read() as connection:
        assert connection.scalar(select(literal(value, Document))) == value


def test_the_error_of_a_statement_has_no_values(counter: Database) -> None:
    with pytest.raises(IntegrityError) as caught, counter.write() as connection:
        connection.execute(insert(platform_state).values(name="counter", value="WHAT-NOBODY-READS"))
    assert "WHAT-NOBODY-READS" not in str(caught.value)


def test_a_read_is_rolled_back(counter: Database) -> None:
    with counter.read() as connection:
        connection.execute(update(platform_state).values(value="7"))
    assert count(counter) == 0


def test_writers_that_read_first_never_lose_an_update(counter: Database) -> None:
    def add_one(_: int) -> None:
        with counter.write() as connection:
            value = connection.scalar(select(platform_state.c.value).with_for_update())
            connection.execute(update(platform_state).values(value=str(int(value or 0) + 1)))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(add_one, range(100)))
    assert count(counter) == 100


def test_a_reader_does_not_wait_for_a_writer(counter: Database) -> None:
    with counter.write() as connection:
        connection.execute(update(platform_state).values(value="1"))
        with ThreadPoolExecutor(1) as thread:
            assert thread.submit(count, counter).result(60) == 0
    assert count(counter) == 1


def test_the_database_is_writable(database: Database) -> None:
    assert database.is_writable()


def test_sqlite_is_set_up_for_a_server(sqlite: Database) -> None:
    with sqlite.read() as connection:
        settings = {
            name: connection.execute(text(f"PRAGMA {name}")).scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert settings == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 10_000}


def test_a_write_takes_the_lock_at_once_and_a_read_takes_none(sqlite: Database, tmp_path: Path) -> None:
    import sqlite3

    other = sqlite3.connect(tmp_path / "platform.db", timeout=0, isolation_level=None)
    with sqlite.read():
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")
    with sqlite.write(), pytest.raises(sqlite3.OperationalError, match="locked"):
        # Nothing has been written yet: the lock is there all the same.
        other.execute("BEGIN IMMEDIATE")
    other.close()


def test_schema_changes_are_part_of_the_transaction(sqlite: Database) -> None:
    def fail() -> None:
        with sqlite.write() as connection:
            connection.exec_driver_sql("CREATE TABLE half (x)")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with sqlite.read() as connection, pytest.raises(OperationalError, match="no such table"):
        connection.exec_driver_sql("SELECT * FROM half")


def test_two_processes_write_to_one_file_without_a_busy_error(sqlite: Database, tmp_path: Path) -> None:
    # Each engine has a lock of its own, as each process has: only SQLite's own lock is left.
    other = Database(f"sqlite:///{tmp_path / 'platform.db'}")
    with sqlite.write() as connection:
        platform_state.create(connection)
        connection.execute(insert(platform_state).values(name="counter", value="0"))
    failures: list[Exception] = []

    def add(database: Database) -> None:
        for _ in range(50):
            try:
                with database.write() as connection:
                    value = connection.scalar(select(platform_state.c.value))
                    connection.execute(update(platform_state).values(value=str(int(value or 0) + 1)))
            except OperationalError as error:
                failures.append(error)

    threads = [threading.Thread(target=add, args=(database,)) for database in (sqlite, other) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.close()
    assert not failures
    assert count(sqlite) == 200


@pytest.mark.slow
def test_a_new_file_is_opened_by_several_at_once(tmp_path: Path) -> None:
    together = threading.Barrier(4)

    def mode(path: Path) -> str:
        database = Database(f"sqlite:///{path}")
        together.wait()
        with database.read() as connection:
            found = connection.exec_driver_sql("PRAGMA journal_mode").scalar_one()
        database.close()
        return str(found)

    with ThreadPoolExecutor(4) as threads:
        for number in range(300):
            assert list(threads.map(mode, [tmp_path / f"{number}.db"] * 4)) == ["wal"] * 4


@pytest.mark.parametrize("url", ["mysql://localhost/x", "oracle://x", "mssql://x"])
def test_another_kind_of_database_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="must be sqlite or postgresql"):
        Database(url)


@pytest.mark.parametrize("url", ["postgresql://u:p@h/d", "postgresql+psycopg2://u:p@h/d"])
def test_postgresql_is_always_driven_by_psycopg_3(url: str) -> None:
    database = Database(url)
    assert (database.kind, database.engine.dialect.driver) == ("postgresql", "psycopg")
    database.close()


def test_a_connection_the_server_has_closed_meanwhile_is_replaced(
    new_database_url: Callable[[str, bool], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.db.engine.IDLE_PING_SECONDS", -1)
    database, other = (Database(url) for url in [new_database_url("postgresql", True)] * 2)
    with database.read() as connection:
        process = connection.scalar(text("SELECT pg_backend_pid()"))
    with other.read() as connection:
        assert connection.scalar(text("SELECT pg_terminate_backend(:process, 5000)"), {"process": process})
    with database.read() as connection:
        assert connection.scalar(text("SELECT pg_backend_pid()")) != process
    database.close()
    other.close()

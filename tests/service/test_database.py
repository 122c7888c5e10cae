"""The database layer: transactions, writers, the settings of each kind, and servers that are away."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Update, create_engine, insert, literal, select, text, update
from sqlalchemy.engine import make_url
from sqlalchemy.exc import IntegrityError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as NoneFree

from service.db.dialect import is_transient
from service.db.engine import SESSION, Database, with_psycopg_defaults
from service.db.statements import PORTION, records
from service.db.tables import Document, platform_state, users
from tests.service import factories
from tests.service.access import code
from tests.service.live import Live
from tests.service.postgres import Cluster
from tests.service.queries import execute, fetch, fetch_scalars
from tests.waiting import until


@pytest.fixture
def counter(database: Database) -> Database:
    execute(database, insert(platform_state).values(name="counter", value="0"))
    return database


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Database]:
    with closing(Database(f"sqlite:///{tmp_path / 'platform.db'}")) as opened:
        yield opened


def count(database: Database) -> int:
    with database.read() as connection:
        return int(connection.scalar(select(platform_state.c.value)) or 0)


def set_counter(value: int) -> Update:
    return update(platform_state).values(value=str(value))


def test_a_transaction_that_fails_and_a_read_are_rolled_back(counter: Database) -> None:
    execute(counter, set_counter(1))
    with pytest.raises(ZeroDivisionError), counter.write() as connection:  # noqa: PT012 - it fails at its end
        connection.execute(set_counter(2))
        raise ZeroDivisionError
    assert count(counter) == 1
    with counter.read() as connection:
        connection.execute(set_counter(7))
    assert count(counter) == 1
    with pytest.raises(IntegrityError) as caught:
        execute(counter, insert(platform_state).values(name="counter", value="WHAT-UNKNOWN_ID-READS"))
    assert "WHAT-UNKNOWN_ID-READS" not in str(caught.value)
    # A reader does not wait for a writer.
    with counter.write() as connection:
        connection.execute(set_counter(2))
        with ThreadPoolExecutor(1) as thread:
            assert thread.submit(count, counter).result(60) == 1
    assert count(counter) == 2
    assert counter.is_writable()


def test_a_list_has_the_values_of_its_rows(database: Database) -> None:
    rows = [{"name": f"name {number}", "value": str(number)} for number in range(2 * PORTION + 1)]
    with database.write() as connection:
        connection.execute(insert(platform_state), rows)
    query = select(platform_state).order_by(platform_state.c.name)
    with database.read() as connection:
        expected = connection.execute(query).all()
        listed = list(records(connection, query))
    assert listed == [tuple(row) for row in expected]
    assert [row._asdict() for row in listed] == [row._asdict() for row in expected]
    assert [(row.name, row.value) for row in listed] == [(row.name, row.value) for row in expected]


def test_a_value_is_read_as_written(database: Database) -> None:
    for written in ("0001-01-01", "1969-12-31T23:59:59.999999", "2026-03-01T12:00:05.25", "9999-12-31"):
        instant = datetime.fromisoformat(written).replace(tzinfo=UTC)
        with database.write() as connection:
            connection.execute(insert(users).values(factories.user(written, instant)))
            row = connection.execute(select(users.c.created_at, users.c.deleted_at).where(users.c.id == written)).one()
            later = select(users.c.id).where(users.c.created_at < instant + timedelta(microseconds=1))
            assert written in connection.scalars(later).all()
        assert tuple(row) == (instant, None)
    for value in ({}, [], None, "é 🧊 \u2028", [10**30, -1, 0.1, 1e16], {"a": {"b": [True, None]}}):
        assert fetch_scalars(database, select(literal(value, Document))) == [value]


def add_one(database: Database) -> None:
    with database.write() as connection:
        value = connection.scalar(select(platform_state.c.value).with_for_update())
        connection.execute(set_counter(int(value or 0) + 1))


def test_writers_that_read_first_never_lose_an_update(counter: Database) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(add_one, [counter] * 100))
    assert count(counter) == 100


def test_sqlite_is_set_up_for_a_server(sqlite: Database, tmp_path: Path) -> None:
    settings = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 10_000}
    assert {name: fetch_scalars(sqlite, text(f"PRAGMA {name}"))[0] for name in settings} == settings
    # A write takes the lock before its first change, and a read takes none.
    with closing(sqlite3.connect(tmp_path / "platform.db", timeout=0, isolation_level=None)) as other:
        with sqlite.read():
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
        with sqlite.write(), pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
    # Changes of the schema are part of the transaction.
    with pytest.raises(ZeroDivisionError), sqlite.write() as connection:  # noqa: PT012 - it fails at its end
        connection.exec_driver_sql("CREATE TABLE half (x)")
        raise ZeroDivisionError
    with pytest.raises(OperationalError, match="no such table"):
        fetch(sqlite, text("SELECT * FROM half"))


def test_the_url_chooses_the_driver() -> None:
    for url in ("mysql://localhost/x", "oracle://x", "mssql://x"):
        with pytest.raises(ValueError, match="must be sqlite or postgresql"):
            Database(url)
    for url in ("postgresql://u:p@h/d", "postgresql+psycopg2://u:p@h/d"):
        with closing(Database(url)) as database:
            assert (database.kind, database.engine.dialect.driver) == ("postgresql", "psycopg")


@pytest.mark.slow
def test_a_new_file_is_opened_by_several_at_once(tmp_path: Path) -> None:
    together = threading.Barrier(4)

    def mode(path: Path) -> str:
        with closing(Database(f"sqlite:///{path}")) as database:
            together.wait()
            return str(fetch_scalars(database, text("PRAGMA journal_mode"))[0])

    with ThreadPoolExecutor(4) as threads:
        for number in range(300):
            assert list(threads.map(mode, [tmp_path / f"{number}.db"] * 4)) == ["wal"] * 4


def test_a_closed_connection_is_replaced(new_database_url: Callable[[str, bool], str]) -> None:
    process, url = text("SELECT pg_backend_pid()"), new_database_url("postgresql", True)
    with closing(Database(url, idle_ping_seconds=-1)) as database, closing(Database(url)) as other:
        before = fetch_scalars(database, process)
        end = text("SELECT pg_terminate_backend(:process, 5000)").bindparams(process=before[0])
        assert fetch_scalars(other, end) == [True]
        assert fetch_scalars(database, process) != before


@pytest.fixture
def server() -> Iterator[Cluster]:
    with Cluster() as cluster:
        cluster.create("platform")
        yield cluster


@pytest.mark.slow
def test_replicas_report_an_unreachable_database_and_recover(server: Cluster) -> None:
    """The restart must not lose a tenant that is being provisioned. About 15 s."""
    with Live(server.url("platform"), pace=0.5) as replica:
        token, process = replica.owner(), replica.process
        tenant = replica.create_tenant(token, "Telescope")
        path = f"/api/v1/tenants/{tenant['id']}/operations/{tenant['runId']}"
        until(lambda: replica.read(path, token)["status"] == "running", 30)
        server.stop()
        # The platform repeats its checks within seconds, not for each answer.
        until(lambda: replica.get("/readyz").status == 503, 30)
        answer = replica.get("/readyz")
        assert (answer.status, answer.json()["status"]) == (503, "degraded")
        assert answer.json()["checks"]["database"] == "unreachable"
        assert replica.get("/healthz").status == 200
        refused = replica.request("GET", "/api/v1/tenants", token=token)
        assert code(refused) == (503, "SERVICE_UNAVAILABLE")
        assert refused.headers["retry-after"] == "1"
        server.start()
        until(lambda: replica.get("/readyz").status == 200, 30)
        assert replica.request("GET", "/api/v1/tenants", token=token).status == 200
        until(lambda: replica.read(path, token)["status"] == "completed", 60)
        assert replica.read(f"/api/v1/tenants/{tenant['id']}", token)["status"] == "active"
        assert process is replica.process is not None
        assert process.poll() is None


def test_which_errors_are_transient(cluster: Cluster) -> None:
    names = ("AdminShutdown", "TooManyConnections", "CannotConnectNow", "DeadlockDetected", "QueryCanceled")
    transient = [psycopg.OperationalError("connection failed"), *(getattr(psycopg.errors, name)() for name in names)]
    lasting = [psycopg.errors.DiskFull(), psycopg.errors.ReadOnlySqlTransaction()]
    for errors, expected in ((transient, True), (lasting, False)):
        for error in errors:
            assert is_transient(OperationalError("statement", None, error)) is expected, error
    assert is_transient(NoneFree())
    assert not is_transient(SQLAlchemyError())
    assert not is_transient(ValueError())


def test_sessions_and_connections_are_bounded(cluster: Cluster) -> None:
    def bounds(url: str) -> tuple[str, ...]:
        engine = create_engine(with_psycopg_defaults(make_url(url)))
        names = ("statement_timeout", "idle_in_transaction_session_timeout")
        with engine.connect() as connection:
            values = [str(connection.exec_driver_sql(f"SHOW {name}").scalar_one()) for name in names]
        engine.dispose()
        return tuple(values)

    url = cluster.url("postgres")
    assert bounds(url) == ("1min", "1min")
    assert bounds(f"{url}&options=-c%20statement_timeout%3D5s") == ("5s", "1min")
    query = with_psycopg_defaults(make_url(f"{url}&connect_timeout=2")).query
    assert (query["connect_timeout"], query["keepalives_idle"], query["options"]) == ("2", "20", SESSION)
    # Three replicas fit a server's default of a hundred, each with eight connections for its durable work.
    with closing(Database(url)) as opened:
        assert 3 * (opened.engine.pool.size() + opened.engine.pool._max_overflow + 8) < 100  # type: ignore[attr-defined]

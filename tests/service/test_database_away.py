"""Replicas while PostgreSQL restarts or has no free connection."""

from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as NoneFree

from service.db.dialect import is_transient
from service.db.engine import SESSION, Database, with_psycopg_defaults
from tests.service.live import Live
from tests.service.planned import until
from tests.service.postgres import Cluster


@pytest.fixture
def server() -> Iterator[Cluster]:
    """A server of PostgreSQL that may be stopped."""
    with Cluster() as cluster:
        cluster.create("platform")
        yield cluster


@pytest.mark.slow
def test_replicas_report_an_unreachable_database_and_recover(server: Cluster) -> None:
    """With a tenant being provisioned meanwhile, which the restart must not lose. About 15 s."""
    with Live(server.url("platform"), pace=0.5) as replica:
        token, process = replica.owner(), replica.process
        tenant = replica.create_tenant(token, "Telescope")
        path = f"/api/v1/tenants/{tenant['id']}/operations/{tenant['runId']}"
        until(lambda: replica.read(path, token)["status"] == "running", 30)
        server.stop()
        # The checks are repeated within seconds, not for each answer.
        until(lambda: replica.get("/readyz").status == 503, 30)
        answer = replica.get("/readyz")
        assert (answer.status, answer.json()["status"]) == (503, "degraded")
        assert answer.json()["checks"]["database"] == "unreachable"
        assert replica.get("/healthz").status == 200
        refused = replica.call("GET", "/api/v1/tenants", token)
        assert (refused.status, refused.json()["error"]["code"]) == (503, "SERVICE_UNAVAILABLE")
        assert refused.headers["retry-after"] == "1"
        server.start()
        until(lambda: replica.get("/readyz").status == 200, 30)
        assert replica.call("GET", "/api/v1/tenants", token).status == 200
        until(lambda: replica.read(path, token)["status"] == "completed", 60)
        assert replica.read(f"/api/v1/tenants/{tenant['id']}", token)["status"] == "active"
        assert process is replica.process
        assert process is not None
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


def test_a_session_is_bounded_unless_its_url_says_otherwise(cluster: Cluster) -> None:
    def bounds(url: str) -> tuple[str, ...]:
        engine = create_engine(with_psycopg_defaults(make_url(url)))
        with engine.connect() as connection:
            shown = [
                str(connection.exec_driver_sql(f"SHOW {name}").scalar_one())
                for name in ("statement_timeout", "idle_in_transaction_session_timeout")
            ]
        engine.dispose()
        return tuple(shown)

    url = cluster.url("postgres")
    assert bounds(url) == ("1min", "1min")
    assert bounds(f"{url}&options=-c%20statement_timeout%3D5s") == ("5s", "1min")
    query = with_psycopg_defaults(make_url(f"{url}&connect_timeout=2")).query
    assert (query["connect_timeout"], query["keepalives_idle"], query["options"]) == ("2", "20", SESSION)


def test_replicas_together_stay_within_what_a_server_usually_gives(cluster: Cluster) -> None:
    opened = Database(cluster.url("postgres"))
    pool = opened.engine.pool
    # Three of them, each with eight for its durable work: a server has a hundred unless it is told otherwise.
    assert 3 * (pool.size() + pool._max_overflow + 8) < 100  # type: ignore[attr-defined]
    opened.close()

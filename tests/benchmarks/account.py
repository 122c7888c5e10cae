"""API keys: what a request with one costs, how soon a revoked one is dead, what its rate limit takes.

checklist K36, K32; hostile C04. Both sides of a ratio take turns in one run, on one connection.
"""

import http.client
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from service.authn import rate_limit
from service.db import migrate
from service.db.engine import Database
from tests.benchmarks.ratios import Line
from tests.homes import UnixConnection
from tests.service.account import Key
from tests.service.postgres import Cluster
from tests.service.running import Executed, Running

LATE = 10_000
CATALOGUE = "/api/v1/iam/catalogue"
CONNECTIONS = 8


def run() -> Iterator[Line]:
    yield from request(None, "SQLite")
    with Cluster() as cluster:
        # Each its own: a database is of one secret.
        for name in ("request", "revoking"):
            cluster.create(name)
        yield from request(cluster.url("request"), "PostgreSQL")
        with Executed(cluster.url("revoking")) as one:
            yield from revoking(one, cluster.url("revoking"))
        yield from counting(cluster.url("request"))
    with tempfile.TemporaryDirectory() as folder:
        yield from counting(f"sqlite:///{Path(folder) / 'platform.db'}")


def milliseconds(ask: Callable[[], object]) -> float:
    began = time.perf_counter()
    ask()
    return (time.perf_counter() - began) * 1000


def get(connection: http.client.HTTPConnection, path: str, **headers: str) -> int:
    connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    answer.read()
    return answer.status


class Open(Executed):
    """The same platform with the catalogue open to everybody: the very request, without the guard's work."""

    def program(self) -> list[str]:
        opened = (
            "from service.authz.route_policies import ROUTE_POLICIES, RoutePolicy;"
            f"ROUTE_POLICIES['GET', {CATALOGUE!r}] = RoutePolicy('anyone');"
            "from service.__main__ import main; raise SystemExit(main())"
        )
        return ["-c", opened]


def request(url: str | None, name: str) -> Iterator[Line]:
    """The same request with a key and, where it needs none, without."""
    opened = Open(url)
    with Executed(url) as guarded:
        if url:  # one database, so one secret
            share_secret(guarded, opened)
        with opened:
            ratio = with_key_against_without(guarded, opened)
    yield Line(f"a request with a key ({name})", ratio, 1.6, "the same unauthenticated")


def share_secret(one: Running, other: Running) -> None:
    """Have another process on the same database begin with the secret of the first."""
    other.folder.mkdir(mode=0o700)
    shutil.copy(one.folder / "secret.key", other.folder / "secret.key")


def with_key_against_without(guarded: Running, opened: Running) -> float:
    key = Key(guarded, "compute:read", rateLimit=60_000)
    ours, theirs = UnixConnection(guarded.socket), UnixConnection(opened.socket)
    path = f"{CATALOGUE}?filter=compute:instances"
    with_key, without = [], []
    for _ in range(1_500):
        without.append(milliseconds(lambda: get(theirs, path)))
        with_key.append(milliseconds(lambda: get(ours, path, X_API_Key=key.secret)))
    return statistics.median(with_key) / statistics.median(without)


def revoking(one: Running, url: str) -> Iterator[Line]:
    """Requests that start after the answer to the revocation and are let in all the same."""
    other = Executed(url)
    share_secret(one, other)
    with other:
        key = Key(one, "compute:read", rateLimit=60_000)
        over = threading.Event()
        late = [0] * CONNECTIONS

        def ask(number: int) -> None:
            connection = UnixConnection((one, other)[number % 2].socket)
            after = 0
            while after < LATE // CONNECTIONS:
                begun_after = over.is_set()
                let_in = get(connection, "/api/v1/me", X_API_Key=key.secret) == 200
                after += begun_after
                late[number] += begun_after and let_in

        with ThreadPoolExecutor(CONNECTIONS) as threads:
            asking = [threads.submit(ask, number) for number in range(CONNECTIONS)]
            time.sleep(0.5)
            assert key.revoke().status == 200
            over.set()
            for done in asking:
                done.result()
    yield Line(
        f"late successes of a revoked key in {LATE:,}", sum(late), 0, f"{CONNECTIONS} connections, 2 processes", ""
    )


def counting(url: str) -> Iterator[Line]:
    """One check of the rate limit, transaction included."""
    database = Database(url)
    migrate.upgrade(database)

    def count() -> None:
        with database.write() as connection:
            rate_limit.consume(connection, "benchmark", 60_000)

    taken = sorted(milliseconds(count) for _ in range(3_000))
    database.close()
    yield Line(f"a rate limit check ({database.kind})", taken[len(taken) // 2], 1, "the clock", "ms")

"""API keys: the cost of authentication and of the rate limit. Both sides of a ratio take turns on one connection."""

import http.client
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from service.authn.request_limits import LeasedLimits, LocalLimits, leases_of
from service.db import migrate
from service.db.engine import Database
from tests.api import UnixConnection
from tests.benchmarks.ratios import Line, milliseconds
from tests.benchmarks.servers import databases, share_secret
from tests.service.account import Key
from tests.service.running import Executed

CATALOGUE = "/api/v1/iam/catalogue"


def run() -> Iterator[Line]:
    for name, url in databases("request"):
        yield from request(url, name)
        if url:
            yield from counting(url)
    with tempfile.TemporaryDirectory() as folder:
        yield from counting(f"sqlite:///{Path(folder) / 'platform.db'}")


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


def with_key_against_without(guarded: Executed, opened: Executed) -> float:
    key = Key(guarded, "compute:read", rateLimit=60_000)
    ours, theirs = UnixConnection(guarded.socket), UnixConnection(opened.socket)
    path = f"{CATALOGUE}?filter=compute:instances"
    with_key, without = [], []
    for _ in range(1_500):
        without.append(milliseconds(lambda: get(theirs, path)))
        with_key.append(milliseconds(lambda: get(ours, path, X_API_Key=key.secret)))
    return statistics.median(with_key) / statistics.median(without)


def counting(url: str) -> Iterator[Line]:
    """One check of the rate limit, with the leases that it takes."""
    database = Database(url)
    migrate.upgrade(database)

    limits = LocalLimits(database) if database.kind == "sqlite" else LeasedLimits(leases_of(database))

    def count() -> None:
        limits.renew("benchmark", 60_000)

    taken = sorted(milliseconds(count) for _ in range(3_000))
    name = "SQLite" if database.kind == "sqlite" else "PostgreSQL"
    database.close()
    yield Line(f"a rate limit check ({name})", taken[len(taken) // 2], 1, "a fixed limit", "ms")

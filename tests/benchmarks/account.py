"""API keys: the cost of authentication and of the rate limit. Both sides of a ratio take turns on one connection."""

import statistics
import tempfile
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from service.authn.request_limits import LeasedLimits, LocalLimits, leases_of
from service.db import migrate
from service.db.engine import Database
from tests.api import UnixConnection
from tests.benchmarks.ratios import Line, milliseconds, paired
from tests.benchmarks.servers import databases, share_secret
from tests.benchmarks.settings import POSTGRESQL, SQLITE
from tests.service.account import Key
from tests.service.running import Executed, ask_on

CATALOGUE = "/api/v1/iam/catalogue"


def run() -> Iterator[Line]:
    for name, url in databases("request"):
        yield from request(url, name)
        if url:
            yield from counting(url)
    with tempfile.TemporaryDirectory() as folder:
        yield from counting(f"sqlite:///{Path(folder) / 'platform.db'}")


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
            headers = {"X-API-Key": Key(guarded, "compute:read", rateLimit=60_000).secret}
            ours, theirs = UnixConnection(guarded.socket), UnixConnection(opened.socket)
            path = f"{CATALOGUE}?filter=compute:instances"
            with_key, without, _ = paired(
                lambda: milliseconds(partial(ask_on, ours, "GET", path, headers.items())),
                lambda: milliseconds(partial(ask_on, theirs, "GET", path, ())),
                runs=1_500,
            )
    yield Line(f"a request with a key ({name})", with_key / without, 1.6, "the same unauthenticated")


def counting(url: str) -> Iterator[Line]:
    """One check of the rate limit, with the leases that it takes."""
    with closing(Database(url)) as database:
        migrate.upgrade(database)
        is_local = database.kind == "sqlite"
        limits = LocalLimits(database) if is_local else LeasedLimits(leases_of(database))
        taken = statistics.median(milliseconds(partial(limits.renew, "benchmark", 60_000)) for _ in range(3_000))
    yield Line(f"a rate limit check ({SQLITE if is_local else POSTGRESQL})", taken, 1, "a fixed limit", "ms")

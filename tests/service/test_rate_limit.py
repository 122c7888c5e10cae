"""The rate limit of a key: exact under concurrency and across processes."""

import http.client
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from service.authn.rate_limit import RateLimited
from service.authn.request_limits import LeasedLimits, LocalLimits, RequestLimits
from service.db.engine import Database
from tests.homes import UnixConnection
from tests.scaling.replicas import LeaseRows
from tests.service.account import Key
from tests.service.conftest import NewDatabaseUrl
from tests.service.running import Running

SECOND = 1_000_000  # in microseconds


def burst(platforms: list[Running], secret: str, count: int, connections: int = 16) -> Counter[int]:
    """The statuses of `count` requests on so many connections at once, shared out over the processes."""

    def ask(number: int) -> list[int]:
        connection: http.client.HTTPConnection = UnixConnection(platforms[number % len(platforms)].socket)
        statuses = []
        for _ in range(number, count, connections):
            connection.request("GET", "/api/v1/me", headers={"X-API-Key": secret})
            answer = connection.getresponse()
            answer.read()
            statuses.append(answer.status)
        connection.close()
        return statuses

    with ThreadPoolExecutor(connections) as threads:
        return Counter(status for statuses in threads.map(ask, range(connections)) for status in statuses)


def test_of_parallel_requests_those_beyond_the_limit_are_refused(platform: Running) -> None:
    key = Key(platform, "compute:read", rateLimit=4)
    assert burst([platform], key.secret, 5) == {200: 4, 429: 1}
    refused = key.use()
    wait = int(refused.headers["retry-after"])
    body = {"error": "rate limit exceeded", "message": f"Too many requests. Please retry after {wait} seconds."}
    assert (refused.status, refused.json()) == (429, body | {"retry_after": wait})
    assert 1 <= wait <= 15
    # Another key of the same person is not affected, and forged addresses change nothing.
    other = Key(platform, "compute:read", rateLimit=1)
    assert [other.use(**{"X-Forwarded-For": f"203.0.113.{n}"}).status for n in range(4)] == [200, 429, 429, 429]
    # A larger limit counts from the next request on.
    other.manage("PATCH", body={"rateLimit": 60_000})
    assert other.use().status == 200


@pytest.fixture(params=["one process", "replica"])
def limits(request: pytest.FixtureRequest, now: list[int], new_database_url: NewDatabaseUrl) -> RequestLimits:
    """The limits of a process under a clock that the test moves."""
    if request.param == "replica":
        return LeasedLimits(LeaseRows(lambda: now[0]).take_lease, lambda: now[0])
    return LocalLimits(Database(new_database_url("sqlite", True)), lambda: now[0], lambda: now[0])


@pytest.fixture
def now() -> list[int]:
    return [1_900_000_000_000_000]


def test_the_allowance_comes_back_evenly(limits: RequestLimits, now: list[int]) -> None:
    def ask() -> bool:
        with suppress(RateLimited):
            limits.renew("key", 60)
            return True
        return False

    assert [ask() for _ in range(61)] == [True] * 60 + [False]
    now[0] += SECOND - 1
    assert not ask()
    now[0] += 1
    assert [ask() for _ in range(2)] == [True, False]
    now[0] += 29 * SECOND
    assert [ask() for _ in range(30)] == [True] * 29 + [False]
    now[0] += 600 * SECOND
    assert [ask() for _ in range(62)] == [True] * 60 + [False] * 2


def test_a_refusal_has_the_seconds_until_the_next_request(limits: RequestLimits, now: list[int]) -> None:
    def wait(requests: int) -> str | None:
        with pytest.raises(RateLimited) as refused:
            limits.renew("key", 6, requests)
        return (refused.value.headers or {})["Retry-After"]

    for _ in range(6):
        limits.renew("key", 6)
    assert (wait(1), wait(2)) == ("10", "20")
    now[0] += 9 * SECOND + 1
    assert wait(1) == "1"

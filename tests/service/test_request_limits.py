"""Rate limits of keys, sessions and workload identities, counted in one process or in leases, and of guesses."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import event, select, text
from sqlalchemy.exc import DBAPIError
from starlette.requests import Request

from service.api.authorization import Credential, authenticate, look_up
from service.authn.confirmation import find_refused
from service.authn.rate_limit import MAX_FAILURES_PER_ADDRESS, MAX_UNAUTHENTICATED, LoginThrottle, RateLimited
from service.authn.request_limits import LeasedLimits, LocalLimits, RequestLimits
from service.db.batch_writer import BatchWriter
from service.db.engine import Database
from service.db.tables import api_keys, rate_limits
from tests.api import Answer
from tests.people import OWNER
from tests.scaling.replicas import LeaseRows
from tests.service.access import Iam
from tests.service.account import Key
from tests.service.clusters import Cluster, Workload
from tests.service.conftest import KINDS, DemoUrl, NewDatabaseUrl
from tests.service.inside import READ_ONLY, Inside, every_connection
from tests.service.queries import execute, fetch, fetch_scalars
from tests.service.running import Running
from tests.waiting import at_once

SECOND = 1_000_000  # in microseconds


@pytest.fixture
def sqlite(new_database_url: NewDatabaseUrl) -> Iterator[Database]:
    with closing(Database(new_database_url("sqlite", True))) as database:
        yield database


class Clocks:
    def __init__(self) -> None:
        self.steady, self.wall = 0, 1_900_000_000 * SECOND

    def forward(self, microseconds: int) -> None:
        self.steady += microseconds
        self.wall += microseconds

    def start(self, database: Database) -> LocalLimits:
        """Return the limits of a process that starts now."""
        return LocalLimits(database, lambda: self.steady, lambda: self.wall)


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def limits(clocks: Clocks, sqlite: Database) -> LocalLimits:
    return clocks.start(sqlite)


def is_counted(limits: RequestLimits, per_minute: int, name: str = "a key", requests: int = 1) -> bool:
    with suppress(RateLimited):
        if not limits.take(name, per_minute, requests):
            limits.renew(name, per_minute, requests)
        return True
    return False


def stored(database: Database) -> dict[str, int]:
    return {row.key_id: row.full_at for row in fetch(database, select(rate_limits))}


def refusal_after_ten(ask: Callable[[], Answer]) -> Answer:
    """Send requests until one is refused, of which the first ten must not be."""
    assert [ask().status for _ in range(10)] == [200] * 10
    return next(answer for answer in (ask() for _ in range(50)) if answer.status == 429)


@pytest.mark.parametrize("kind", KINDS)
def test_sessions_and_workload_identities_have_limits_of_their_own(kind: str, demo_url: DemoUrl) -> None:
    with Running(demo_url(kind), FROST_PLATFORM_REQUESTS_PER_MINUTE="10") as platform:
        session, other = ({"Authorization": f"Bearer {platform.sign_in(OWNER)}"} for _ in range(2))
        refused = refusal_after_ten(lambda: platform.get("/api/v1/me", headers=session))
        assert 1 <= int(refused.headers["retry-after"]) == refused.json()["retry_after"] <= 6
        # Another session of the same person has its own.
        assert platform.get("/api/v1/me", headers=other).status == 200
        cluster, iam = Cluster(platform), Iam(platform)
        assert cluster.register().status == 200
        for name in ("one", "other"):
            iam.binding(name, ["compute:read"])
        # All tokens of a workload identity count together.
        tokens = itertools.cycle([Workload(cluster, "tests", "one") for _ in range(2)])
        refusal_after_ten(lambda: next(tokens).use())
        assert Workload(cluster, "tests", "other").use().status == 200


def test_a_weight_is_counted_whole_or_not_at_all(limits: LocalLimits, clocks: Clocks) -> None:
    assert [is_counted(limits, 60, requests=25) for _ in range(3)] == [True, True, False]
    assert [is_counted(limits, 60) for _ in range(11)] == [True] * 10 + [False]
    clocks.forward(60 * SECOND)
    # A weight above the allowance is the allowance.
    assert [is_counted(limits, 60, requests=61) for _ in range(2)] == [True, False]


def test_the_allowance_continues_after_a_restart(sqlite: Database, limits: LocalLimits, clocks: Clocks) -> None:
    assert [is_counted(limits, 60) for _ in range(61)] == [True] * 60 + [False]
    # As at a stop.
    BatchWriter(sqlite, [limits]).stop()
    clocks.forward(3 * SECOND)
    restarted = clocks.start(sqlite)
    assert [is_counted(restarted, 60) for _ in range(4)] == [True] * 3 + [False]
    # A wall clock that is set back at a restart locks out no key.
    assert is_counted(restarted, 1, "other")
    BatchWriter(sqlite, [restarted]).flush()
    clocks.wall -= 3_600 * SECOND
    assert is_counted(clocks.start(sqlite), 1, "other")


def test_a_clock_step_changes_nothing_in_a_running_process(limits: LocalLimits, clocks: Clocks) -> None:
    assert [is_counted(limits, 2) for _ in range(3)] == [True, True, False]
    for step in (-3_600, 7_200):
        clocks.wall += step * SECOND
        assert not is_counted(limits, 2)
        clocks.forward(30 * SECOND)
        assert [is_counted(limits, 2) for _ in range(2)] == [True, False]


def test_a_counted_request_needs_no_statement(sqlite: Database, limits: LocalLimits, clocks: Clocks) -> None:
    statements: list[str] = []
    writer = BatchWriter(sqlite, [limits])
    event.listen(sqlite.engine, "before_cursor_execute", lambda *executed: statements.append(executed[2]))
    for _ in range(3):
        assert is_counted(limits, 60, "slow")
        assert is_counted(limits, 60_000, "fast")
    assert statements == []
    clocks.forward(SECOND)
    writer.flush()
    # Three requests of the fast key are restored within 3 ms.
    assert stored(sqlite) == {"slow": clocks.wall + 2 * SECOND}
    statements.clear()
    for _ in range(60):
        clocks.forward(SECOND)
        writer.flush()
    assert statements == []


def test_full_allowances_leave_the_rows_and_the_memory(sqlite: Database, limits: LocalLimits, clocks: Clocks) -> None:
    writer = BatchWriter(sqlite, [limits])
    for name in ("first", "second"):
        assert is_counted(limits, 60, name)
        writer.flush()
        assert set(stored(sqlite)) == {name}
        clocks.forward(60 * SECOND)
    for number in range(1_000):
        clocks.forward(SECOND)
        assert is_counted(limits, 60, str(number))
    assert len(limits._full_at) < 10


def test_an_unwritten_count_is_in_the_next_batch(sqlite: Database, limits: LocalLimits, clocks: Clocks) -> None:
    writer = BatchWriter(sqlite, [limits])
    assert is_counted(limits, 1)
    with every_connection(sqlite, READ_ONLY):
        writer.flush()
    sqlite.engine.dispose()
    assert stored(sqlite) == {}
    writer.flush()
    assert stored(sqlite) == {"a key": clocks.wall + 60 * SECOND}


def test_threads_are_each_counted_and_a_take_waits_for_none(limits: LocalLimits) -> None:
    with ThreadPoolExecutor(16) as threads:
        with limits._lock:
            assert threads.submit(limits.take, "k", 1).result(60) is False
        assert limits.take("k", 1) is True
        assert sum(threads.map(lambda _: is_counted(limits, 500), range(2_000))) == 500


@pytest.fixture(params=["one process", "replica"])
def any_limits(request: pytest.FixtureRequest, clocks: Clocks, sqlite: Database) -> RequestLimits:
    if request.param == "replica":
        return LeasedLimits(LeaseRows(lambda: clocks.wall).take_lease, lambda: clocks.wall)
    return clocks.start(sqlite)


def test_the_allowance_comes_back_evenly(any_limits: RequestLimits, clocks: Clocks) -> None:
    for microseconds, admitted in ((0, 60), (SECOND - 1, 0), (1, 1), (29 * SECOND, 29), (600 * SECOND, 60)):
        clocks.forward(microseconds)
        assert [is_counted(any_limits, 60) for _ in range(62)].count(True) == admitted


def test_a_refusal_has_the_seconds_until_the_next_request(any_limits: RequestLimits, clocks: Clocks) -> None:
    def wait(requests: int) -> str | None:
        with pytest.raises(RateLimited) as refused:
            any_limits.renew("key", 6, requests)
        return (refused.value.headers or {})["Retry-After"]

    for _ in range(6):
        any_limits.renew("key", 6)
    assert (wait(1), wait(2)) == ("10", "20")
    clocks.forward(9 * SECOND + 1)
    assert wait(1) == "1"


def test_of_parallel_requests_those_beyond_the_limit_are_refused(platform: Running) -> None:
    key = Key(platform, "compute:read", rateLimit=4)
    assert Counter(answer.status for answer in at_once([key.use] * 5)) == {200: 4, 429: 1}
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


def use_key(inside: Inside, secret: str) -> int:
    request = Request({"type": "http", "headers": [], "client": ("uid:0", 1), "frost.request_id": "r"})
    try:
        authenticate(inside.platform, request, Credential.of("api_key", secret))
    except RateLimited:
        return 429
    return 200


def test_a_database_that_takes_no_changes_still_knows_its_keys(inside: Inside) -> None:
    secret = inside.stored_key(rate_limit=3)
    with every_connection(inside.platform.database, READ_ONLY):
        assert [use_key(inside, secret) for _ in range(3)] == [200, 200, 200]
        inside.platform.writer.flush()


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_request_that_cannot_be_counted_does_not_pass(inside: Inside, database_url: str) -> None:
    secret = inside.stored_key(rate_limit=60)
    assert use_key(inside, secret) == 200
    inside.platform.writer.flush()
    impatient = every_connection(inside.platform.database, {"postgresql": "SET lock_timeout='20ms'"})
    with closing(Database(database_url)) as other, impatient, other.write() as busy:
        busy.execute(text("UPDATE rate_limits SET full_at = full_at"))
        with pytest.raises(DBAPIError):
            use_key(inside, secret)


@pytest.mark.parametrize(("seconds", "writes"), [(None, 1), (0, 0), (55, 0), (65, 1)])
def test_a_last_use_is_written_once_a_minute(inside: Inside, seconds: int | None, writes: int) -> None:
    used = None if seconds is None else datetime.now(UTC) - timedelta(seconds=seconds)
    secret = inside.stored_key(rate_limit=600, last_used_at=used)
    inside.keep_leases()
    assert use_key(inside, secret) == 200
    inside.forget()
    assert use_key(inside, secret) == 200
    # One query: counting it takes no statement.
    assert [statement.split()[0] for statement in inside.statements] == ["SELECT"]
    inside.forget()
    inside.platform.writer.flush()
    assert sum("UPDATE api_keys" in statement for statement in inside.statements) == writes
    (stored,) = fetch_scalars(inside.platform.database, select(api_keys.c.last_used_at))
    assert (stored != used) == bool(writes)


def is_accepted(attempts: LoginThrottle, address: str) -> bool:
    try:
        attempts.check(address, b"guessed")
        attempts.record_failure(address, looked_up=True)
    except RateLimited:
        return False
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_guesses_from_one_ipv6_network_are_counted(kind: str, new_database_url: Callable[[str, bool], str]) -> None:
    database = Database(new_database_url(kind, True))
    attempts = LoginThrottle(lambda: 0.0, database)
    network = [f"2001:db8:0:7:{number:x}::{number:x}" for number in range(MAX_FAILURES_PER_ADDRESS + 10)]
    accepted = [is_accepted(attempts, address) for address in network]
    # The one at the bound depends on how the sum of the pauses is rounded.
    assert all(accepted[: MAX_FAILURES_PER_ADDRESS - 1])
    assert not any(accepted[MAX_FAILURES_PER_ADDRESS + 1 :])
    assert is_accepted(attempts, "2001:db8:0:8::1")
    database.close()


def test_a_credential_is_refused_from_the_instant_of_its_end(inside: Inside) -> None:
    """Without its secret, as for the protection of a connection."""
    platform = inside.platform
    now = platform.clock.now()
    secret = inside.stored_key(expires_at=now + timedelta(days=1))
    principal = look_up(platform, Credential.of("api_key", secret))
    key_id = str(principal.key_id)
    assert find_refused(platform.database, [principal], now) == []
    assert find_refused(platform.database, [principal], now + timedelta(days=2)) == [key_id]
    execute(platform.database, api_keys.update().values(revoked_at=now))
    assert find_refused(platform.database, [principal], now) == [key_id]


def test_addresses_of_a_network_share_a_limit_of_guesses_and_of_requests_without_a_credential() -> None:
    attempts = LoginThrottle(lambda: 0.0)
    for number in range(4):
        assert sum(is_accepted(attempts, f"192.0.2.{number}") for _ in range(MAX_FAILURES_PER_ADDRESS - 1)) > 290
    while is_accepted(attempts, "192.0.2.5"):
        pass
    assert not is_accepted(attempts, "192.0.2.6")
    assert is_accepted(attempts, "192.0.3.1")
    attempts.record_success("192.0.2.6", b"in use")
    assert attempts.refusal("192.0.2.6", b"in use") is None
    attempts.forget(b"in use")
    assert attempts.refusal("192.0.2.6", b"in use") is not None
    # Guesses are no requests without a credential.
    assert attempts.refusal("192.0.2.6", None) is None
    for number in range(MAX_UNAUTHENTICATED + 1):
        attempts.record_unauthenticated(f"192.0.2.{number % 250}", None)
    assert attempts.refusal("192.0.2.9", None) is not None
    assert attempts.refusal("192.0.3.1", None) is None

"""Leases of a shared allowance never exceed it and use nearly all of it."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.authn.rate_limit import HELD_MICROSECONDS, MINUTE, Grant, RateLimited, interval_of, take_lease
from service.authn.request_limits import LeasedLimits, leases_of
from service.db.engine import Database
from service.db.tables import rate_limits
from tests.scaling.replicas import LeaseRows, Simulation, excess
from tests.service.queries import execute, fetch_scalars

SECOND = 1_000_000  # in microseconds
START = 1_900_000_000 * SECOND
STEPS = st.tuples(
    st.integers(0, 3),  # the replica
    st.sampled_from((0, 1, 1_000, 20_000, 300_000, 2 * SECOND, 61 * SECOND)),  # microseconds since the last step
    st.integers(1, 40),  # requests
    st.sampled_from((1, 1, 1, 5)),  # the weight of each
    st.sampled_from((False, False, False, True)),  # whether the replica is killed before
)


@pytest.fixture
def database(pair: tuple[Database, Database]) -> Database:
    return pair[0]


def test_the_statement_grants_the_same_as_the_model(database: Database) -> None:
    now, numbers = START, random.Random(7)
    rows = LeaseRows(lambda: now)
    grants = []
    with database.write() as connection:
        for _ in range(700):
            now += int(numbers.choice((0, 1, 0.001, 0.1, 1, 30)) * numbers.randrange(SECOND))
            interval = interval_of(numbers.choice((1, 7, 60, 600, 60_000, 1_000_000)))
            needed = min(numbers.choice((1, 1, 1, 5, 100)), MINUTE // interval)
            key, requests = numbers.choice("ab"), numbers.choice((0, 2, 50, 10_000))
            granted = take_lease(connection, key, interval, needed, requests, HELD_MICROSECONDS, now=now)
            assert granted == rows.take_lease(key, interval, needed, requests)
            grants.append(granted.requests)
    assert {0, 1}.issubset(grants)
    assert max(grants) > 50


def test_a_row_far_in_the_future_is_ignored(database: Database) -> None:
    """A step of the server's clock must neither lock a key out nor give it a second allowance."""
    for ahead, granted in ((3_600 * SECOND, 1), (MINUTE + SECOND, 0)):
        with database.write() as connection:
            connection.execute(rate_limits.insert().values(key_id=str(ahead), full_at=START + ahead))
            assert take_lease(connection, str(ahead), interval_of(60), 1, now=START).requests == granted


@settings(max_examples=200)
@given(per_minute=st.sampled_from((1, 7, 60, 600, 60_000)), steps=st.lists(STEPS, max_size=60), seed=st.integers(0, 9))
def test_replicas_never_exceed_the_allowance(
    per_minute: int, steps: list[tuple[int, int, int, int, bool]], seed: int
) -> None:
    simulation, admitted = Simulation(4, drift=0.0004, seed=seed), []
    for number, after, requests, weight, is_killed in steps:
        simulation.now += after
        if is_killed:
            simulation.start_again(number)
        for _ in range(requests):
            if simulation.replicas[number].admits(per_minute, weight):
                admitted += [simulation.now] * min(weight, per_minute)
    assert excess(admitted, per_minute) == 0


def test_a_key_asks_the_database_seldom_whether_it_is_refused_or_busy() -> None:
    simulation = Simulation(1)
    replica, rows = simulation.replicas[0], simulation.rows
    assert [replica.admits(60) for _ in range(61)] == [True] * 60 + [False]
    before = rows.statements
    simulation.now += SECOND - 1
    assert not any(replica.admits(60) for _ in range(1_000))
    assert rows.statements == before
    simulation.now += 1
    assert [replica.admits(60) for _ in range(2)] == [True, False]
    # A changed limit counts from the next request on.
    simulation.now += SECOND
    assert replica.admits(60_000)
    assert [replica.admits(1) for _ in range(2)] == [False, False]
    busy = Simulation(1)
    for _ in range(10_000):
        busy.now += 2_000
        assert busy.replicas[0].admits(60_000)
    assert busy.rows.statements <= 20 * 4


@pytest.mark.parametrize(("options", "per_minute", "pause"), [({"max_leases": 10}, 60_000, 0), ({}, 600, SECOND)])
def test_few_leases_stay_in_memory(options: dict[str, int], per_minute: int, pause: int) -> None:
    now = START
    limits = LeasedLimits(LeaseRows(lambda: now).take_lease, lambda: now, **options)
    for number in range(1_000):
        now += pause
        limits.renew(str(number), per_minute)
    assert len(limits._leases) <= 10


def test_concurrent_requests_of_replicas_get_exactly_the_allowance(database: Database) -> None:
    began = time.monotonic()
    replicas = [LeasedLimits(leases_of(database)) for _ in range(2)]

    def is_admitted(number: int) -> bool:
        limits = replicas[number % 2]
        try:
            if not limits.take("k", 6):
                limits.renew("k", 6)
        except RateLimited:
            return False
        return True

    with ThreadPoolExecutor(16) as threads:
        admitted = sum(threads.map(is_admitted, range(400)))
    # One comes back each 10 s: on a machine that took longer for all of them.
    assert 6 <= admitted <= 6 + int((time.monotonic() - began) / 10)


def test_threads_share_a_lease(database: Database) -> None:
    grants: list[Grant] = []
    take = leases_of(database)

    def noted(*arguments: int) -> Grant:
        grants.append(take(*arguments))  # type: ignore[arg-type]
        return grants[-1]

    # A clock that stops: no lease ends.
    limits = LeasedLimits(noted, lambda: 0)  # type: ignore[arg-type]
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda _: limits.renew("k", 60_000), range(2_000)))
    assert len(grants) < 200
    # No request without a grant. The last requests of a lease may expire.
    assert sum(grant.requests for grant in grants) - limits._leases["k"].unused >= 2_000


def test_a_take_does_not_wait_while_a_lease_is_renewed() -> None:
    rows, requested, answer = LeaseRows(lambda: START), threading.Event(), threading.Event()

    def slow(*arguments: int) -> Grant:
        requested.set()
        assert answer.wait(60)
        return rows.take_lease(*arguments)  # type: ignore[arg-type]

    limits = LeasedLimits(slow, lambda: 0)  # type: ignore[arg-type]
    with ThreadPoolExecutor(1) as threads:
        renewal = threads.submit(limits.renew, "k", 600)
        assert requested.wait(60)
        assert limits.take("k", 600) is False
        answer.set()
        renewal.result()
    assert limits.take("k", 600) is True


def test_a_failed_renewal_keeps_the_unused_requests() -> None:
    now, is_away = START, False
    rows = LeaseRows(lambda: now)

    def take(*arguments: int) -> Grant:
        if is_away:
            raise ConnectionError
        return rows.take_lease(*arguments)  # type: ignore[arg-type]

    limits = LeasedLimits(take, lambda: now)  # type: ignore[arg-type]
    limits.renew("k", 600)
    left = limits._leases["k"].unused
    assert left == 8
    is_away = True
    with pytest.raises(ConnectionError):
        limits.renew("k", 600, left + 1)
    assert limits.take("k", 600, left)


def test_rows_with_a_full_allowance_are_removed_once_a_minute(database: Database) -> None:
    now = 0
    limits = LeasedLimits(leases_of(database), lambda: now)
    execute(database, rate_limits.insert().values(key_id="full", full_at=1))
    limits.renew("k", 1)
    assert not limits.drain()
    now = MINUTE
    assert limits.drain()
    with database.write() as connection:
        limits.write(connection, True)
    assert fetch_scalars(database, rate_limits.select()) == ["k"]
    now = 2 * MINUTE
    assert not limits.drain()

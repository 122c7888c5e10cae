"""Guesses at several replicas of one database are counted together."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from sqlalchemy import func, select, text

from service.authn import secret_format
from service.authn.rate_limit import (
    MAX_FAILURES_PER_ADDRESS,
    MAX_FAILURES_PER_PREFIX,
    LoginThrottle,
    RateLimited,
    consume,
    throttle_key,
)
from service.db.engine import Database
from service.db.tables import rate_limits
from tests.service.inside import Inside
from tests.service.queries import execute
from tests.waiting import until

ADDRESS, ELSEWHERE = "203.0.113.9", "198.51.100.7"


@pytest.fixture
def database(pair: tuple[Database, Database]) -> Database:
    return pair[0]


def guess(replica: LoginThrottle, address: str, prefix: str | None = None, looked_up: bool = True) -> bool:
    try:
        replica.check(address, b"guessed")
        replica.record_failure(address, prefix, looked_up=looked_up)
    except RateLimited:
        return False
    return True


def rows(database: Database) -> int:
    with database.read() as connection:
        return connection.scalar(select(func.count()).select_from(rate_limits)) or 0


def test_replicas_count_the_guesses_of_an_address_together(database: Database) -> None:
    instant = [0.0]
    replicas = [LoginThrottle(lambda: instant[0], database) for _ in range(3)]
    found = [guess(replicas[number % 3], ADDRESS) for number in range(3 * MAX_FAILURES_PER_ADDRESS)]
    # While they guess, one comes back each 0.2 s; counted by each for itself it were three times as many.
    assert MAX_FAILURES_PER_ADDRESS <= sum(found) < 2 * MAX_FAILURES_PER_ADDRESS
    assert not any(found[-30:])
    assert guess(replicas[0], ELSEWHERE)
    # A replica that was just started hears what came back meanwhile, and knows with the next one.
    fresh = LoginThrottle(lambda: instant[0], database)
    found = [guess(fresh, ADDRESS) for _ in range(90)]
    assert sum(found) < 30
    assert not any(found[-30:])
    # Credentials accepted there recently remain accepted, also from such an address.
    replicas[0].record_success(ADDRESS, b"in use")
    replicas[0].check(ADDRESS, b"in use")


def test_replicas_count_the_guesses_of_a_prefix_together(database: Database) -> None:
    replicas = [LoginThrottle(lambda: 0.0, database) for _ in range(3)]
    found = [guess(replicas[number % 3], f"198.51.100.{number}", "fmk_aaaaaaaa") for number in range(150)]
    assert MAX_FAILURES_PER_PREFIX <= sum(found) < 2 * MAX_FAILURES_PER_PREFIX


async def test_only_well_formed_guesses_reach_the_database(
    new_database_url: Callable[[str, bool], str], tmp_path: Path
) -> None:
    inside = Inside(tmp_path, new_database_url("postgresql", True), "empty")
    good = secret_format.mint()
    spoiled = good[:-1] + ("a" if good[-1] != "a" else "b")
    transport = httpx.ASGITransport(inside.app, client=(ADDRESS, 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:

        async def status(secret: str) -> int:
            return (await client.get("/api/v1/me", headers={"X-API-Key": secret})).status_code

        inside.forget()
        statuses = [await status(spoiled) for _ in range(400)]
        assert inside.statements == []
        # Counted all the same, in memory.
        assert MAX_FAILURES_PER_ADDRESS <= statuses.count(401) < 380
        assert 429 in statuses[-20:]  # one comes back each 0.2 seconds
        inside.platform.login_throttle = LoginThrottle(shared=inside.platform.database)
        assert await status(good) == 401
        assert rows(inside.platform.database) == 2
    inside.close()


def test_a_sweeping_and_a_counting_guess_do_not_deadlock(database: Database) -> None:
    other = throttle_key("fmk_bbbbbbbb")
    execute(database, rate_limits.insert().values(key_id=other, full_at=1))
    # A replica's first guess sweeps. The other one has counted its address and comes to its prefix, which is over.
    waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    with ThreadPoolExecutor(1) as threads:
        with database.write() as connection:
            assert consume(connection, throttle_key(ADDRESS), MAX_FAILURES_PER_ADDRESS) is None
            sweeping = threads.submit(guess, LoginThrottle(lambda: 0.0, database), ADDRESS)
            until(lambda: bool(connection.scalar(waiting)))
            assert consume(connection, other, MAX_FAILURES_PER_PREFIX) is None
        assert sweeping.result()

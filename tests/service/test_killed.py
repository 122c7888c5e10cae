"""A platform killed (-9) while clients change things loses nothing and does nothing twice."""

import random
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from service.db.engine import Database
from tests.service import load
from tests.service.conftest import KINDS, DemoUrl
from tests.service.load import Load, Work, require_stored_once
from tests.service.planned import until
from tests.service.running import AURORA, DATA_LAKE, OWNER, WEB_SHOP, Running

CLIENTS: list[tuple[Work, dict[str, str]]] = [
    *[(load.create_keys, {"tenant": WEB_SHOP})] * 8,
    *[(load.create_keys, {"tenant": DATA_LAKE})] * 8,
    *[(load.create_tenants, {"tenant": WEB_SHOP, "organization": AURORA})] * 2,
]
MOMENT_SECONDS = 0.3
"""A platform is killed within this time after the first change that it answered."""
KILLED_AT_START = 0.2
"""How often it is killed once more while it starts."""


@pytest.fixture(params=KINDS)
def platform(request: pytest.FixtureRequest, demo_url: DemoUrl) -> Iterator[Running]:
    with Running(demo_url(request.param), FROST_PLATFORM_PROVISIONING_PACE="0.1") as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("kills", [3, 100])
def test_killed_under_load_nothing_answered_is_lost_or_done_twice(platform: Running, kills: int) -> None:
    chance = random.Random()
    place = {"socket": str(platform.socket), "token": platform.token(OWNER)}
    clients = Load(CLIENTS, chance.randrange(10**6), **place)
    try:
        for _ in range(kills):
            before = len(clients.done())
            until(lambda before=before: len(clients.done()) > before)  # type: ignore[misc]
            time.sleep(chance.uniform(0, MOMENT_SECONDS))
            platform.kill()
            if chance.random() < KILLED_AT_START:
                platform.process = platform.launch()
                time.sleep(chance.uniform(0, 2 * MOMENT_SECONDS))
                platform.kill()
            platform.start()
    finally:
        clients.stop()
    assert len(clients.failures()) >= kills, "the kills met no requests"
    # A dead executor is noticed after 20 s on PostgreSQL.
    until(lambda: platform.get("/api/v1/platform/status").json()["openOperations"] == 0, 120)
    verification = platform.get("/api/v1/platform/audit/verify").json()
    assert verification["ok"], verification
    with closing(Database(platform.database_url)) as database:
        require_stored_once(database, clients)

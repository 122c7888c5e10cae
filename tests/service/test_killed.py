"""A platform killed (-9) while clients change things loses nothing and does nothing twice."""

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from sqlalchemy import func, select

from service.catalogue.operations import roles
from service.catalogue.resource_types import default_limits
from service.db.engine import Database
from service.db.tables import billing_accounts, isolation_projects, operations, tenant_quotas, tenant_roles, tenants
from tests.service import load
from tests.service.conftest import KINDS, DemoUrl
from tests.service.load import Journal, Target, Work, audited_changes, keys_are_stored_once
from tests.service.planned import until
from tests.service.running import AURORA, DATA_LAKE, OWNER, WEB_SHOP, Running

CLIENTS: list[tuple[Work, dict[str, str]]] = [
    *[(load.making_keys, {"tenant": WEB_SHOP})] * 8,
    *[(load.making_keys, {"tenant": DATA_LAKE})] * 8,
    *[(load.making_tenants, {"tenant": WEB_SHOP, "organization": AURORA})] * 2,
]
# One request may meet many kills.
PATIENCE_SECONDS = 600
MOMENT_SECONDS = 0.3
"""A platform is killed within this time after the first change that it answered."""
KILLED_AT_START = 0.2
"""How often it is killed once more while it starts."""

PARTS = {isolation_projects: 1, tenant_roles: len(roles()), tenant_quotas: len(default_limits()), billing_accounts: 1}
"""The rows of a provisioned tenant."""


@pytest.fixture(params=KINDS)
def platform(request: pytest.FixtureRequest, demo_url: DemoUrl) -> Iterator[Running]:
    with Running(demo_url(request.param), FROST_PLATFORM_PROVISIONING_PACE="0.1") as running:
        yield running


class Load:
    """Clients in threads, whose journals grow while they work."""

    def __init__(self, platform: Running, seed: int) -> None:
        place = {"port": 0, "socket": str(platform.socket), "token": platform.token(OWNER)}
        end = {"until": float("inf"), "patience": PATIENCE_SECONDS}
        self.targets = [
            Target(**place, **end, **more, seed=seed + number)  # type: ignore[arg-type]
            for number, (_, more) in enumerate(CLIENTS)
        ]
        self.journals = [Journal() for _ in CLIENTS]
        self.threads = ThreadPoolExecutor(len(CLIENTS))
        self.ends = [
            self.threads.submit(load.worked, work, target, journal)
            for (work, _), target, journal in zip(CLIENTS, self.targets, self.journals, strict=True)
        ]

    @property
    def answers(self) -> int:
        return sum(len(journal.done) for journal in self.journals)

    def stop(self) -> None:
        for target in self.targets:
            target.until = 0.0
        for end in self.ends:
            end.result(PATIENCE_SECONDS)

    def done(self, work: Work) -> list[dict[str, str]]:
        return [
            one for (own, _), journal in zip(CLIENTS, self.journals, strict=True) if own is work for one in journal.done
        ]


def require_stored_once(database: Database, clients: Load) -> None:
    log = audited_changes(database)
    keys_are_stored_once(database, log, clients.done(load.making_keys))
    with database.read() as connection:
        stored = connection.execute(select(tenants).where(tenants.c.display_name.startswith("Load "))).all()
        attempts = connection.scalars(
            select(operations.c.steps).where(operations.c.tenant_id.in_(row.id for row in stored))
        )
        assert {step["attempts"] for steps in attempts for step in steps} == {1}
        for table, number in PARTS.items():
            counts = select(table.c.tenant_id, func.count()).group_by(table.c.tenant_id)
            parts = {row[0]: row[1] for row in connection.execute(counts)}
            assert {parts.get(row.id) for row in stored} == {number}, table.name
    answered = clients.done(load.making_tenants)
    assert {row.id for row in stored} == {one["id"] for one in answered}
    assert len({row.display_name for row in stored}) == len(answered)
    assert {row.status for row in stored} == {"active"}
    for name in ("tenant.create", "tenant.provision"):
        assert {log[name, f"tenant:{row.id}"] for row in stored} == {1}


@pytest.mark.slow
@pytest.mark.parametrize("kills", [3, 100])
def test_killed_under_load_nothing_answered_is_lost_or_done_twice(platform: Running, kills: int) -> None:
    chance = random.Random()
    clients = Load(platform, chance.randrange(10**6))
    try:
        for _ in range(kills):
            before = clients.answers
            until(lambda before=before: clients.answers > before)  # type: ignore[misc]
            time.sleep(chance.uniform(0, MOMENT_SECONDS))
            platform.kill()
            if chance.random() < KILLED_AT_START:
                platform.process = platform.launch()
                time.sleep(chance.uniform(0, 2 * MOMENT_SECONDS))
                platform.kill()
            platform.start()
    finally:
        clients.stop()
    assert not [journal.error for journal in clients.journals if journal.error]
    assert sum(len(journal.failures) for journal in clients.journals) >= kills, "the kills met no requests"
    # A dead executor is noticed after 20 s on PostgreSQL.
    until(lambda: platform.get("/api/v1/platform/status").json()["openOperations"] == 0, 120)
    verification = platform.get("/api/v1/platform/audit/verify").json()
    assert verification["ok"], verification
    with closing(Database(platform.database_url)) as database:
        require_stored_once(database, clients)

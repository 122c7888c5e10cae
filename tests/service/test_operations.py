"""Operations over HTTP, and the real process killed at many moments."""

import random
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import func, select, update

from service.catalogue.operations import roles
from service.catalogue.resource_types import default_limits
from service.db.engine import Database
from service.db.tables import audit_log, billing_accounts, isolation_projects, operations, tenant_quotas, tenant_roles
from tests.service.live import Live
from tests.service.planned import until
from tests.service.running import DATA_LAKE, SANDBOX, WEB_SHOP

pytestmark = pytest.mark.slow


@pytest.fixture
def platform(database_url: str) -> Iterator[Live]:
    with Live(database_url) as platform:
        yield platform


def operation(platform: Live, token: str, tenant: dict[str, Any]) -> Any:
    return platform.read(f"/api/v1/tenants/{tenant['id']}/operations/{tenant['runId']}", token)


def is_over(platform: Live, token: str, tenant: dict[str, Any]) -> bool:
    return bool(operation(platform, token, tenant)["status"] == "completed")


def parts(database: Database, tenant_id: str) -> tuple[int, ...]:
    with database.read() as connection:
        return tuple(
            connection.scalar(select(func.count()).where(table.c.tenant_id == tenant_id)) or 0
            for table in (isolation_projects, tenant_roles, tenant_quotas, billing_accounts)
        )


WHOLE = (1, len(roles()), len(default_limits()), 1)


def test_the_operation_of_a_new_tenant_shows_its_provisioning(platform: Live) -> None:
    token = platform.owner()
    tenant = platform.create_tenant(token, "Telescope")
    assert tenant["status"] == "provisioning"
    assert tenant["operationId"] == f"provision-tenant-{tenant['id']}"
    path = f"/api/v1/tenants/{tenant['id']}"
    seen: list[dict[str, Any]] = []

    def over() -> bool:
        seen.append(operation(platform, token, tenant))
        return bool(seen[-1]["status"] == "completed")

    until(over)
    assert [one["seq"] for one in seen] == sorted(one["seq"] for one in seen)
    assert {one["status"] for one in seen} <= {"pending", "running", "completed"}
    last = seen[-1]
    assert last["progress"] == 100
    assert [step["name"] for step in last["steps"]] == ["isolation", "roles", "quotas", "billing_account"]
    assert {step["status"] for step in last["steps"]} == {"completed"}
    assert set(last) == {
        *("operationId", "runId", "status", "resourceType", "resourceId", "tenantId", "kind", "progress"),
        *("currentStep", "steps", "createdAt", "startedAt", "completedAt", "updatedAt", "seq", "stalled", "startedBy"),
    }
    assert (last["kind"], last["resourceType"], last["resourceId"]) == ("provision_tenant", "tenant", tenant["id"])
    assert last["startedBy"] == platform.read("/api/v1/me", token)["id"]
    before = {name: value for name, value in tenant.items() if name not in ("status", "operationId", "runId")}
    after = platform.read(path, token)
    assert after == before | {"status": "active"}
    assert platform.read(f"{path}/operations/{last['operationId']}", token) == last
    assert platform.read(f"{path}/operations", token) == {"operations": [last]}


def test_the_unfinished_tenant_of_the_seed_is_provisioned_with_retries(platform: Live) -> None:
    token = platform.owner()
    errors: set[tuple[str, str]] = set()

    def over() -> bool:
        run = platform.read(f"/api/v1/tenants/{SANDBOX}/operations", token)["operations"][0]
        errors.update((s["name"], s["error"]) for s in run["steps"] if s["status"] == "retrying")
        return bool(run["status"] == "completed")

    until(over)
    assert errors <= {("billing_account", "billing backend unavailable")}
    run = platform.read(f"/api/v1/tenants/{SANDBOX}/operations", token)["operations"][0]
    assert [step["attempts"] for step in run["steps"]] == [1, 1, 1, 3]


def test_an_absent_or_foreign_operation_is_the_same_404(platform: Live) -> None:
    token = platform.owner()
    foreign = platform.read(f"/api/v1/tenants/{DATA_LAKE}/operations", token)["operations"][0]
    answers = [
        platform.call("GET", f"/api/v1/tenants/{WEB_SHOP}/operations/{identifier}", token)
        for identifier in (uuid4(), "nothing", foreign["runId"], foreign["operationId"], "%27%20OR%201=1", "%00")
    ]
    for answer in answers[:-1]:
        assert answer.status == 404
        assert answer.json() == {"error": {"code": "NOT_FOUND", "message": "operation not found"}}
    assert answers[-1].status == 404


def test_operators_list_all_operations_with_open_and_stalled_ones(database_url: str) -> None:
    with Live(database_url, pace=600) as platform, closing(Database(platform.database_url)) as database:
        token = platform.owner()
        until(lambda: operation_named(platform, "Sandbox")["status"] == "running")
        created = platform.create_tenant(token, "Telescope")
        until(lambda: operation_named(platform, "Telescope")["status"] == "running")
        listed = platform.read("/api/v1/platform/operations")["operations"]
        assert [one["tenantName"] for one in listed[:2]] == ["Sandbox", "Telescope"]
        assert listed[1]["tenantId"] == created["id"]
        assert {one["status"] for one in listed[2:]} == {"completed"}
        assert len(listed) > 2
        status = platform.read("/api/v1/platform/status")
        assert (status["openOperations"], status["stalledOperations"]) == (2, 0)
        now = datetime.now(UTC)
        with database.write() as connection:
            # Also those that are over: they are still for good, and nothing to worry about.
            connection.execute(update(operations).values(updated_at=now - timedelta(seconds=61)))
            connection.execute(update(operations).where(operations.c.tenant_id == SANDBOX).values(updated_at=now))
        listed = platform.read("/api/v1/platform/operations")["operations"]
        assert [one["tenantName"] for one in listed if one["stalled"]] == ["Telescope"]
        assert operation(platform, token, created)["stalled"] is True
        assert platform.read("/api/v1/platform/status")["stalledOperations"] == 1


def operation_named(platform: Live, tenant_name: str) -> dict[str, Any]:
    listed = platform.read("/api/v1/platform/operations")["operations"]
    return dict(next(one for one in listed if one["tenantName"] == tenant_name))


def killed_and_restarted(database_url: str, times: int, seed: int) -> None:
    """Kills the process that often, each time in the middle of provisioning a tenant, and looks at what is left."""
    moments = random.Random(seed)
    cut_short = 0
    with Live(database_url) as platform, closing(Database(platform.database_url)) as database:
        token = platform.owner()
        tenants = []
        for number in range(times):
            tenants.append(platform.create_tenant(token, f"Telescope {number}"))
            until(lambda: operation(platform, token, tenants[-1])["status"] != "pending", 30)
            # Four steps of 0.05 s take a little over 0.2 s.
            time.sleep(moments.uniform(0, 0.22))
            platform.kill()
            for tenant in tenants:
                assert all(have in (0, whole) for have, whole in zip(parts(database, tenant["id"]), WHOLE, strict=True))
            cut_short += parts(database, tenants[-1]["id"]) != WHOLE
            platform.start()
        # One life long enough for what the kills left; a dead PostgreSQL executor is noticed after 20 s.
        until(lambda: all(is_over(platform, token, tenant) for tenant in tenants), 120)
        for tenant in tenants:
            run = operation(platform, token, tenant)
            assert {step["attempts"] for step in run["steps"]} == {1}
            assert run["seq"] == 8
            assert parts(database, tenant["id"]) == WHOLE
            assert platform.read(f"/api/v1/tenants/{tenant['id']}", token)["status"] == "active"
        with database.read() as connection:
            audited = select(func.count()).where(
                audit_log.c.operation == "tenant.provision",
                audit_log.c.tenant_id.in_([tenant["id"] for tenant in tenants]),
            )
            assert connection.scalar(audited) == times
    assert cut_short >= times / 2, "most kills came too early or too late to prove anything"


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_killed_10_times_nothing_is_lost_or_done_twice(database_url: str) -> None:
    killed_and_restarted(database_url, 10, seed=1)


@pytest.mark.parametrize("seed", [2, 3])
def test_killed_100_times_nothing_is_lost_or_done_twice(database_url: str, seed: int) -> None:
    killed_and_restarted(database_url, 100, seed)

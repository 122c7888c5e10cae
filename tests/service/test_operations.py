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
from tests.service.running import SANDBOX, WEB_SHOP

pytestmark = pytest.mark.slow


@pytest.fixture
def platform(database_url: str) -> Iterator[Live]:
    with Live(database_url) as platform:
        yield platform


def operation(platform: Live, token: str, tenant: dict[str, Any]) -> Any:
    return platform.read(f"/api/v1/tenants/{tenant['id']}/operations/{tenant['runId']}", token)


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

    def is_completed() -> bool:
        seen.append(operation(platform, token, tenant))
        return bool(seen[-1]["status"] == "completed")

    until(is_completed)
    assert [one["seq"] for one in seen] == sorted(one["seq"] for one in seen)
    assert {one["status"] for one in seen} <= {"pending", "running", "completed"}
    last = seen[-1]
    assert last["progress"] == 100
    steps = [(step["name"], step["status"]) for step in last["steps"]]
    assert steps == [(name, "completed") for name in ("isolation", "roles", "quotas", "billing_account")]
    assert set(last) == {
        *("operationId", "runId", "status", "resourceType", "resourceId", "tenantId", "kind", "progress"),
        *("currentStep", "steps", "createdAt", "startedAt", "completedAt", "updatedAt", "seq", "stalled", "startedBy"),
    }
    assert (last["kind"], last["resourceType"], last["resourceId"]) == ("provision_tenant", "tenant", tenant["id"])
    assert last["startedBy"] == platform.read("/api/v1/me", token)["id"]
    before = {name: value for name, value in tenant.items() if name not in ("status", "operationId", "runId")}
    assert platform.read(path, token) == before | {"status": "active"}
    assert platform.read(f"{path}/operations/{last['operationId']}", token) == last
    assert platform.read(f"{path}/operations", token) == {"operations": [last]}
    # Of another tenant it is not found, as if it did not exist.
    for identifier in (uuid4(), "nothing", last["runId"], last["operationId"], "%27%20OR%201=1"):
        answer = platform.call("GET", f"/api/v1/tenants/{WEB_SHOP}/operations/{identifier}", token)
        assert answer.status == 404
        assert answer.json() == {"error": {"code": "NOT_FOUND", "message": "operation not found"}}
    assert platform.call("GET", f"/api/v1/tenants/{WEB_SHOP}/operations/%00", token).status == 404


def sandbox_operation(platform: Live, token: str) -> dict[str, Any]:
    return dict(platform.read(f"/api/v1/tenants/{SANDBOX}/operations", token)["operations"][0])


def test_the_unfinished_tenant_of_the_seed_is_provisioned_with_retries(platform: Live) -> None:
    token, errors = platform.owner(), set[tuple[str, str]]()

    def is_completed() -> bool:
        run = sandbox_operation(platform, token)
        errors.update((step["name"], step["error"]) for step in run["steps"] if step["status"] == "retrying")
        return bool(run["status"] == "completed")

    until(is_completed)
    assert errors <= {("billing_account", "billing backend unavailable")}
    assert [step["attempts"] for step in sandbox_operation(platform, token)["steps"]] == [1, 1, 1, 3]


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
        until(lambda: all(operation(platform, token, one)["status"] == "completed" for one in tenants), 120)
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

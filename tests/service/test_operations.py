"""Operations over HTTP."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import update

from service.db.engine import Database
from service.db.tables import operations
from tests.people import SANDBOX, WEB_SHOP
from tests.service.live import Live
from tests.waiting import until

pytestmark = pytest.mark.slow


@pytest.fixture
def platform(database_url: str) -> Iterator[Live]:
    with Live(database_url) as platform:
        yield platform


def operation(platform: Live, token: str, tenant: dict[str, Any]) -> Any:
    return platform.read(f"/api/v1/tenants/{tenant['id']}/operations/{tenant['runId']}", token)


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
        answer = platform.request("GET", f"/api/v1/tenants/{WEB_SHOP}/operations/{identifier}", token=token)
        assert answer.status == 404
        assert answer.json() == {"error": {"code": "NOT_FOUND", "message": "operation not found"}}
    assert platform.request("GET", f"/api/v1/tenants/{WEB_SHOP}/operations/%00", token=token).status == 404


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
            # Ended runs do not change any more and are not stalled.
            connection.execute(update(operations).values(updated_at=now - timedelta(seconds=61)))
            connection.execute(update(operations).where(operations.c.tenant_id == SANDBOX).values(updated_at=now))
        listed = platform.read("/api/v1/platform/operations")["operations"]
        assert [one["tenantName"] for one in listed if one["stalled"]] == ["Telescope"]
        assert operation(platform, token, created)["stalled"] is True
        assert platform.read("/api/v1/platform/status")["stalledOperations"] == 1


def operation_named(platform: Live, tenant_name: str) -> dict[str, Any]:
    listed = platform.read("/api/v1/platform/operations")["operations"]
    return dict(next(one for one in listed if one["tenantName"] == tenant_name))

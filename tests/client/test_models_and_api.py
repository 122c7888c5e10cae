"""Models on the wire, and the asynchronous client's areas over a real socket."""

import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.api import account, operations, platform, tenants
from client.errors import FrostError
from client.models.account import Me
from client.models.base import instant_text
from client.models.tenants import Operation, Tenant
from client.transport.async_client import AsyncClient
from client.transport.exchange import RequestLogEntry
from tests.client.wire import Context, Service, answer

TENANT: dict[str, Any] = {
    "id": "0b6a2c1e-0000-4000-8000-000000000001",
    "displayName": "Web Shop",
    "slug": "web-shop",
    "status": "active",
    "organizationId": "o-1",
    "organizationName": "Aurora Labs",
    "role": "owner",
    "defaultTagCount": 3,
    "createdAt": "2026-01-02T03:04:05Z",
    "updatedAt": "2026-01-02T03:04:05.250Z",
}
OPERATION: dict[str, Any] = {
    "operationId": "provision-tenant-t",
    "runId": "r-1",
    "status": "running",
    "resourceType": "tenant",
    "resourceId": "t",
    "tenantId": "t",
    "kind": "provision_tenant",
    "progress": 25,
    "currentStep": "roles (2/4)",
    "steps": [
        {
            "name": "isolation",
            "status": "completed",
            "attempts": 1,
            "startedAt": "2026-01-02T03:04:05Z",
            "completedAt": "2026-01-02T03:04:06Z",
            "error": None,
        }
    ],
    "createdAt": "2026-01-02T03:04:05Z",
    "startedAt": None,
    "completedAt": None,
    "updatedAt": "2026-01-02T03:04:05Z",
    "seq": 4,
    "startedBy": "owner@aurora.example",
}


@pytest.mark.parametrize(("model", "record"), [(Tenant, TENANT), (Operation, OPERATION)])
def test_a_record_goes_back_to_the_wire_as_it_came(model: Any, record: dict[str, Any]) -> None:
    assert model.model_validate(record).wire() == record
    assert model.model_validate({**record, "fromTheFuture": {"x": 1}}).wire() == record


def test_a_status_of_the_future_is_kept_as_sent() -> None:
    assert Tenant.model_validate({**TENANT, "status": "hibernating"}).status == "hibernating"
    operation = Operation.model_validate({**OPERATION, "status": "pausing"})
    assert (operation.status, operation.open) == ("pausing", True)
    assert not Operation.model_validate({**OPERATION, "status": "failed"}).open


def test_an_unknown_use_is_not_zero() -> None:
    tightest = {"resourceType": "ram", "used": None, "limit": 1024, "unit": "mb"}
    tenant = Tenant.model_validate({**TENANT, "tightestQuota": tightest})
    assert tenant.tightest_quota is not None
    assert tenant.tightest_quota.used is None
    assert tenant.wire()["tightestQuota"] == tightest
    assert Tenant.model_validate({**TENANT, "tightestQuota": None}).wire()["tightestQuota"] is None


def test_members_that_were_never_given_are_left_out() -> None:
    assert Me(id="u", email="a@b.example").wire() == {"id": "u", "email": "a@b.example"}


@given(st.datetimes(timezones=st.just(UTC)))
def test_an_instant_is_written_in_utc_with_whole_milliseconds(instant: datetime) -> None:
    text = instant_text(instant)
    assert text.endswith("Z")
    assert datetime.fromisoformat(text) == instant.replace(microsecond=instant.microsecond // 1000 * 1000)


def modules_after(code: str) -> set[str]:
    """What a fresh interpreter has loaded after `code`."""
    script = f"import sys\n{code}\nprint(*sys.modules, sep='\\n')"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(found.stdout.split())


async def test_calls_answer_with_models_and_the_driver_has_the_latency() -> None:
    told: list[RequestLogEntry] = []
    given_answers = [
        answer(200, {"id": "u", "tenantId": TENANT["id"]}, X_Frost_Version="9.9"),
        answer(200, {"organizations": [{"id": "o", "name": "Aurora Labs", "slug": "aurora", "role": "owner"}]}),
        answer(200, {"tenants": [TENANT], "defaultTenantId": TENANT["id"]}),
        answer(201, {**TENANT, "status": "provisioning", "operationId": "op", "runId": "r"}),
        answer(200, {**TENANT, "displayName": "Shop"}),
        answer(200, TENANT),
        answer(200, OPERATION),
        answer(200, {"operations": [OPERATION]}),
        answer(200, {"operations": [{**OPERATION, "tenantName": "Web Shop"}]}),
        answer(200, {"version": "1", "pid": 7, "startedAt": "2026-01-02T03:04:05Z"}),
        answer(204),
    ]
    with Service(*given_answers) as service:
        async with AsyncClient(Context(service.endpoint), on_reply=told.append) as client:
            before = client.latency_ms
            assert (await client.ask(account.me())).tenant_id == TENANT["id"]
            assert [found.role for found in await client.ask(account.organizations())] == ["owner"]
            listed = await client.ask(tenants.list_all(usage=True))
            assert (listed.tenants[0].wire(), listed.default_tenant_id) == (TENANT, TENANT["id"])
            created = await client.ask(tenants.create("o", "Web Shop"))
            assert (created.status, created.operation_id, created.run_id) == ("provisioning", "op", "r")
            assert (await client.ask(tenants.rename("t", "Shop"))).display_name == "Shop"
            assert (await client.ask(tenants.get("t"))).slug == "web-shop"
            assert (await client.ask(operations.get("t", "r-1"))).steps[0].name == "isolation"
            assert (await client.ask(operations.list_of("t")))[0].seq == 4
            assert (await client.ask(platform.operations()))[0].tenant_name == "Web Shop"
            assert (await client.ask(platform.status())).pid == 7
            await client.ask(account.end_session())
            after = client.latency_ms
    assert before is None
    assert after is not None
    assert service.heard[2].target == "/api/v1/tenants?include=usage"
    assert told[0].platform_version == "9.9"
    assert len(told) == len(service.heard) == len(given_answers)


async def test_a_record_without_what_it_must_have_is_not_believed() -> None:
    with Service(answer(200, {**TENANT, "createdAt": "yesterday\x1b"})) as service:
        async with AsyncClient(Context(service.endpoint)) as client:
            with pytest.raises(FrostError) as caught:
                await client.ask(tenants.get("t"))
    assert caught.value.code == "BAD_ANSWER"
    assert "createdAt" in caught.value.message
    assert "yesterday" not in caught.value.message


def test_the_asynchronous_driver_imports_no_calls_and_no_models() -> None:
    loaded = modules_after("from client.transport.async_client import AsyncClient")
    assert not {name for name in loaded if name.startswith(("client.api.", "client.models.")) or name == "pydantic"}


def test_the_blocking_driver_is_light() -> None:
    heavy = {"asyncio", "httpx", "pydantic", "dataclasses", "urllib.request", "rich", "uuid", "subprocess", "logging"}
    assert not heavy & modules_after("import client.transport.blocking_client, client.api.tenants")

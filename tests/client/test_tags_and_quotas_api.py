"""The areas of default tags, quotas and the staff's review for screens and library, over a real socket."""

import json
from typing import Any

import pytest

from client.api import default_tags, platform, quotas
from client.errors import FrostError
from client.models.default_tags import ApplyProgress, ApplyResult, ApplyRun
from client.models.quotas import QuotaRequest
from client.models.tenants import Operation
from client.transport.async_client import AsyncClient
from tests.client.wire import Context, Service, answer

COUNTS = {"examined": 9, "updated": 4, "unchanged": 3, "skipped": 1, "failed": 1}
RESULT: dict[str, Any] = {
    "appliedTags": {"env": "prod"},
    "summary": COUNTS,
    "byType": {"volume": COUNTS},
    "failures": [{"resourceType": "volume", "resourceId": "", "reason": "backend_unavailable", "message": "later"}],
    "failuresTruncated": False,
    "skipped": [{"resourceType": "image", "resourceId": "i", "resourceName": "n", "reason": "image"}],
    "skippedTruncated": True,
    "affected": {"volume": {"env": 4}},
}
RUN: dict[str, Any] = {
    "runId": "r",
    "kind": "undo",
    "status": "completed",
    "startedAt": "2026-01-02T03:04:05Z",
    "completedAt": None,
    "appliedTags": {"env": "prod"},
    "summary": COUNTS,
    "startedBy": {"id": "u", "name": "A", "email": "a@b.example"},
    "undoable": False,
    "undoneBy": None,
    "undoes": "r0",
}
REQUEST: dict[str, Any] = {
    "id": "q",
    "scope": "organization",
    "tenantId": None,
    "organizationId": "o",
    "resourceType": "vcpu",
    "unit": "count",
    "from": 10,
    "limit": 20,
    "reason": "launch",
    "status": "pending",
    "decision": None,
    "details": None,
    "requestedBy": {"id": "u", "name": "A", "email": ""},
    "createdAt": "2026-01-02T03:04:05Z",
    "decidedAt": None,
    "decidedBy": None,
}
QUOTA = {"resourceType": "vcpu", "title": "vCPUs", "used": None, "creating": None, "limit": 5, "unit": "count"}


@pytest.mark.parametrize(("model", "record"), [(ApplyResult, RESULT), (ApplyRun, RUN), (QuotaRequest, REQUEST)])
def test_a_record_goes_back_to_the_wire_as_it_came(model: Any, record: dict[str, Any]) -> None:
    assert model.model_validate(record).wire() == record
    assert model.model_validate({**record, "fromTheFuture": 1}).wire() == record


def test_a_running_apply_has_what_is_counted_so_far() -> None:
    document = {"operationId": "o", "status": "running", "createdAt": "2026-01-02T03:04:05Z"}
    operation = Operation.model_validate({**document, "counts": {"summary": COUNTS, "byType": {}}})
    assert ApplyProgress.model_validate(operation.counts).summary.updated == 4


async def test_default_tags_come_with_their_version_and_are_written_from_one() -> None:
    stale = answer(412, {"error": {"code": "STALE_VERSION", "message": "no"}})
    answers = [
        answer(200, {"tags": {"a": "1"}}, ETag='"7"'),
        answer(200, {"tags": {"a": "2"}}, ETag='"8"'),
        stale,
        answer(200, {"versions": [{"version": 1, "tags": {}, "changedAt": "2026-01-02T03:04:05Z"}], "nextCursor": ""}),
        answer(202, {"operationId": "apply-default-tags-t", "runId": "r", "status": "pending"}),
        answer(409, {"error": {"code": "APPLY_IN_PROGRESS", "message": "no", "operationId": "op", "runId": "r1"}}),
        answer(200, RESULT),
        answer(200, {"runs": [RUN]}),
        answer(200, RESULT),
        answer(202, {"operationId": "undo-default-tags-t", "runId": "r2"}),
    ]
    with Service(*answers) as service:
        async with AsyncClient(Context(service.endpoint)) as client:
            found = await client.versioned(default_tags.get("t"))
            assert (found.record.tags, found.version) == ({"a": "1"}, 7)
            assert (await client.versioned(default_tags.put("t", {"a": "2"}, found.version))).version == 8
            with pytest.raises(FrostError) as caught:
                await client.ask(default_tags.put("t", {"a": "3"}, 7))
            assert caught.value.code == "STALE_VERSION"
            assert [one.version async for page in client.pages(default_tags.history_page("t")) for one in page] == [1]
            assert (await client.ask(default_tags.apply("t"))).run_id == "r"
            with pytest.raises(FrostError) as caught:
                await client.ask(default_tags.apply("t"))
            assert (caught.value.operation_id, caught.value.run_id) == ("op", "r1")
            assert (await client.ask(default_tags.preview("t", {"x": "y"}))).affected == {"volume": {"env": 4}}
            assert (await client.ask(default_tags.runs("t")))[0].undoes == "r0"
            assert (await client.ask(default_tags.undo_preview("t", "r"))).summary.updated == 4
            assert (await client.ask(default_tags.undo("t", "r"))).operation_id == "undo-default-tags-t"
    heard = service.heard
    assert heard[1].headers["if-match"] == '"7"'
    assert [json.loads(one.body) for one in heard if one.body] == [
        {"tags": {"a": "2"}},
        {"tags": {"a": "3"}},
        {"tags": {"x": "y"}},
        {"preview": True},
        {"preview": False},
    ]
    assert heard[-1].target == "/api/v1/tenants/t/default-tags/runs/r/undo"


async def test_quotas_of_tenants_and_organizations_and_requests_for_others() -> None:
    report = {"report": {"scope": "tenant", "quotas": [QUOTA]}}
    shares = [{"tenantId": "t", "displayName": None, "limit": 5, "used": None}]
    organization = {"report": {"quotas": [{**QUOTA, "allocated": 5, "tenants": shares}]}}
    page = answer(200, {"requests": [REQUEST], "nextCursor": ""})
    made = answer(201, {"request": REQUEST})

    def tenant(heard: Any) -> list[bytes]:
        if heard.target.endswith("/quotas-report"):
            return [answer(200, report)]
        return [answer(200, {"images": 2, "imageStorageGb": None if heard.target.endswith("/usage") else 9})]

    with Service(tenant, tenant, tenant, answer(200, organization), page, page, made, made, page, made) as service:
        async with AsyncClient(Context(service.endpoint)) as client:
            found = await quotas.load(client.ask, "t")
            assert [(one.resource_type, one.used, one.limit) for one in found] == [
                ("vcpu", None, 5),
                ("image", 2, 2),
                ("image_storage", None, 9),
            ]
            whole = await client.ask(quotas.organization_report("o"))
            assert (whole[0].allocated, whole[0].tenants[0].display_name) == (5, None)
            listed = [one async for page in client.pages(quotas.request_page("t")) for one in page]
            listed += [one async for page in client.pages(quotas.organization_request_page("o")) for one in page]
            assert [one.limit_before for one in listed] == [10, 10]
            assert (await client.ask(quotas.request("t", "vcpu", 20, "launch"))).status == "pending"
            assert (await client.ask(quotas.request_organization("o", "vcpu", 20, "launch"))).id == "q"
            assert [one.id async for page in client.pages(platform.quota_request_page("pending")) for one in page] == [
                "q"
            ]
            assert (await client.ask(platform.review_quota("q", approve=False, note="no"))).id == "q"
    assert json.loads(service.heard[-1].body) == {"decision": "reject", "note": "no"}
    keys = {one.headers.get("idempotency-key") for one in service.heard if one.method == "POST"}
    assert len(keys) == 3  # two requests of their own, and a review without one


@pytest.mark.parametrize("tag", ["", "7", '"x"', 'W/"7"', '""', '"-1"', f'"{"9" * 30}"', '"７"'])
async def test_a_tag_that_is_no_version_is_none(tag: str) -> None:
    headers = {"ETag": tag.encode().decode("latin-1")} if tag else {}
    with Service(answer(200, {"tags": {}}, **headers)) as service:
        async with AsyncClient(Context(service.endpoint)) as client:
            assert (await client.versioned(default_tags.get("t"))).version is None


def test_a_report_that_has_images_itself_gets_no_second_ones() -> None:
    report = {"report": {"quotas": [{**QUOTA, "resourceType": "image"}]}}
    found = quotas.complete(report, {"images": 3, "imageStorageGb": True}, {"images": 1})
    assert [one["resourceType"] for one in found] == ["image"]

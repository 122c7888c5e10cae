"""Models and calls of default tags and quotas."""

import json
from typing import Any

import pytest

from client.api import default_tags, platform, quotas
from client.errors import FrostError
from client.models.default_tags import ApplyProgress, ApplyResult, ApplyRun
from client.models.operations import Operation
from client.models.quotas import QuotaRequest
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


def test_a_running_apply_has_its_counts() -> None:
    document = {"operationId": "o", "status": "running", "createdAt": "2026-01-02T03:04:05Z"}
    operation = Operation.model_validate({**document, "counts": {"summary": COUNTS, "byType": {}}})
    assert ApplyProgress.model_validate(operation.counts).summary.updated == 4


async def test_default_tags_come_with_their_version_and_are_written_from_one() -> None:
    answers = [
        answer(200, {"tags": {"a": "1"}}, ETag='"7"'),
        answer(200, {"tags": {"a": "2"}}, ETag='"8"'),
        answer(409, {"error": {"code": "APPLY_IN_PROGRESS", "message": "no", "operationId": "op", "runId": "r1"}}),
    ]
    with Service(*answers) as service:
        async with AsyncClient(Context(service.endpoint)) as client:
            found = await client.versioned(default_tags.get("t"))
            assert (found.record.tags, found.version) == ({"a": "1"}, 7)
            assert (await client.versioned(default_tags.put("t", {"a": "2"}, found.version))).version == 8
            with pytest.raises(FrostError) as caught:
                await client.ask(default_tags.apply("t"))
    assert (caught.value.operation_id, caught.value.run_id) == ("op", "r1")
    assert service.heard[1].headers["if-match"] == '"7"'
    assert json.loads(service.heard[1].body) == {"tags": {"a": "2"}}


def test_quota_requests_have_idempotency_keys_and_a_review_has_none() -> None:
    calls = (quotas.request("t", "vcpu", 20, "launch"), quotas.request_organization("o", "vcpu", 20, "launch"))
    assert len({call.request.idempotency_key for call in calls} - {None}) == 2
    review = platform.review_quota("q", approve=False, note="no").request
    assert (review.idempotency_key, review.body) == (None, {"decision": "reject", "note": "no"})


@pytest.mark.parametrize("tag", ["", "7", '"x"', 'W/"7"', '""', '"-1"', f'"{"9" * 30}"', '"７"'])
async def test_a_malformed_etag_is_no_version(tag: str) -> None:
    headers = {"ETag": tag.encode().decode("latin-1")} if tag else {}
    with Service(answer(200, {"tags": {}}, **headers)) as service:
        async with AsyncClient(Context(service.endpoint)) as client:
            assert (await client.versioned(default_tags.get("t"))).version is None


def test_a_report_that_has_images_itself_gets_no_second_ones() -> None:
    report = {"report": {"quotas": [{**QUOTA, "resourceType": "image"}]}}
    found = quotas.complete(report, {"images": 3, "imageStorageGb": True}, {"images": 1})
    assert [one["resourceType"] for one in found] == ["image"]

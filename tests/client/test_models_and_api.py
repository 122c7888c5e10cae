"""Models on the wire, and the calls of the asynchronous client over a real socket."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from client.api import account, default_tags, platform, quotas, tenants
from client.api import keys as key_calls
from client.errors import FrostError
from client.models.account import ApiKey, Me, NewKey, RotatedKey
from client.models.analysis import ErrorDetails
from client.models.base import instant_text
from client.models.default_tags import ApplyOperation, ApplyResult
from client.models.iam import Access, AllowedPrincipals
from client.models.quotas import QuotaRequest
from client.models.tenants import Operation, Tenant
from client.operations import is_final
from client.transport.async_client import AsyncClient
from client.transport.exchange import RequestLogEntry
from tests.client.wire import Context, Service, answer

SECRET = "fmk_abcdefghijklmnopqrstuvwxyz0123456789"
NOW, LATER = "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.250Z"
PERSON = {"id": "u", "name": "A", "email": "a@b.example"}
TENANT: dict[str, Any] = {
    **{"id": "0b6a2c1e-0000-4000-8000-000000000001", "displayName": "Web Shop", "slug": "web-shop", "status": "active"},
    **{"organizationId": "o-1", "organizationName": "Aurora Labs", "role": "owner", "defaultTagCount": 3},
    **{"createdAt": NOW, "updatedAt": LATER},
}
STEP = {"name": "isolation", "status": "completed", "attempts": 1, "startedAt": NOW, "completedAt": NOW, "error": None}
OPERATION: dict[str, Any] = {
    **{"operationId": "provision-tenant-t", "runId": "r-1", "status": "running", "resourceType": "tenant"},
    **{"resourceId": "t", "tenantId": "t", "kind": "provision_tenant", "progress": 25, "currentStep": "roles (2/4)"},
    **{"steps": [STEP], "createdAt": NOW, "startedAt": None, "completedAt": None, "updatedAt": NOW, "seq": 4},
    "startedBy": "owner@aurora.example",
}
KEY: dict[str, Any] = {
    **{"id": "k-1", "tenantId": "t-1", "tenantName": "Web Shop", "name": "ci", "description": ""},
    **{"keyPrefix": "fmk_abcdefgh", "scopes": ["compute:read"], "rateLimit": 600, "status": "active"},
    **{"createdAt": LATER, "expiresAt": "2027-01-02T03:04:05Z", "revokedAt": None, "lastUsedAt": None},
    **{"creatorId": "u-1", "creatorName": "A", "creatorEmail": "a@b.example"},
}
COUNTS = {"examined": 9, "updated": 4, "unchanged": 3, "skipped": 1, "failed": 1}
RESULT: dict[str, Any] = {
    **{"appliedTags": {"env": "prod"}, "summary": COUNTS, "byType": {"volume": COUNTS}},
    "failures": [{"resourceType": "volume", "resourceId": "", "reason": "backend_unavailable", "message": "later"}],
    "skipped": [{"resourceType": "image", "resourceId": "i", "resourceName": "n", "reason": "image"}],
    **{"failuresTruncated": False, "skippedTruncated": True, "affected": {"volume": {"env": 4}}},
}
REQUEST: dict[str, Any] = {
    **{"id": "q", "scope": "organization", "tenantId": None, "organizationId": "o", "resourceType": "vcpu"},
    **{"unit": "count", "from": 10, "limit": 20, "reason": "launch", "status": "pending", "decision": None},
    **{"details": None, "requestedBy": PERSON, "createdAt": NOW, "decidedAt": None, "decidedBy": None},
}
QUOTA = {"resourceType": "vcpu", "title": "vCPUs", "used": None, "creating": None, "limit": 5, "unit": "count"}
EXAMPLE: dict[str, Any] = {
    **{"operation": "a:b:c", "target": "*", "facts": {"currentTime": None, "requestTags": {"env": "dev"}}},
    **{"ruleIndex": 1, "ruleName": "b", "why": "w", "future": False},
    "deniedBy": {"policyId": "p", "policyName": "n", "ruleIndex": 2},
}
GRANT: dict[str, Any] = {
    **{"kind": "policy", "ruleIndex": 0, "ruleName": "a", "policyId": "p", "policyName": "n", "targets": ["*"]},
    **{"paths": [{"type": "group", "id": "g", "name": "ops"}], "targetsTotal": 1, "constraintsTotal": 1},
    "constraints": [{"operator": "equals", "key": "frn:region", "values": ["se-sto-1"], "valuesTotal": 1}],
}
DENIAL = {**GRANT, "ruleIndex": 1}
ACCESS: dict[str, Any] = {
    "principal": {"type": "api_key", "id": "k", "name": "ci", "works": True},
    "limits": [{"kind": "role", "detail": "owner"}],
    "policies": [{"policyId": "p", "policyName": "n", "version": 1, "paths": [{"type": "direct"}], "pathsTotal": 1}],
    "operations": [
        {
            **{"operation": operation, "access": "conditional", "byTotal": 2, "deniedByTotal": 1},
            **{"by": [GRANT, {"kind": "scope", "scope": "a:b"}], "deniedBy": [DENIAL]},
        }
        for operation in ("a:b:c", "a:b:d")
    ],
}
ALLOWED = {"type": "user", "id": "u", "name": "A", "access": "allowed", "by": [GRANT], "deniedBy": []}
ALLOWED_PRINCIPALS = {
    **{"principals": [ALLOWED], "total": 1, "conditional": [ALLOWED, {**ALLOWED, "by": [{**GRANT, "paths": []}]}]},
    **{"conditionalTotal": 2, "examined": 9},
}
# tests/hostile/test_description.py compares all answers of the platform with the schemas of the models.
RECORDS = [
    (Access, ACCESS),
    (AllowedPrincipals, ALLOWED_PRINCIPALS),
    (Tenant, TENANT),
    (Operation, OPERATION),
    (ApiKey, KEY),
    (ApplyResult, RESULT),
    (QuotaRequest, REQUEST),
]


@pytest.mark.parametrize(("model", "record"), RECORDS)
def test_a_record_goes_back_to_the_wire_as_it_came(model: Any, record: dict[str, Any]) -> None:
    assert model.model_validate(record).wire() == record
    assert model.model_validate({**record, "fromTheFuture": {"x": 1}}).wire() == record


def test_a_grant_of_many_operations_is_one_object_in_the_model_and_on_the_wire() -> None:
    names = [f"a:b:o{number}" for number in range(50)]
    access = Access.model_validate(
        json.loads(json.dumps({**ACCESS, "operations": [{**ACCESS["operations"][0], "operation": n} for n in names]}))
    )
    rows = access.operations
    assert len({id(grant) for row in rows for grant in (*row.by, *row.denied_by)}) == 3
    assert len({id(grant) for row in rows for grant in (*row.wire()["by"], *row.wire()["deniedBy"])}) == 3
    assert rows[0].wire() == {**ACCESS["operations"][0], "operation": names[0]}
    other = rows[0].model_copy(update={"by": ()})
    assert (other.wire()["by"], other.wire()["deniedBy"]) == ([], [DENIAL])


@pytest.mark.parametrize("grants", [7, "all", [7], [{"kind": []}], [{"policyId": "p", "paths": 7}]])
def test_a_grant_that_does_not_match_the_api_is_refused_with_its_member(grants: object) -> None:
    rows = [{"operation": "a:b:c", "by": grants}]
    with pytest.raises(ValidationError) as caught:
        Access.model_validate({**ACCESS, "operations": rows})
    assert caught.value.errors()[0]["loc"][:3] == ("operations", 0, "by")


def test_a_status_of_the_future_is_kept_as_sent() -> None:
    assert Tenant.model_validate({**TENANT, "status": "hibernating"}).status == "hibernating"
    assert ApiKey.model_validate({**KEY, "status": "suspended"}).status == "suspended"
    assert Operation.model_validate({**OPERATION, "status": "pausing"}).status == "pausing"
    assert not is_final({**OPERATION, "status": "pausing"})
    assert is_final({**OPERATION, "status": "failed"})


def test_members_of_details_that_do_not_match_the_api_are_left_out() -> None:
    details = ErrorDetails.read({"answer": "beyond", "counterexamples": [EXAMPLE], "fromTheFuture": 1})
    assert [example.wire() for example in details.counterexamples] == [EXAMPLE]
    outdated = ErrorDetails.read({"expected": 1, "current": 5, "changed": ["name"], "resource": TENANT})
    assert (outdated.current, outdated.changed) == (5, ("name",))
    for other in (None, {}, {"counterexamples": "none"}, {"problems": [{"line": "first"}]}):
        assert ErrorDetails.read(other) == ErrorDetails()
    wrong_example = {**EXAMPLE, "facts": None}
    details = ErrorDetails.read({"answer": "beyond", "counterexamples": [wrong_example], "suggestions": None})
    assert details == ErrorDetails(answer="beyond")


def test_an_unknown_use_is_not_zero() -> None:
    tightest = {"resourceType": "ram", "used": None, "limit": 1024, "unit": "mb"}
    tenant = Tenant.model_validate({**TENANT, "tightestQuota": tightest})
    assert tenant.tightest_quota is not None
    assert tenant.tightest_quota.used is None
    assert tenant.wire()["tightestQuota"] == tightest
    assert Tenant.model_validate({**TENANT, "tightestQuota": None}).wire()["tightestQuota"] is None


def test_members_that_were_never_given_are_left_out() -> None:
    me = Me(id="u", email="a@b.example")
    assert me.wire() == {"id": "u", "email": "a@b.example"}
    assert me.model_copy(update={"name": "A"}).wire() == {**me.wire(), "name": "A"}


@given(st.datetimes(timezones=st.just(UTC)))
def test_an_instant_is_written_in_utc_with_whole_milliseconds(instant: datetime) -> None:
    text = instant_text(instant)
    assert text.endswith("Z")
    assert datetime.fromisoformat(text) == instant.replace(microsecond=instant.microsecond // 1000 * 1000)


async def test_the_driver_reports_latency_and_platform_version() -> None:
    entries: list[RequestLogEntry] = []
    with Service(answer(200, {"id": "u", "tenantId": TENANT["id"]}, X_Frost_Version="9.9")) as service:
        async with AsyncClient(Context(service.endpoint), on_reply=entries.append) as client:
            assert client.latency_ms is None
            assert (await client.ask(account.me())).tenant_id == TENANT["id"]
            assert client.latency_ms is not None
    assert [entry.platform_version for entry in entries] == ["9.9"]


async def test_a_record_without_what_it_must_have_is_not_believed() -> None:
    with Service(answer(200, {**TENANT, "createdAt": "yesterday\x1b"})) as service:
        async with AsyncClient(Context(service.endpoint)) as client:
            with pytest.raises(FrostError) as caught:
                await client.ask(tenants.get("t"))
    assert caught.value.code == "BAD_ANSWER"
    assert "createdAt" in caught.value.message
    assert "yesterday" not in caught.value.message


@pytest.mark.parametrize("made", [NewKey, RotatedKey])
def test_the_secret_is_in_the_answer_and_in_no_traceback(made: type[NewKey]) -> None:
    result = made.model_validate({"apiKey": KEY, "key": SECRET, "replaced": KEY, "grants": 2})
    assert result.key == SECRET
    assert SECRET not in f"{result!r}{result}"


def test_a_creation_has_an_idempotency_key_and_a_body_only_the_given_members() -> None:
    create = key_calls.create("t-1", "ci", ["dns:*"]).request
    assert create.idempotency_key
    assert create.body == {"name": "ci", "scopes": ["dns:*"]}
    # A rotation is not sent again.
    assert key_calls.rotate("t-1", "k-1", retire_at="2027-01-01T00:00:00Z").request.idempotency_key is None
    assert key_calls.update("t-1", "k-1", description="").request.body == {"description": ""}
    assert account.delete("a+b@c").request.query == (("email", "a+b@c"),)
    calls = (quotas.request("t", "vcpu", 20, "launch"), quotas.request_organization("o", "vcpu", 20, "launch"))
    assert len({call.request.idempotency_key for call in calls} - {None}) == 2
    review = platform.review_quota("q", approve=False, note="no").request
    assert (review.idempotency_key, review.body) == (None, {"decision": "reject", "note": "no"})


def test_a_running_apply_has_its_counts() -> None:
    document = {"operationId": "o", "status": "running", "createdAt": "2026-01-02T03:04:05Z"}
    operation = ApplyOperation.model_validate({**document, "counts": {"summary": COUNTS, "byType": {}}})
    assert operation.numbers is not None
    assert operation.numbers.summary.updated == 4
    completed = ApplyOperation.model_validate({**operation.wire(), "status": "completed", "result": RESULT})
    assert completed.numbers == ApplyResult.model_validate(RESULT)
    assert ApplyOperation.model_validate(document).numbers is None


async def test_default_tags_come_with_their_version_and_are_written_from_one() -> None:
    answers = [
        answer(200, {"tags": {"a": "1"}}, ETag='"7"'),
        answer(200, {"tags": {"a": "2"}}, ETag='"8"'),
        answer(409, {"error": {"code": "APPLY_IN_PROGRESS", "message": "no", "operationId": "op", "runId": "r1"}}),
    ]
    with Service(*answers) as service:
        async with AsyncClient(Context(service.endpoint)) as client:
            result = await client.versioned(default_tags.get("t"))
            assert (result.record.tags, result.version) == ({"a": "1"}, 7)
            assert (await client.versioned(default_tags.put("t", {"a": "2"}, result.version))).version == 8
            with pytest.raises(FrostError) as caught:
                await client.ask(default_tags.apply("t"))
    assert (caught.value.operation_id, caught.value.run_id) == ("op", "r1")
    assert service.heard[1].headers["if-match"] == '"7"'
    assert json.loads(service.heard[1].body) == {"tags": {"a": "2"}}


@pytest.mark.parametrize("tag", ["", "7", '"x"', 'W/"7"', '""', '"-1"', f'"{"9" * 30}"', '"７"'])
async def test_a_malformed_etag_is_no_version(tag: str) -> None:
    headers = {"ETag": tag.encode().decode("latin-1")} if tag else {}
    with Service(answer(200, {"tags": {}}, **headers)) as service:
        async with AsyncClient(Context(service.endpoint)) as client:
            assert (await client.versioned(default_tags.get("t"))).version is None


def test_a_report_that_has_images_itself_gets_no_second_ones() -> None:
    report = {"report": {"quotas": [{**QUOTA, "resourceType": "image"}]}}
    result = quotas.complete(report, {"images": 3, "imageStorageGb": True}, {"images": 1})
    assert [one["resourceType"] for one in result] == ["image"]

"""API keys: read, created, changed, rotated, revoked and deleted."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import select

from service.account import api_key_validation
from service.catalogue.operations import scopes as every_scope
from service.clock import wire_time
from service.db import tables
from service.db.engine import Database
from tests.service.access import KEYS, Iam, allow, code, details
from tests.service.account import Key, create, keys_of
from tests.service.planned import until
from tests.service.running import (
    ADMIN,
    DATA_LAKE,
    MEMBER,
    OUTSIDER,
    OWNER,
    REGIONAL,
    STAGING,
    VIEWER,
    WEB_SHOP,
    Running,
)

DEPLOY = "32833106-536e-45df-80b2-d002cc92d33d"
"""A key of the owner in the seed."""
GONE = {"code": "NOT_FOUND", "message": "resource not found"}


def audited(database: Database, target: str) -> list[Any]:
    with database.read() as connection:
        log = tables.audit_log
        return list(connection.execute(select(log).where(log.c.target == target).order_by(log.c.id)))


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_a_key_is_made_with_its_secret_and_works_at_once(platform: Running) -> None:
    key = Key(platform, "compute:read", name="ci", description="for the build")
    assert key.secret.startswith("fmk_")
    assert key.made["keyPrefix"] == key.secret[:12]
    assert (key.made["name"], key.made["description"], key.made["scopes"]) == ("ci", "for the build", ["compute:read"])
    assert (key.made["status"], key.made["rateLimit"], key.made["lastUsedAt"]) == ("active", 600, None)
    assert key.use().json()["credential"]["id"] == key.id
    # Written in batches.
    until(lambda: key.use("GET", key.path).json()["lastUsedAt"] is not None)


def test_the_secret_is_in_the_answer_of_create_and_in_no_other(platform: Running) -> None:
    key = Key(platform, "compute:read")
    answers = [
        key.manage("GET"),
        platform.get(keys_of(), as_=OWNER),
        platform.get("/api/v1/me/api-keys", as_=OWNER),
        key.manage("PATCH", body={"name": "renamed"}),
        key.revoke(),
    ]
    assert all(answer.status == 200 for answer in answers)
    assert not any(key.secret[12:].encode() in answer.body for answer in answers)


@pytest.mark.parametrize("members", [{"scopes": []}, {"scopes": None}])
def test_a_key_without_scopes_is_refused(platform: Running, members: dict[str, Any]) -> None:
    answer = create(platform, **members)
    assert code(answer) == (400, "INVALID_INPUT")
    assert details(answer)["member"] == "scopes"


@pytest.mark.parametrize("scope", ["*", "*:*", "*:read", " * ", "*:instances:read"])
def test_no_key_has_a_wildcard_over_all_services(platform: Running, scope: str) -> None:
    answer = create(platform, "compute:read", scope)
    assert code(answer) == (400, "WILDCARD_SCOPE_NOT_ALLOWED")
    assert details(answer) == {"scope": scope}


@pytest.mark.parametrize(
    ("scope", "nearest"),
    [
        ("compute:READ", "compute:read"),
        (" compute:write", "compute:write"),
        ("compute:write\n", "compute:write"),
        ("compute:*,*", "compute:*"),
        ("compute:wri\u0301te", "compute:write"),
        ("ｃompute:write", "compute:write"),
        ("compute", None),
        ("compute:", None),
        (":read", None),
        ("compute:instances:start:now", None),
        ("compute:*:read", None),
        ("compute:instances:*", None),
        ("cloud:read", None),
        ("iam:*", None),
        ("", None),
    ],
)
def test_an_unknown_scope_is_refused_and_never_corrected(platform: Running, scope: str, nearest: str | None) -> None:
    answer = create(platform, scope, person=MEMBER)
    assert code(answer) == (400, "INVALID_SCOPE")
    assert details(answer)["scope"] == scope
    if nearest:
        assert nearest in details(answer)["suggestions"]


def test_scopes_are_kept_in_the_order_given_and_one_given_twice_is_refused(platform: Running) -> None:
    """A shorter list than the one given is drift to Terraform, which then replaces the key at every apply."""
    given = ["storage:read", "compute:*", "compute:instances:start", "compute:start"]
    key = Key(platform, *given)
    assert key.made["scopes"] == given
    for answer in (create(platform, *given, "compute:*"), key.manage("PATCH", body={"scopes": [*given, "compute:*"]})):
        assert code(answer) == (400, "INVALID_INPUT")
        assert details(answer) == {"member": "scopes", "reason": "duplicate", "scope": "compute:*"}


def test_an_owner_can_give_every_listed_scope(platform: Running) -> None:
    listed = [scope.scope for scope in every_scope() if scope.scope != "*"]
    assert Key(platform, *listed).made["scopes"] == listed


@pytest.mark.parametrize(
    ("person", "scope"),
    [
        (VIEWER, "compute:write"),
        (VIEWER, "compute:*"),
        (VIEWER, "storage:read"),
        (VIEWER, "compute:instances:start"),
        (VIEWER, "compute:start"),
        (VIEWER, "sessions:forward"),
        (MEMBER, "organizations:write"),
        (MEMBER, "quotas:write"),
        (REGIONAL, "database:read"),
    ],
)
def test_a_scope_beyond_the_creators_grants_is_refused(platform: Running, person: str, scope: str) -> None:
    answer = create(platform, "compute:read", scope, person=person)
    assert code(answer) == (403, "SCOPE_EXCEEDS_AUTHOR")
    assert details(answer)["scope"] == scope
    assert details(answer)["lacks"]


@pytest.mark.parametrize(
    ("person", "scope"), [(VIEWER, "compute:read"), (REGIONAL, "compute:write"), (ADMIN, "organizations:*")]
)
def test_a_scope_that_the_creator_holds_in_part_is_accepted(platform: Running, person: str, scope: str) -> None:
    assert Key(platform, scope, person=person).made["scopes"] == [scope]


def test_the_scopes_of_a_tenant_list_missing_operations(platform: Running) -> None:
    found = {
        scope["scope"]: scope
        for scope in platform.get(f"/api/v1/tenants/{WEB_SHOP}/scopes", as_=VIEWER).json()["scopes"]
    }
    assert "*" not in found
    assert found["compute:read"]["held"]
    assert not found["compute:read"]["lacks"]
    assert not found["compute:*"]["held"]
    assert "compute:instances:create" in found["compute:*"]["lacks"]
    assert found["compute:*"]["operations"] > found["compute:read"]["operations"] > 0
    assert found["compute:start"]["enforced"] is False


def test_without_an_expiry_a_key_lives_365_days(platform: Running) -> None:
    made = Key(platform, "compute:read").made
    assert instant(made["expiresAt"]) - instant(made["createdAt"]) == timedelta(days=365)


def test_two_calendar_years_to_the_second_are_the_longest_life() -> None:
    now = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
    latest = datetime(2028, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
    assert api_key_validation.expiry("2028-03-01T12:00:00Z", now) < latest
    assert api_key_validation.expiry("2028-03-01T12:00:00.250Z", now) == latest
    assert api_key_validation.expiry("2028-03-01T14:00:00.250+02:00", now) == latest
    with pytest.raises(Exception, match=r"until 2028-03-01T12:00:00\.250Z"):
        api_key_validation.expiry("2028-03-01T12:00:01Z", now)
    assert api_key_validation.latest_expiry(datetime(2028, 2, 29, 1, tzinfo=UTC)) == datetime(
        2030, 2, 28, 1, tzinfo=UTC
    )


def test_an_expiry_beyond_two_years_names_the_latest(platform: Running) -> None:
    answer = create(platform, "compute:read", expiresAt=wire_time(datetime.now(UTC) + timedelta(days=732)))
    assert code(answer) == (400, "API_KEY_LIFETIME_EXCEEDS_MAX")
    assert details(answer)["latest"] in answer.json()["error"]["message"]


def test_an_expiry_in_the_past_is_refused(platform: Running) -> None:
    answer = create(platform, "compute:read", expiresAt=wire_time(datetime.now(UTC) - timedelta(seconds=1)))
    assert code(answer) == (400, "API_KEY_EXPIRY_IN_PAST")


@pytest.mark.parametrize("text", ["2027-01-01", "tomorrow", ""])
def test_an_expiry_that_is_no_full_timestamp_is_refused(platform: Running, text: str) -> None:
    answer = create(platform, "compute:read", expiresAt=text)
    assert code(answer) == (400, "INVALID_INPUT")
    assert details(answer)["member"] == "expiresAt"


@pytest.mark.parametrize("limit", [0, -5, 1.5, "60", True, 60_001])
def test_a_rate_limit_is_a_whole_number_in_its_bounds(platform: Running, limit: Any) -> None:
    assert code(create(platform, "compute:read", rateLimit=limit)) == (400, "INVALID_INPUT")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("  build\u200b server \u202e", "build server"),
        ("e\u0301te\u0301", "\u00e9t\u00e9"),
        ("\u3164ab\u2800", "ab"),
        ("a\ufe0fb", "ab"),
        ("x" * 100, "x" * 100),
    ],
)
def test_a_name_is_normalised_without_invisible_characters(platform: Running, given: str, kept: str) -> None:
    assert Key(platform, "compute:read", name=given).made["name"] == kept


@pytest.mark.parametrize(
    ("name", "reason"),
    [("a", "too_short"), ("", "too_short"), ("\u200b\u200b\u3164\u00ad", "too_short"), ("x" * 101, "too_long")],
)
def test_a_name_out_of_its_bounds_is_refused_with_them(platform: Running, name: str, reason: str) -> None:
    answer = create(platform, "compute:read", name=name)
    assert code(answer) == (400, "INVALID_API_KEY_NAME")
    assert details(answer) == {"reason": reason, "min": 2, "max": 100}


@pytest.mark.parametrize("member", ["tenantId", "userId", "id", "keyPrefix", "status", "role"])
def test_read_only_members_are_unknown(platform: Running, member: str) -> None:
    answer = create(platform, "compute:read", **{member: DATA_LAKE})
    assert code(answer) == (400, "INVALID_INPUT")
    assert details(answer)["reason"] == "unknown_member"


def test_a_key_is_changed_in_the_members_given(platform: Running, platform_database: Database) -> None:
    key = Key(platform, "compute:read", description="before")
    answer = key.manage("PATCH", body={"name": "after", "scopes": ["storage:read"], "rateLimit": 7})
    after = answer.json()
    assert answer.headers["x-frost-changed"] == "true"
    assert after == key.made | {"name": "after", "scopes": ["storage:read"], "rateLimit": 7}
    assert key.manage("PATCH", body={"description": ""}).json()["description"] == ""
    again = key.manage("PATCH", body={"name": "after"})
    assert (again.status, again.headers["x-frost-changed"]) == (200, "false")
    entries = [
        entry for entry in audited(platform_database, f"api_key:{key.id}") if entry.operation == "api_key.update"
    ]
    assert entries[0].details["scopes"] == {"from": ["compute:read"], "to": ["storage:read"]}
    assert len(entries) == 2


@pytest.mark.parametrize("body", [{}, {"expiresAt": "2027-01-01T00:00:00Z"}, {"scopes": []}, {"scopes": ["*"]}])
def test_an_invalid_change_is_refused(platform: Running, body: dict[str, Any]) -> None:
    key = Key(platform, "compute:read")
    assert key.manage("PATCH", body=body).status == 400
    assert key.manage("GET").json() == key.made


def test_a_scope_that_is_added_later_is_checked_too(platform: Running) -> None:
    key = Key(platform, "compute:read", person=VIEWER)
    assert code(key.manage("PATCH", body={"scopes": ["compute:read", "compute:write"]})) == (
        403,
        "SCOPE_EXCEEDS_AUTHOR",
    )
    assert key.manage("GET").json()["scopes"] == ["compute:read"]


def test_a_revoked_key_is_refused_and_stays_in_the_list(platform: Running) -> None:
    key = Key(platform, "compute:read")
    assert key.use().status == 200
    revoked = key.revoke()
    assert (revoked.json()["status"], revoked.headers["x-frost-changed"]) == ("revoked", "true")
    assert key.use().status == 401
    again = key.revoke()
    assert (again.status, again.headers["x-frost-changed"]) == (200, "false")
    assert again.json()["revokedAt"] == revoked.json()["revokedAt"]
    listed = {one["id"]: one["status"] for one in platform.get(keys_of(), as_=OWNER).json()["apiKeys"]}
    assert listed[key.id] == "revoked"
    key.manage("PATCH", body={"name": "renamed"})
    assert key.manage("GET").json()["status"] == "revoked"


def test_a_deleted_key_leaves_nothing_behind(platform: Running, platform_database: Database) -> None:
    iam, key = Iam(platform), Key(platform, "compute:read")
    group, policy = iam.group(f"g-{uuid4()}"), iam.policy("p", allow("compute:*"))
    assert iam.add(group, "api_key", key.id).status == 204
    assert iam.attach(policy, "api_key", key.id).status == 204
    key.use()
    assert key.manage("DELETE").status == 204
    assert key.use().status == 401
    for suffix, method in (("", "GET"), ("", "DELETE"), ("/revoke", "POST")):
        gone = key.manage(method, suffix)
        assert (gone.status, gone.json()) == (404, GONE)
    with platform_database.read() as connection:
        for table in (tables.api_keys, tables.group_members, tables.policy_attachments, tables.rate_limits):
            assert key.id not in repr(connection.execute(select(table)).all())


def test_ids_and_prefixes_never_come_back(platform: Running) -> None:
    seen: set[str] = set()
    for _ in range(50):
        key = Key(platform, "compute:read")
        seen |= {key.id, key.made["keyPrefix"]}
        key.manage("DELETE")
    assert len(seen) == 100


@pytest.mark.parametrize(
    ("method", "suffix"), [("GET", ""), ("PATCH", ""), ("POST", "/revoke"), ("POST", "/rotate"), ("DELETE", "")]
)
def test_the_key_of_another_person_is_not_found(platform: Running, method: str, suffix: str) -> None:
    key = Key(platform, "compute:read", person=MEMBER)
    body = {"name": "mine now"} if method == "PATCH" else {} if suffix == "/rotate" else None
    for person, tenant in ((OWNER, WEB_SHOP), (MEMBER, STAGING), (ADMIN, WEB_SHOP)):
        answer = platform.ask(method, f"{keys_of(tenant)}/{key.id}{suffix}", as_=person, body=body)
        assert (answer.status, answer.json()) == (404, GONE)
    for unknown in (KEYS["cms"], "nonsense"):
        answer = platform.ask(method, f"{keys_of()}/{unknown}{suffix}", as_=MEMBER, body=body)
        assert (answer.status, answer.json()) == (404, GONE)
    assert key.use().status == 200


def test_a_key_of_the_seed_is_read_with_all_members(platform: Running) -> None:
    key = platform.get(f"{keys_of()}/{DEPLOY}", as_=OWNER).json()
    assert key | dict.fromkeys(("createdAt", "expiresAt", "lastUsedAt"), "") == {
        "id": DEPLOY,
        "tenantId": WEB_SHOP,
        "tenantName": "Web Shop",
        "name": "deploy-pipeline",
        "description": "Rolls out every merge to main",
        "keyPrefix": platform.key("deploy-pipeline")[:12],
        "scopes": ["compute:*", "storage:*", "network:read"],
        "rateLimit": 600,
        "status": "active",
        "createdAt": "",
        "expiresAt": "",
        "revokedAt": None,
        "lastUsedAt": "",
        "creatorId": "dfb359ee-cc3a-4c40-8c3e-0826d45751a4",
        "creatorName": "Astrid Lindqvist",
        "creatorEmail": OWNER,
    }


def test_the_list_has_all_keys_of_the_tenant_and_no_other(platform: Running) -> None:
    keys = platform.get(keys_of(), as_=MEMBER).json()["apiKeys"]
    assert {key["tenantId"] for key in keys} == {WEB_SHOP}
    assert {key["creatorEmail"] for key in keys} > {OWNER, MEMBER}
    created = [key["createdAt"] for key in keys]
    assert created == sorted(created, reverse=True)
    states = {key["name"]: key["status"] for key in keys}
    expected = {"contractor-2025": "revoked", "old-deploy": "expired", "deploy-pipeline": "active"}
    assert states | expected == states


def test_a_key_reads_itself_and_no_other_key(platform: Running) -> None:
    own = platform.get(f"{keys_of()}/{KEYS['tenant-reader']}", key="tenant-reader")
    assert own.json()["name"] == "tenant-reader"
    other = platform.get(f"{keys_of()}/{DEPLOY}", key="tenant-reader")
    assert (other.status, other.json()) == (404, GONE)


def test_own_keys_are_listed_over_all_tenants(platform: Running) -> None:
    keys = platform.get("/api/v1/me/api-keys", as_=MEMBER).json()["apiKeys"]
    assert {key["creatorEmail"] for key in keys} == {MEMBER}
    assert {key["tenantId"] for key in keys} >= {WEB_SHOP, STAGING}
    assert platform.get("/api/v1/me/api-keys", as_=OUTSIDER).json() == {"apiKeys": []}


def test_a_rotated_key_has_the_same_grants_and_both_work_for_a_while(
    platform: Running, platform_database: Database
) -> None:
    iam, key = Iam(platform), Key(platform, "compute:read", "organizations:read", name="deploy", rateLimit=90)
    policy, group = iam.policy("p", allow("compute:*")), iam.group(f"g-{uuid4()}")
    iam.attach(policy, "api_key", key.id)
    iam.add(group, "api_key", key.id)
    retires = wire_time(datetime.now(UTC) + timedelta(hours=1))
    answer = key.manage("POST", "/rotate", {"retireAt": retires})
    made = answer.json()
    assert (answer.status, made["grants"]) == (201, 2)
    assert {name: made["apiKey"][name] for name in ("name", "scopes", "rateLimit")} == {
        "name": "deploy",
        "scopes": key.made["scopes"],
        "rateLimit": 90,
    }
    assert made["replaced"]["id"] == key.id
    assert made["replaced"]["expiresAt"] == retires
    assert key.use().status == 200
    new = platform.get("/api/v1/tenants", headers={"X-API-Key": made["key"]})
    # The policy narrows the new key as it did the old one.
    assert code(new) == code(key.use("GET", "/api/v1/tenants")) == (403, "INSUFFICIENT_PERMISSIONS")
    assert [entry.operation for entry in audited(platform_database, f"api_key:{made['apiKey']['id']}")] == [
        "api_key.rotate"
    ]


def test_a_dead_key_and_a_later_retirement_are_not_rotated(platform: Running) -> None:
    key = Key(platform, "compute:read")
    late = wire_time(datetime.now(UTC) + timedelta(days=500))
    for refused in (late, "tomorrow"):
        answer = key.manage("POST", "/rotate", {"retireAt": refused})
        assert (code(answer), details(answer)["member"]) == ((400, "INVALID_INPUT"), "retireAt")
    key.revoke()
    assert code(key.manage("POST", "/rotate", {})) == (409, "API_KEY_NOT_ACTIVE")


def test_a_repeated_creation_names_the_key_and_makes_no_other(platform: Running) -> None:
    headers = {"Idempotency-Key": str(uuid4())}
    made = create(platform, "compute:read", name="once", headers=headers).json()["apiKey"]["id"]
    again = create(platform, "compute:read", name="once", headers=headers)
    assert code(again) == (409, "SECRET_ALREADY_SHOWN")
    assert details(again) == {"apiKeyId": made}
    assert code(create(platform, "compute:write", name="once", headers=headers)) == (409, "IDEMPOTENCY_KEY_REUSED")
    names = [key["name"] for key in platform.get(keys_of(), as_=OWNER).json()["apiKeys"]]
    assert names.count("once") == 1


def test_each_change_is_one_audit_entry_without_the_secret(platform: Running, platform_database: Database) -> None:
    key = Key(platform, "compute:read", name="audited")
    key.manage("PATCH", body={"name": "audited twice"})
    key.revoke()
    key.manage("DELETE")
    entries = audited(platform_database, f"api_key:{key.id}")
    assert [entry.operation.partition(".")[2] for entry in entries] == ["create", "update", "revoke", "delete"]
    assert {(entry.tenant_id, entry.outcome, entry.actor_kind) for entry in entries} == {(WEB_SHOP, "done", "session")}
    assert key.secret not in json.dumps([entry.details for entry in entries])


def test_a_refused_creation_is_audited_and_stores_nothing(platform: Running, platform_database: Database) -> None:
    platform.renew_sessions()
    before = len(platform.get(keys_of(), as_=VIEWER).json()["apiKeys"])
    request_id = str(uuid4())
    create(platform, "compute:write", person=VIEWER, headers={"X-Request-Id": request_id})
    assert len(platform.get(keys_of(), as_=VIEWER).json()["apiKeys"]) == before
    with platform_database.read() as connection:
        query = select(tables.audit_log).where(tables.audit_log.c.request_id == request_id)
        (entry,) = connection.execute(query)
    assert (entry.operation, entry.outcome, entry.details["code"]) == (
        "api_key.create",
        "refused",
        "SCOPE_EXCEEDS_AUTHOR",
    )

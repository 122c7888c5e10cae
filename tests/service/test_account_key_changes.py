"""API keys: read, created, changed, rotated, revoked and deleted."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import insert, select

from service.account import api_key_validation
from service.catalogue.operations import scopes as every_scope
from service.clock import wire_time
from service.db import tables
from service.db.engine import Database
from tests.api import Answer
from tests.people import ADMIN, MEMBER, OUTSIDER, OWNER, REGIONAL, STAGING, VIEWER, WEB_SHOP
from tests.service.access import KEYS, Iam, allow, code, details
from tests.service.account import Key, create, keys_of
from tests.service.queries import execute, fetch
from tests.service.running import Running
from tests.waiting import until


def require_not_found(answer: Answer) -> None:
    assert (answer.status, answer.json()) == (404, {"code": "NOT_FOUND", "message": "resource not found"})


def audited(database: Database, key_id: str) -> list[Any]:
    log = tables.audit_log
    return fetch(database, select(log).where(log.c.target == f"api_key:{key_id}").order_by(log.c.id))


def from_now(**duration: float) -> str:
    return wire_time(datetime.now(UTC) + timedelta(**duration))


def test_a_key_is_made_with_its_secret_and_works_at_once(platform: Running) -> None:
    key = Key(platform, "compute:read", name="  c\u200bi \u202e", description="for the build")
    assert key.secret.startswith("fmk_")
    owner = platform.get("/api/v1/me", as_=OWNER).json()
    created_at, expires_at = key.made["createdAt"], key.made["expiresAt"]
    assert key.made == key.manage("GET").json()
    assert key.made == {
        "id": key.id,
        "tenantId": WEB_SHOP,
        "tenantName": "Web Shop",
        "name": "ci",
        "description": "for the build",
        "keyPrefix": key.secret[:12],
        "scopes": ["compute:read"],
        "rateLimit": 600,
        "status": "active",
        "createdAt": created_at,
        "expiresAt": expires_at,
        "revokedAt": None,
        "lastUsedAt": None,
        "creatorId": owner["id"],
        "creatorName": "Astrid Lindqvist",
        "creatorEmail": OWNER,
    }
    assert datetime.fromisoformat(expires_at) - datetime.fromisoformat(created_at) == timedelta(days=365)
    assert key.use().json()["credential"]["id"] == key.id
    # Written in batches.
    until(lambda: key.use("GET", key.path).json()["lastUsedAt"] is not None)
    # No other answer has the secret.
    answers = [
        key.manage("GET"),
        platform.get(keys_of(), as_=OWNER),
        platform.get("/api/v1/me/api-keys", as_=OWNER),
        key.manage("PATCH", body={"name": "renamed"}),
        key.revoke(),
    ]
    assert all(answer.status == 200 for answer in answers)
    assert not any(key.secret[12:].encode() in answer.body for answer in answers)


NAME = "INVALID_API_KEY_NAME", {"min": 2, "max": 100}
INVALID: list[tuple[str, dict[str, Any], str, list[Any]]] = [
    ("INVALID_INPUT", {"member": "scopes"}, "scopes", [[], None]),
    ("INVALID_INPUT", {"member": "expiresAt"}, "expiresAt", ["2027-01-01", "tomorrow", ""]),
    ("INVALID_INPUT", {"member": "rateLimit"}, "rateLimit", [0, -5, 1.5, "60", True, 60_001]),
    *[
        ("INVALID_INPUT", {"reason": "unknown_member"}, name, [WEB_SHOP])
        for name in ("tenantId", "userId", "id", "role")
    ],
    (NAME[0], {"reason": "too_short"} | NAME[1], "name", ["a", "", "\u200b\u200b\u3164\u00ad"]),
    (NAME[0], {"reason": "too_long"} | NAME[1], "name", ["x" * 101]),
    ("API_KEY_EXPIRY_IN_PAST", {}, "expiresAt", [from_now(seconds=-1)]),
    *[
        ("WILDCARD_SCOPE_NOT_ALLOWED", {"scope": scope}, "scopes", [["compute:read", scope]])
        for scope in ("*", "*:*", "*:read", " * ", "*:instances:read")
    ],
]


def test_an_invalid_member_is_refused(platform: Running) -> None:
    for error, expected, member, values in INVALID:
        for value in values:
            answer = create(platform, "compute:read", **{member: value})
            assert code(answer) == (400, error), (member, value)
            assert expected.items() <= answer.json()["error"].get("details", {}).items(), (member, value)


NEAREST = {
    "compute:READ": "compute:read",
    **dict.fromkeys((" compute:write", "compute:write\n", "compute:wri\u0301te", "ｃompute:write"), "compute:write"),
    "compute:*,*": "compute:*",
}
UNKNOWN_SCOPES = ("compute", "compute:", ":read", "compute:instances:start:now", "compute:*:read")
UNKNOWN_SCOPES += ("compute:instances:*", "cloud:read", "iam:*", "")


def test_an_unknown_scope_is_refused_and_never_corrected(platform: Running) -> None:
    for scope in (*NEAREST, *UNKNOWN_SCOPES):
        answer = create(platform, scope, person=MEMBER)
        assert (code(answer), details(answer)["scope"]) == ((400, "INVALID_SCOPE"), scope)
        assert scope not in NEAREST or NEAREST[scope] in details(answer)["suggestions"]


def test_scopes_keep_their_order_and_one_given_twice_is_refused(platform: Running) -> None:
    """A shorter list is drift to Terraform, which then replaces the key at every apply."""
    scopes = ["storage:read", "compute:*", "compute:instances:start", "compute:start"]
    key = Key(platform, *scopes, name="x" * 100)
    assert (key.made["scopes"], key.made["name"]) == (scopes, "x" * 100)
    twice = [*scopes, "compute:*"]
    for answer in (create(platform, *twice), key.manage("PATCH", body={"scopes": twice})):
        assert code(answer) == (400, "INVALID_INPUT")
        assert details(answer) == {"member": "scopes", "reason": "duplicate", "scope": "compute:*"}
    every = [scope.scope for scope in every_scope() if scope.scope != "*"]
    assert Key(platform, *every).made["scopes"] == every
    # The scopes of a tenant list missing operations.
    answer = platform.get(f"/api/v1/tenants/{WEB_SHOP}/scopes", as_=VIEWER)
    listed = {scope["scope"]: scope for scope in answer.json()["scopes"]}
    assert "*" not in listed
    assert (listed["compute:read"]["held"], listed["compute:read"]["lacks"]) == (True, [])
    assert not listed["compute:*"]["held"]
    assert "compute:instances:create" in listed["compute:*"]["lacks"]
    assert listed["compute:*"]["operations"] > listed["compute:read"]["operations"] > 0
    assert listed["compute:start"]["enforced"] is False


BEYOND = [
    *[(VIEWER, f"compute:{action}") for action in ("write", "*", "instances:start", "start")],
    *[(VIEWER, "storage:read"), (VIEWER, "sessions:forward")],
    *[(MEMBER, "organizations:write"), (MEMBER, "quotas:write"), (REGIONAL, "database:read")],
]


def test_a_scope_beyond_the_creators_grants_is_refused(platform: Running) -> None:
    for person, scope in BEYOND:
        key = Key(platform, "compute:read", person=person)
        scopes = ["compute:read", scope]
        for answer in (create(platform, *scopes, person=person), key.manage("PATCH", body={"scopes": scopes})):
            assert code(answer) == (403, "SCOPE_EXCEEDS_AUTHOR")
            assert details(answer)["scope"] == scope
            assert details(answer)["lacks"]
        assert key.manage("GET").json()["scopes"] == ["compute:read"]
    # A scope that the creator holds in part is accepted.
    for person, scope in ((VIEWER, "compute:read"), (REGIONAL, "compute:write"), (ADMIN, "organizations:*")):
        assert Key(platform, scope, person=person).made["scopes"] == [scope]


def test_two_calendar_years_to_the_second_are_the_longest_life(platform: Running) -> None:
    now = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
    latest = now.replace(year=2028)
    assert api_key_validation.expiry("2028-03-01T12:00:00Z", now) < latest
    assert api_key_validation.expiry("2028-03-01T12:00:00.250Z", now) == latest
    assert api_key_validation.expiry("2028-03-01T14:00:00.250+02:00", now) == latest
    with pytest.raises(Exception, match=r"until 2028-03-01T12:00:00\.250Z"):
        api_key_validation.expiry("2028-03-01T12:00:01Z", now)
    leap_day, after = datetime(2028, 2, 29, 1, tzinfo=UTC), datetime(2030, 2, 28, 1, tzinfo=UTC)
    assert api_key_validation.latest_expiry(leap_day) == after
    answer = create(platform, "compute:read", expiresAt=from_now(days=732))
    assert code(answer) == (400, "API_KEY_LIFETIME_EXCEEDS_MAX")
    assert details(answer)["latest"] in answer.json()["error"]["message"]


def test_a_key_is_changed_in_the_members_given(platform: Running, platform_database: Database) -> None:
    key = Key(platform, "compute:read", description="before")
    for body in ({}, {"expiresAt": "2027-01-01T00:00:00Z"}, {"scopes": []}, {"scopes": ["*"]}):
        assert key.manage("PATCH", body=body).status == 400
    assert key.manage("GET").json() == key.made
    changes = {"name": "after", "scopes": ["storage:read"], "rateLimit": 7}
    answer = key.manage("PATCH", body=changes)
    assert (answer.json(), answer.headers["x-frost-changed"]) == (key.made | changes, "true")
    assert key.manage("PATCH", body={"description": ""}).json()["description"] == ""
    again = key.manage("PATCH", body={"name": "after"})
    assert (again.status, again.headers["x-frost-changed"]) == (200, "false")
    entries = [entry for entry in audited(platform_database, key.id) if entry.operation == "api_key.update"]
    done = [entry for entry in entries if entry.outcome == "done"]
    assert done[0].details["scopes"] == {"from": ["compute:read"], "to": ["storage:read"]}
    assert len(done) == 2


def test_a_revoked_key_stays_in_the_list_and_a_deleted_one_leaves_nothing(
    platform: Running, platform_database: Database
) -> None:
    iam, key = Iam(platform), Key(platform, "compute:read")
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
    assert key.manage("DELETE").status == 204
    assert key.use().status == 401
    for suffix, method in (("", "GET"), ("", "DELETE"), ("/revoke", "POST")):
        require_not_found(key.manage(method, suffix))
    key = Key(platform, "compute:read")
    assert iam.add(iam.group(f"g-{uuid4()}"), "api_key", key.id).status == 204
    assert iam.attach(iam.policy("p", allow("compute:*")), "api_key", key.id).status == 204
    key.use()
    assert key.manage("DELETE").status == 204
    for table in (tables.api_keys, tables.group_members, tables.policy_attachments):
        assert key.id not in repr(fetch(platform_database, select(table)))
    unused = Key(platform, "compute:read")  # the count of a used one may be written after its deletion
    execute(platform_database, insert(tables.rate_limits).values(key_id=unused.id, full_at=2**62))
    assert unused.manage("DELETE").status == 204
    assert unused.id not in repr(fetch(platform_database, select(tables.rate_limits)))


def test_the_key_of_another_person_is_not_found(platform: Running) -> None:
    key = Key(platform, "compute:read", person=MEMBER)
    requests = [("GET", "", None), ("PATCH", "", {"name": "mine now"}), ("POST", "/revoke", None)]
    for method, suffix, body in (*requests, ("POST", "/rotate", {}), ("DELETE", "", None)):
        for person, tenant, key_id in (
            *[(OWNER, WEB_SHOP, key.id), (MEMBER, STAGING, key.id), (ADMIN, WEB_SHOP, key.id)],
            *[(MEMBER, WEB_SHOP, unknown) for unknown in (KEYS["cms"], "nonsense")],
        ):
            require_not_found(platform.ask(method, f"{keys_of(tenant)}/{key_id}{suffix}", as_=person, body=body))
    assert key.use().status == 200


def test_lists_have_the_keys_of_a_tenant_or_of_a_person(platform: Running) -> None:
    keys = platform.get(keys_of(), as_=MEMBER).json()["apiKeys"]
    assert {key["tenantId"] for key in keys} == {WEB_SHOP}
    assert {key["creatorEmail"] for key in keys} > {OWNER, MEMBER}
    created = [key["createdAt"] for key in keys]
    assert created == sorted(created, reverse=True)
    states = {key["name"]: key["status"] for key in keys}
    expected = {"contractor-2025": "revoked", "old-deploy": "expired", "deploy-pipeline": "active"}
    assert states | expected == states
    keys = platform.get("/api/v1/me/api-keys", as_=MEMBER).json()["apiKeys"]
    assert {key["creatorEmail"] for key in keys} == {MEMBER}
    assert {key["tenantId"] for key in keys} >= {WEB_SHOP, STAGING}
    assert platform.get("/api/v1/me/api-keys", as_=OUTSIDER).json() == {"apiKeys": []}
    # A key reads itself and no other key, as this one of the owner.
    own = platform.get(f"{keys_of()}/{KEYS['tenant-reader']}", key="tenant-reader")
    assert own.json()["name"] == "tenant-reader"
    require_not_found(platform.get(f"{keys_of()}/32833106-536e-45df-80b2-d002cc92d33d", key="tenant-reader"))


def test_a_rotated_key_has_the_same_grants_and_both_keys_work(platform: Running, platform_database: Database) -> None:
    iam, key = Iam(platform), Key(platform, "compute:read", "organizations:read", name="deploy", rateLimit=90)
    iam.attach(iam.policy("p", allow("compute:*")), "api_key", key.id)
    iam.add(iam.group(f"g-{uuid4()}"), "api_key", key.id)
    retires = from_now(hours=1)
    answer = key.manage("POST", "/rotate", {"retireAt": retires})
    rotated = answer.json()
    new, replaced = rotated["apiKey"], rotated["replaced"]
    assert (answer.status, rotated["grants"]) == (201, 2)
    assert (new["name"], new["scopes"], new["rateLimit"]) == ("deploy", key.made["scopes"], 90)
    assert (replaced["id"], replaced["expiresAt"]) == (key.id, retires)
    assert key.use().status == 200
    refused = platform.get("/api/v1/tenants", headers={"X-API-Key": rotated["key"]})
    # The policy narrows the new key as it did the old one.
    assert code(refused) == code(key.use("GET", "/api/v1/tenants")) == (403, "INSUFFICIENT_PERMISSIONS")
    assert [entry.operation for entry in audited(platform_database, new["id"])] == ["api_key.rotate"]
    for retires in (from_now(days=500), "tomorrow"):
        answer = key.manage("POST", "/rotate", {"retireAt": retires})
        assert (code(answer), details(answer)["member"]) == ((400, "INVALID_INPUT"), "retireAt")
    key.revoke()
    assert code(key.manage("POST", "/rotate", {})) == (409, "API_KEY_NOT_ACTIVE")


def test_a_repeated_creation_names_the_key_and_makes_no_other(platform: Running) -> None:
    headers = {"Idempotency-Key": str(uuid4())}
    key_id = create(platform, "compute:read", name="once", headers=headers).json()["apiKey"]["id"]
    again = create(platform, "compute:read", name="once", headers=headers)
    assert code(again) == (409, "SECRET_ALREADY_SHOWN")
    assert details(again) == {"apiKeyId": key_id}
    assert code(create(platform, "compute:write", name="once", headers=headers)) == (409, "IDEMPOTENCY_KEY_REUSED")
    names = [key["name"] for key in platform.get(keys_of(), as_=OWNER).json()["apiKeys"]]
    assert names.count("once") == 1

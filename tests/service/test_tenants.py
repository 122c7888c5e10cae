"""Tenants over the wire, on the running platform."""

import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import delete, event, select

from service.catalogue.resource_types import QuotaType
from service.db import tables
from service.db.engine import Database
from service.oidc_issuer.issuer import LocalIssuer
from service.quotas.limits import Tightest, tightest
from tests.api import Answer
from tests.people import ADMIN, AURORA, MEMBER, OUTSIDER, OWNER, SANDBOX, STAGING, WEB_SHOP
from tests.service import factories
from tests.service.access import code
from tests.service.conftest import KINDS, NewDatabaseUrl
from tests.service.inside import Inside
from tests.service.queries import execute
from tests.service.running import Running
from tests.waiting import at_once

CREATE = f"/api/v1/organizations/{AURORA}/tenants"
FIELDS = {
    *("id", "displayName", "slug", "status", "organizationId", "organizationName", "role", "defaultTagCount"),
    *("createdAt", "updatedAt"),
}
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z")


def create(platform: Running, name: str, as_: str = OWNER, **headers: str) -> Answer:
    return platform.ask("POST", CREATE, as_=as_, body={"displayName": name}, headers=headers)


def test_a_tenant_is_created_at_once_and_still_provisioning(platform: Running) -> None:
    before = datetime.now(UTC)
    answer = create(platform, "Fresh One")
    assert answer.status == 201
    tenant = answer.json()
    assert set(tenant) == FIELDS | {"operationId", "runId"}
    assert (tenant["displayName"], tenant["slug"], tenant["status"]) == ("Fresh One", "fresh-one", "provisioning")
    assert (tenant["organizationId"], tenant["organizationName"], tenant["role"]) == (AURORA, "Aurora Labs", "owner")
    assert tenant["defaultTagCount"] == 0
    assert INSTANT.fullmatch(tenant["createdAt"])
    assert tenant["createdAt"] == tenant["updatedAt"]
    assert abs(datetime.fromisoformat(tenant["createdAt"]) - before) < timedelta(seconds=30)
    assert platform.get(f"/api/v1/tenants/{tenant['id']}", as_=OWNER).json() == tenant


def test_equal_names_get_numbered_slugs(platform: Running) -> None:
    tenants = [create(platform, name).json() for name in ("Twin", "Twin", "TWIN", "twin")]
    assert [tenant["slug"] for tenant in tenants] == ["twin", "twin-2", "twin-3", "twin-4"]
    assert len({tenant["id"] for tenant in tenants}) == 4
    # A slug is unique in its organization only, and a rename keeps it.
    assert create(platform, "Newsroom").json()["slug"] == "newsroom"
    renamed = platform.ask("PATCH", f"/api/v1/tenants/{tenants[0]['id']}", as_=OWNER, body={"displayName": "Web Shop"})
    assert (renamed.status, renamed.json()["slug"]) == (200, "twin")
    answers = at_once([lambda: create(platform, "Rush")] * 8)
    assert [answer.status for answer in answers] == [201] * 8
    assert sorted(answer.json()["slug"] for answer in answers) == ["rush", *(f"rush-{n}" for n in range(2, 9))]


def test_the_same_idempotency_key_and_body_answer_with_the_same_tenant(platform: Running) -> None:
    key = {"Idempotency-Key": str(uuid4())}
    first, again = create(platform, "Once", **key), create(platform, "Once", **key)
    assert first.status == again.status == 201
    assert first.json() == again.json()
    listed = platform.get(CREATE, as_=OWNER).json()["tenants"]
    assert [tenant["displayName"] for tenant in listed].count("Once") == 1
    for malformed in ("short", "x" * 129, "with space inside", "line"):
        assert code(create(platform, "Never", **{"Idempotency-Key": malformed})) == (400, "INVALID_INPUT")


def test_a_membership_that_ends_during_a_request_is_refused(new_database_url: NewDatabaseUrl, tmp_path: Path) -> None:
    inside = Inside(tmp_path, new_database_url("postgresql", True), "empty")
    headers = populate(inside, 1)
    outside = Database(inside.platform.database.engine.url.render_as_string(hide_password=False))

    def leaves(*arguments: Any) -> None:
        # The statement that reads the tenant itself comes after the check.
        if "organization_name" in arguments[2]:
            execute(outside, delete(tables.memberships))

    event.listen(inside.platform.database.engine, "before_cursor_execute", leaves)
    with outside.read() as connection:
        tenant_id = connection.scalar(select(tables.tenants.c.id).where(tables.tenants.c.organization_id == AURORA))
    answer = inside.ask("GET", f"/api/v1/tenants/{tenant_id}", headers)
    outside.close()
    inside.close()
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "TENANT_ACCESS_DENIED")


def test_a_rename_changes_the_name_and_the_time_and_nothing_else(platform: Running) -> None:
    before = create(platform, "Old Name").json()
    time.sleep(0.01)
    answer = platform.ask("PATCH", f"/api/v1/tenants/{before['id']}", as_=ADMIN, body={"displayName": " Ne\u0301w "})
    after = answer.json()
    assert answer.status == 200
    assert after["displayName"] == "Néw"
    assert after["updatedAt"] > before["updatedAt"]
    unchanged = FIELDS - {"displayName", "updatedAt", "role"}
    assert {name: after[name] for name in unchanged} == {name: before[name] for name in unchanged}


def test_the_list_over_all_is_sorted_by_organization_then_name_then_id(demo: Running) -> None:
    listed = demo.get("/api/v1/tenants", as_=OWNER).json()
    assert [(tenant["organizationName"], tenant["displayName"]) for tenant in listed["tenants"]] == [
        ("Aurora Labs", "Data Lake"),
        ("Aurora Labs", "Sandbox"),
        ("Aurora Labs", "Staging"),
        ("Aurora Labs", "Web Shop"),
        ("Borealis Media", "Newsroom"),
        ("Borealis Media", "Staging"),
    ]
    assert listed["defaultTenantId"] == WEB_SHOP
    by_id = {tenant["id"]: tenant for tenant in listed["tenants"]}
    assert by_id[WEB_SHOP]["defaultTagCount"] == 4
    assert by_id[SANDBOX]["status"] == "provisioning"
    assert by_id[SANDBOX]["runId"]
    assert "runId" not in by_id[STAGING]
    assert "tightestQuota" not in by_id[STAGING]
    with_usage = demo.get("/api/v1/tenants?include=usage", as_=OWNER).json()["tenants"]
    # Nothing is limited before provisioning has set the quotas up.
    assert {tenant["id"]: tenant["tightestQuota"] for tenant in with_usage}[SANDBOX] is None
    assert [{k: v for k, v in tenant.items() if k != "tightestQuota"} for tenant in with_usage] == listed["tenants"]
    roles = [demo.get(f"/api/v1/tenants/{WEB_SHOP}", as_=who).json()["role"] for who in (OWNER, ADMIN, MEMBER)]
    assert roles == ["owner", "admin", "member"]
    assert demo.get("/api/v1/tenants", as_=OUTSIDER).json() == {"tenants": [], "defaultTenantId": ""}
    assert demo.get("/api/v1/me", as_=OUTSIDER).json()["tenantId"] == ""


TYPES = {
    "instance": QuotaType("instance", "instance", "count", 10, 20, "instance", None),
    "vcpu": QuotaType("vcpu", "vcpu", "count", 10, 20, "instance", "vcpu"),
    "ram": QuotaType("ram", "ram", "mb", 10, 20, "instance", "ram"),
    "image": QuotaType("image", "image", "count", 10, 20, "image", None),
}
COUNTED: dict[Any, int] = {("instance", None): 5, ("instance", "vcpu"): 18, ("instance", "ram"): 1024}


@pytest.mark.parametrize(
    ("limits", "counted", "unknown", "expected"),
    [
        ({"instance": 10, "vcpu": 20, "ram": 4096}, COUNTED, (), Tightest("vcpu", 18, 20, "count")),
        ({"instance": 5, "vcpu": 18, "ram": 4096}, COUNTED, (), Tightest("instance", 5, 5, "count")),
        ({"instance": 10, "vcpu": 20, "ram": 512}, COUNTED, (), Tightest("ram", 1024, 512, "mb")),
        ({"instance": 10, "vcpu": 20, "ram": 4096}, {("image", None): 1}, (), Tightest("image", 1, 0, "count")),
        ({"instance": 10, "image": 0}, {}, (), Tightest("instance", 0, 10, "count")),
        ({"image": 0}, {}, (), None),
        ({}, {}, (), None),
        ({"instance": 10, "image": 4}, {("image", None): 1}, ("instance",), Tightest("image", 1, 4, "count")),
        ({"instance": 10}, {}, ("instance",), Tightest("instance", None, 10, "count")),
    ],
)
def test_the_tightest_quota_of_a_tenant(limits: Any, counted: Any, unknown: Any, expected: Tightest | None) -> None:
    assert tightest(limits, counted, TYPES, unknown) == expected


def populate(inside: Inside, tenants: int) -> dict[str, str]:
    """An organization with so many tenants, ten instances in each, and a session of its owner; the header of that."""
    now = datetime.now(UTC)
    ids = [str(uuid4()) for _ in range(tenants)]
    limits = (("instance", 20), ("vcpu", 25), ("ram", 20480))
    rows: dict[Any, Any] = {
        tables.users: factories.user(at=now, default_tenant_id=ids[0]),
        tables.organizations: factories.organization(AURORA, now),
        tables.memberships: factories.membership(now, organization_id=AURORA),
        tables.tenants: [factories.tenant(id, now, organization_id=AURORA) for id in ids],
        tables.tenant_quotas: [
            {"tenant_id": id, "resource_type": name, "limit": limit} for id in ids for name, limit in limits
        ],
        tables.sessions: factories.session(at=now),
        tables.resources: [
            factories.resource(str(uuid4()), now, tenant_id=id, attributes={"vcpu": 2, "ram": 1024})
            for id in ids
            for _ in range(10)
        ],
    }
    with inside.platform.database.write() as connection:
        factories.add(connection, rows)
    issuer = inside.platform.issuer
    assert isinstance(issuer, LocalIssuer)
    seconds = int(now.timestamp())
    claims = {"iss": issuer.issuer, "sub": "u", "aud": "frost", "sid": "s", "iat": seconds, "exp": seconds + 600}
    return {"Authorization": f"Bearer {issuer.sign(claims)}"}


def test_the_number_of_statements_is_independent_of_tenants(new_database_url: NewDatabaseUrl, tmp_path: Path) -> None:
    quota = {"resourceType": "vcpu", "title": "vCPUs", "used": 20, "limit": 25, "unit": "count"}
    for kind in KINDS:
        statements: dict[str, set[int]] = {"/api/v1/tenants": set(), "/api/v1/tenants?include=usage": set()}
        statements["/api/v1/me"] = set()
        for number in (1, 200):
            folder = tmp_path / f"{kind}-{number}"
            folder.mkdir()
            inside = Inside(folder, new_database_url(kind, True), "empty")
            headers = populate(inside, number)
            for path, counts in statements.items():
                inside.forget()
                answer = inside.get(path, headers)
                assert answer.status_code == 200, answer.text
                tenants = answer.json().get("tenants", [])
                assert len(tenants) == (number if "tenants" in path else 0)
                assert "usage" not in path or all(tenant["tightestQuota"] == quota for tenant in tenants)
                counts.add(len(inside.without_leases()))
            inside.close()
        assert [len(counts) for counts in statements.values()] == [1, 1, 1], (kind, statements)
        assert max(number for counts in statements.values() for number in counts) <= 6

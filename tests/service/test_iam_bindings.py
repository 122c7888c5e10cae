"""Workload identity bindings and the grants they must keep, on both databases."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from service.db import tables
from service.iam import author_check
from tests.people import REGIONAL, STAGING, VIEWER, WEB_SHOP
from tests.service import factories
from tests.service.access import READ, STOREFRONT, Iam, allow, code, details
from tests.service.inside import Inside

BINDINGS = "/workload-identity/bindings"


def name() -> str:
    return f"sa-{uuid4()}"


def body(**members: Any) -> dict[str, Any]:
    return {"clusterId": STOREFRONT, "namespace": "shop", "serviceAccount": name()} | members


def test_a_new_binding_has_the_given_members_and_is_inert_without_a_grant(iam: Iam) -> None:
    given = body()
    answer = iam.ask("POST", BINDINGS, given)
    made, path = answer.json(), f"{BINDINGS}/{answer.json()['id']}"
    assert answer.status == 201
    assert {member: made[member] for member in given} == given
    assert (made["tenantId"], made["scopes"], made["inert"]) == (WEB_SHOP, [], True)
    assert iam.get(path) == made
    again = iam.ask("POST", BINDINGS, given)
    assert (code(again), details(again)) == ((409, "BINDING_EXISTS"), {"bindingId": made["id"]})
    assert made["id"] in {one["id"] for one in iam.get(f"{BINDINGS}?limit=200")["bindings"]}
    # Scopes keep their order, are replaced whole and have no duplicates.
    scopes = ["storage:read", "compute:write", "compute:read"]
    assert iam.ask("PUT", path, {"scopes": scopes}).json()["scopes"] == scopes
    assert iam.ask("PUT", path, {"scopes": ["dns:read"]}).json()["scopes"] == ["dns:read"]
    twice = {"scopes": ["storage:read", "compute:read", "storage:read"]}
    for answer in (iam.ask("POST", BINDINGS, body() | twice), iam.ask("PUT", path, twice)):
        assert code(answer) == (400, "INVALID_INPUT")
        assert details(answer) == {"member": "scopes", "reason": "duplicate", "scope": "storage:read"}
    assert iam.get(path)["scopes"] == ["dns:read"]
    assert code(Iam(iam.platform, tenant=STAGING).ask("GET", path)) == (404, "NOT_FOUND")
    assert iam.ask("DELETE", path).status == 204
    assert code(iam.ask("DELETE", path)) == (404, "NOT_FOUND")


def test_scopes_beyond_the_author_and_invalid_scopes_names_and_clusters_are_refused(iam: Iam) -> None:
    for scope, refusal in (
        *(("*", "WILDCARD_SCOPE_NOT_ALLOWED"), ("compute:*", "WILDCARD_SCOPE_NOT_ALLOWED")),
        *(("compute:raed", "INVALID_SCOPE"), ("compute:instances:read", "INVALID_SCOPE")),
    ):
        assert code(iam.ask("POST", BINDINGS, body(scopes=[scope]))) == (400, refusal), scope
    names = {"namespace": ("Shop", "-x", "x" * 64, "a.b"), "serviceAccount": ("a..b", "", "x" * 254)}
    for member, value in ((member, value) for member, values in names.items() for value in values):
        answer = iam.ask("POST", BINDINGS, body(**{member: value}))
        assert (code(answer), details(answer)["member"]) == ((400, "INVALID_INPUT"), member), value
    # The first is of another tenant.
    for cluster in ("1b1e8540-e633-49f3-a94b-4171df294ff6", str(uuid4()), "x"):
        answer = iam.ask("POST", BINDINGS, body(clusterId=cluster))
        assert (answer.status, answer.json()) == (404, {"code": "NOT_FOUND", "message": "resource not found"})
    answer = iam.as_(VIEWER).ask("POST", BINDINGS, body(scopes=["compute:read", "compute:write"]))
    assert (code(answer), details(answer)["scope"]) == ((403, "SCOPE_EXCEEDS_AUTHOR"), "compute:write")
    # Held in one region only is not held.
    answer = iam.as_(REGIONAL).ask("POST", BINDINGS, body(scopes=["compute:read"]))
    assert details(answer)["counterexamples"]
    assert iam.as_(VIEWER).ask("POST", BINDINGS, body(scopes=["compute:read"])).status == 201


def test_the_last_grant_is_not_taken_by_a_detach_nor_by_dropping_scopes(iam: Iam) -> None:
    policy, other = iam.policy("p", allow(READ)), iam.policy("q", allow("dns:*"))
    binding = iam.binding(name(), ["compute:read"])
    path = f"{BINDINGS}/{binding}"
    assert code(iam.ask("PUT", path, {})) == (400, "BINDING_WOULD_HAVE_NO_GRANT")
    assert iam.get(path)["scopes"] == ["compute:read"]
    iam.attach(policy, "workload_identity", binding)
    assert iam.ask("PUT", path, {"scopes": None}).json()["scopes"] == []
    refused = iam.detach(policy, "workload_identity", binding)
    assert (code(refused), details(refused)) == ((400, "BINDING_WOULD_HAVE_NO_GRANT"), {"bindingIds": [binding]})
    assert len(iam.get(f"/iam/policies/{policy}/attachments")["attachments"]) == 1
    assert iam.ask("PUT", path, {"scopes": ["dns:read"]}).status == 200
    assert iam.detach(policy, "workload_identity", binding).status == 204
    # The last grant may be one of a group.
    group, binding = iam.group(f"g {uuid4()}"), iam.binding(name())
    iam.add(group, "workload_identity", binding)
    iam.attach(policy, "group", group)
    assert iam.get(f"{BINDINGS}/{binding}")["inert"] is False
    assert code(iam.detach(policy, "group", group)) == (400, "BINDING_WOULD_HAVE_NO_GRANT")
    iam.attach(other, "workload_identity", binding)
    assert iam.detach(policy, "group", group).status == 204
    assert code(iam.detach(other, "workload_identity", binding)) == (400, "BINDING_WOULD_HAVE_NO_GRANT")


def test_a_binding_that_loses_its_group_or_policy_is_inert_and_a_deleted_one_leaves_them(iam: Iam) -> None:
    for lose in ("member", "group", "policy", "binding"):
        policy, group, binding = iam.policy("p", allow(READ)), iam.group(f"g {uuid4()}"), iam.binding(name())
        iam.add(group, "workload_identity", binding)
        iam.attach(policy, "group", group)
        assert iam.decision("workload_identity", binding, READ)
        if lose == "member":
            answer = iam.drop(group, "workload_identity", binding)
        elif lose == "binding":
            iam.attach(policy, "workload_identity", binding)
            answer = iam.ask("DELETE", f"{BINDINGS}/{binding}")
            assert iam.get(f"/iam/groups/{group}/members")["members"] == []
            attachments = iam.get(f"/iam/policies/{policy}/attachments")["attachments"]
            assert [one["attacheeType"] for one in attachments] == ["group"]
        else:
            answer = iam.ask("DELETE", f"/iam/groups/{group}" if lose == "group" else f"/iam/policies/{policy}")
        assert answer.status == 204
        assert lose == "binding" or iam.get(f"{BINDINGS}/{binding}")["inert"] is True
        assert not iam.decision("workload_identity", binding, READ)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_the_author_check_runs_before_the_write_transaction(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    database, now = inside.platform.database, datetime.now(UTC)
    scopes = ["organizations:write", "compute:read", "dns:read"]
    headers = {"X-API-Key": inside.stored_key(tenant=WEB_SHOP, scopes=scopes, rate_limit=600)}
    cluster = factories.resource(STOREFRONT, now, tenant_id=WEB_SHOP, kind="kubernetes_cluster", state="active")
    with database.write() as connection:
        factories.add(connection, {tables.memberships: factories.membership(now), tables.resources: cluster})
    compare, in_transaction = author_check._compare, []

    def note(*arguments: Any) -> Any:
        in_transaction.append(database.group_commit.is_running_here())
        return compare(*arguments)

    monkeypatch.setattr(author_check, "_compare", note)
    path = f"/api/v1/tenants/{WEB_SHOP}{BINDINGS}"
    made = inside.ask("POST", path, headers, body(scopes=["compute:read"]))
    assert made.status_code == 201, made.text
    one = f"{path}/{made.json()['id']}"
    assert inside.ask("PUT", one, headers, {"scopes": ["dns:read"]}).status_code == 200
    assert inside.ask("DELETE", one, headers).status_code == 204
    assert in_transaction
    assert not any(in_transaction)

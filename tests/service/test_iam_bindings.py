"""Workload identity bindings and the grants they must keep, on both databases."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from service.db import tables
from service.iam import author_check
from tests.service import factories
from tests.service.access import STOREFRONT, Iam, allow, code, details
from tests.service.inside import Inside
from tests.service.running import REGIONAL, STAGING, VIEWER, WEB_SHOP

BINDINGS = "/workload-identity/bindings"


def name() -> str:
    return f"sa-{uuid4()}"


def test_a_new_binding_has_the_given_members_and_is_inert_without_a_grant(iam: Iam) -> None:
    account = name()
    body = {"clusterId": STOREFRONT, "namespace": "shop", "serviceAccount": account}
    answer = iam.ask("POST", BINDINGS, body)
    made = answer.json()
    assert answer.status == 201
    assert (made["clusterId"], made["namespace"], made["serviceAccount"]) == (STOREFRONT, "shop", account)
    assert (made["tenantId"], made["scopes"], made["inert"]) == (WEB_SHOP, [], True)
    assert iam.get(f"{BINDINGS}/{made['id']}") == made
    again = iam.ask("POST", BINDINGS, body)
    assert (code(again), details(again)) == ((409, "BINDING_EXISTS"), {"bindingId": made["id"]})
    assert made["id"] in {one["id"] for one in iam.get(f"{BINDINGS}?limit=200")["bindings"]}
    assert code(Iam(iam.platform, tenant=STAGING).ask("GET", f"{BINDINGS}/{made['id']}")) == (404, "NOT_FOUND")
    assert iam.ask("DELETE", f"{BINDINGS}/{made['id']}").status == 204
    assert code(iam.ask("DELETE", f"{BINDINGS}/{made['id']}")) == (404, "NOT_FOUND")


def test_scopes_keep_their_order_are_replaced_whole_and_have_no_duplicates(iam: Iam) -> None:
    path = f"{BINDINGS}/{iam.binding(name(), ['storage:read', 'compute:write', 'compute:read'])}"
    assert iam.get(path)["scopes"] == ["storage:read", "compute:write", "compute:read"]
    assert iam.ask("PUT", path, {"scopes": ["dns:read"]}).json()["scopes"] == ["dns:read"]
    twice = {"scopes": ["storage:read", "compute:read", "storage:read"]}
    body = {"clusterId": STOREFRONT, "namespace": "shop", "serviceAccount": name()}
    for answer in (iam.ask("POST", BINDINGS, body | twice), iam.ask("PUT", path, twice)):
        assert code(answer) == (400, "INVALID_INPUT")
        assert details(answer) == {"member": "scopes", "reason": "duplicate", "scope": "storage:read"}
    assert iam.get(path)["scopes"] == ["dns:read"]


@pytest.mark.parametrize(
    ("scope", "answer"),
    [
        ("*", (400, "WILDCARD_SCOPE_NOT_ALLOWED")),
        ("compute:*", (400, "WILDCARD_SCOPE_NOT_ALLOWED")),
        ("compute:raed", (400, "INVALID_SCOPE")),
        ("compute:instances:read", (400, "INVALID_SCOPE")),
    ],
)
def test_scopes_no_service_asks_for_are_refused(iam: Iam, scope: str, answer: tuple[int, str]) -> None:
    body = {"clusterId": STOREFRONT, "namespace": "shop", "serviceAccount": name(), "scopes": [scope]}
    assert code(iam.ask("POST", BINDINGS, body)) == answer


def test_a_scope_beyond_those_of_the_author_is_refused(iam: Iam) -> None:
    body = {"clusterId": STOREFRONT, "namespace": "shop", "serviceAccount": name()}
    answer = iam.as_(VIEWER).ask("POST", BINDINGS, body | {"scopes": ["compute:read", "compute:write"]})
    assert (code(answer), details(answer)["scope"]) == ((403, "SCOPE_EXCEEDS_AUTHOR"), "compute:write")
    # Held in one region only is not held.
    answer = iam.as_(REGIONAL).ask("POST", BINDINGS, body | {"scopes": ["compute:read"]})
    assert details(answer)["counterexamples"]
    assert iam.as_(VIEWER).ask("POST", BINDINGS, body | {"scopes": ["compute:read"]}).status == 201


@pytest.mark.parametrize(
    "bad",
    [
        {"namespace": "Shop"},
        {"namespace": "-x"},
        {"namespace": "x" * 64},
        {"namespace": "a.b"},
        {"serviceAccount": "a..b"},
        {"serviceAccount": ""},
        {"serviceAccount": "x" * 254},
    ],
)
def test_names_follow_the_rules_of_the_cluster(iam: Iam, bad: dict[str, str]) -> None:
    body = {"clusterId": STOREFRONT, "namespace": "shop", "serviceAccount": name()} | bad
    answer = iam.ask("POST", BINDINGS, body)
    assert (code(answer), details(answer)["member"]) == ((400, "INVALID_INPUT"), next(iter(bad)))


def test_a_cluster_of_another_tenant_is_not_there(iam: Iam) -> None:
    for cluster in ("1b1e8540-e633-49f3-a94b-4171df294ff6", str(uuid4()), "x"):
        body = {"clusterId": cluster, "namespace": "shop", "serviceAccount": name()}
        answer = iam.ask("POST", BINDINGS, body)
        assert (answer.status, answer.json()) == (404, {"code": "NOT_FOUND", "message": "resource not found"})


def test_the_last_grant_is_not_taken_by_a_detach_nor_by_dropping_scopes(iam: Iam) -> None:
    policy = iam.policy("p", allow("compute:instances:read"))
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


def test_the_last_grant_may_be_one_of_a_group(iam: Iam) -> None:
    policy, other = iam.policy("p", allow("compute:instances:read")), iam.policy("q", allow("dns:*"))
    group, binding = iam.group(f"g {uuid4()}"), iam.binding(name())
    iam.add(group, "workload_identity", binding)
    iam.attach(policy, "group", group)
    assert iam.get(f"{BINDINGS}/{binding}")["inert"] is False
    assert code(iam.detach(policy, "group", group)) == (400, "BINDING_WOULD_HAVE_NO_GRANT")
    iam.attach(other, "workload_identity", binding)
    assert iam.detach(policy, "group", group).status == 204
    assert code(iam.detach(other, "workload_identity", binding)) == (400, "BINDING_WOULD_HAVE_NO_GRANT")


@pytest.mark.parametrize("way", ["member", "group", "policy"])
def test_a_binding_that_loses_its_group_or_policy_is_inert(iam: Iam, way: str) -> None:
    policy, group = iam.policy("p", allow("compute:instances:read")), iam.group(f"g {uuid4()}")
    binding = iam.binding(name())
    iam.add(group, "workload_identity", binding)
    iam.attach(policy, "group", group)
    assert iam.decision("workload_identity", binding, "compute:instances:read")
    gone = {
        "member": lambda: iam.drop(group, "workload_identity", binding),
        "group": lambda: iam.ask("DELETE", f"/iam/groups/{group}"),
        "policy": lambda: iam.ask("DELETE", f"/iam/policies/{policy}"),
    }[way]
    assert gone().status == 204
    assert iam.get(f"{BINDINGS}/{binding}")["inert"] is True
    assert not iam.decision("workload_identity", binding, "compute:instances:read")


def test_with_scopes_and_a_policy_both_must_give_it(iam: Iam) -> None:
    policy, binding = iam.policy("p", allow("compute:*", "dns:*")), iam.binding(name(), ["compute:read"])
    assert iam.decision("workload_identity", binding, "compute:instances:read")
    iam.attach(policy, "workload_identity", binding)
    assert iam.decision("workload_identity", binding, "compute:instances:read")
    assert not iam.decision("workload_identity", binding, "compute:instances:delete")
    assert not iam.decision("workload_identity", binding, "dns:zones:read")
    iam.ask("PUT", f"{BINDINGS}/{binding}", {})
    assert iam.decision("workload_identity", binding, "dns:zones:read")


def test_deleting_a_binding_takes_it_out_of_groups_and_off_policies(iam: Iam) -> None:
    policy, group, binding = iam.policy("p", allow("dns:*")), iam.group(f"g {uuid4()}"), iam.binding(name())
    iam.add(group, "workload_identity", binding)
    iam.attach(policy, "workload_identity", binding)
    assert iam.ask("DELETE", f"{BINDINGS}/{binding}").status == 204
    assert iam.get(f"/iam/groups/{group}/members")["members"] == []
    assert iam.get(f"/iam/policies/{policy}/attachments")["attachments"] == []


def test_the_author_check_runs_before_the_write_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = Inside(tmp_path, f"sqlite:///{tmp_path / 'platform.db'}", "empty")
    database = inside.platform.database
    now = datetime.now(UTC)
    scopes = ["organizations:write", "compute:read", "dns:read"]
    secret = inside.stored_key(tenant=WEB_SHOP, scopes=scopes, rate_limit=600)
    cluster = factories.resource(STOREFRONT, now, tenant_id=WEB_SHOP, kind="kubernetes_cluster", state="active")
    with database.write() as connection:
        factories.add(connection, {tables.memberships: factories.membership(now), tables.resources: cluster})
    real, held = author_check._compare, []

    def compared(*arguments: Any) -> Any:
        held.append(database.group_commit.is_running_here())
        return real(*arguments)

    monkeypatch.setattr(author_check, "_compare", compared)
    headers = {"X-API-Key": secret}
    path = f"/api/v1/tenants/{WEB_SHOP}/workload-identity/bindings"
    body = {"clusterId": STOREFRONT, "namespace": "shop", "serviceAccount": "a", "scopes": ["compute:read"]}
    made = inside.ask("POST", path, headers, body)
    assert made.status_code == 201, made.text
    one = f"{path}/{made.json()['id']}"
    changed = inside.ask("PUT", one, headers, {"scopes": ["dns:read"]})
    assert changed.status_code == 200, changed.text
    assert inside.ask("DELETE", one, headers).status_code == 204
    assert held
    assert not any(held)
    database.close()

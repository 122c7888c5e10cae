"""Every changing route checks the caller again when it makes the change.

Each request is held twice: with half of its body sent, and between the guard's decision and the change. The kinds of
revocation are in test_revocations.py.
"""

import ast
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from service.app import AREAS
from service.authz.route_policies import ROUTE_POLICIES
from tests.people import AURORA, OWNER, WEB_SHOP
from tests.service.access import KEYS, STOREFRONT, Iam, allow, document
from tests.service.account import Key
from tests.service.clusters import Cluster
from tests.service.conftest import DemoUrl
from tests.service.held import SIGNED_OUT, InThisProcess, bearer

TENANT = f"/api/v1/tenants/{WEB_SHOP}"
INSTANCES = f"{TENANT}/resources/instance"
# Their changes are made by the operator, or the route itself checks again.
EXEMPT = {"operator", "anyone"}


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def platform(request: pytest.FixtureRequest, demo_url: DemoUrl) -> Iterator[InThisProcess]:
    with InThisProcess(demo_url(request.param)) as running:
        yield running


@pytest.fixture(scope="module")
def ids(platform: InThisProcess) -> dict[str, str]:
    iam, key = Iam(platform), Key(platform, "compute:read")
    group_id = iam.group("held")
    policy_id, binding_id = iam.policy("held", allow("compute:instances:read")), iam.binding("held")
    created = platform.ask("POST", INSTANCES, as_=OWNER, body=INSTANCE)
    assert created.status == 201, created
    assert iam.add(group_id, "api_key", KEYS["terraform"]).status == 204
    assert iam.attach(policy_id, "group", group_id).status == 204
    return {
        "tenant_id": WEB_SHOP,
        "organization_id": AURORA,
        "group_id": group_id,
        "policy_id": policy_id,
        "binding_id": binding_id,
        "key_id": key.id,
        "cluster_id": STOREFRONT,
        "kind": "instance",
        "resource_id": created.json()["id"],
        "run_id": "11111111-1111-4111-8111-111111111111",
    }


INSTANCE = {"name": "late", "region": "se-sto-1"}
QUOTA = {"resourceType": "vcpu", "limit": 7, "reason": "late"}

# Bodies of the changing routes, by audit event; the other routes take none. Without its body a request is not held.
BODIES: dict[str, Any] = {
    "tenant.create": {"displayName": "Late"},
    "tenant.rename": {"displayName": "Late"},
    "default_tags.update": {"tags": {"late": "yes"}},
    "default_tags.undo": {"preview": False},
    "api_key.create": {"name": "late", "scopes": ["compute:read"]},
    "api_key.update": {"name": "late"},
    "api_key.rotate": {},
    "group.create": {"name": "late"},
    "group.update": {"name": "late name"},
    "group.member.add": {"memberType": "api_key", "memberId": KEYS["tenant-reader"]},
    "policy.create": {"name": "late", "document": document(allow("compute:instances:read"))},
    "policy.update": {"name": "late name"},
    "policy.rollback": {"version": 1},
    "policy.attach": {"attacheeType": "api_key", "attacheeId": KEYS["tenant-reader"]},
    "workload_identity.create": {"clusterId": STOREFRONT, "namespace": "late", "serviceAccount": "late"},
    "workload_identity.update": {"scopes": ["compute:read"]},
    "resource.create": INSTANCE,
    "resource.update": {"name": "late"},
    "quota_request.create": QUOTA,
    "quota_request.create_organization": QUOTA,
}
QUERIES = {
    "group.member.remove": f"?memberType=api_key&memberId={KEYS['terraform']}",
    "policy.detach": "?attacheeType=group&attacheeId={group_id}",
}
CHANGING = {line for line, rule in ROUTE_POLICIES.items() if rule.audit_event and rule.who not in EXEMPT}
OPEN_TO_KEYS = sorted(line for line in CHANGING if ROUTE_POLICIES[line].who in ("principal", "person_or_key"))


def test_every_body_belongs_to_a_changing_route() -> None:
    assert {*BODIES, *QUERIES} <= {ROUTE_POLICIES[line].audit_event for line in CHANGING}


# Functions of route modules that write without a caller who could lose a right: those of the operator, and the exchange
# of a workload's token, which checks the token again inside its transaction.
WITHOUT_CALLER = {
    "cancel_operation",
    "drop_audit_segment",
    "exchange_subject_token",
    "restore_account",
    "review_quota_request",
    "stop_platform",
}


def test_routes_begin_a_transaction_only_with_a_new_decision() -> None:
    """`change` is the only way to write in a module of routes."""
    nodes = [node for area in AREAS for node in ast.walk(ast.parse(inspect.getsource(area)))]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    assert {one.name for one in functions if "database.write(" in ast.unparse(one)} <= WITHOUT_CALLER


def request_of(platform: InThisProcess, line: tuple[str, str], ids: dict[str, str]) -> tuple[str, str, Any]:
    """Return method, path and body of a request that its caller may make."""
    event = ROUTE_POLICIES[line].audit_event or ""
    body = BODIES.get(event)
    if event == "workload_identity.issuer.set":
        cluster = Cluster(platform)
        body = {"issuer": cluster.issuer, "keys": [dict(cluster.key.as_dict(private=False))]}
    if event == "interactive.open":
        body = {"resourceId": ids["resource_id"]}
    return line[0], (line[1] + QUERIES.get(event, "")).format(**ids), body


# Where a request is held while its caller loses the right to it.
HOLDS = {"body": InThisProcess.hold_body, "change": InThisProcess.hold_change}
every_place = pytest.mark.parametrize("place", [pytest.param("body", marks=pytest.mark.slow), "change"])


@every_place
@pytest.mark.parametrize("line", sorted(CHANGING), ids=" ".join)
def test_a_held_change_is_refused_after_its_session_has_ended(
    platform: InThisProcess, ids: dict[str, str], line: tuple[str, str], place: str
) -> None:
    method, path, body = request_of(platform, line, ids)
    token = platform.sign_in(OWNER)
    held = HOLDS[place](platform, method, path, bearer(token), body)
    assert platform.ask("POST", "/api/v1/sessions/current/end", headers=bearer(token)).status == 204
    platform.require_refused(held, SIGNED_OUT)


@every_place
@pytest.mark.parametrize("line", OPEN_TO_KEYS, ids=" ".join)
def test_a_held_change_is_refused_after_its_key_was_revoked(
    platform: InThisProcess, ids: dict[str, str], line: tuple[str, str], place: str
) -> None:
    method, path, body = request_of(platform, line, ids)
    scopes = "compute:*", "organizations:*", "quotas:*", "sessions:forward", "sessions:pty", "sessions:write"
    key = Key(platform, *scopes)
    held = HOLDS[place](platform, method, path, {"X-API-Key": key.secret}, body)
    assert key.revoke().status == 200
    platform.require_refused(held, SIGNED_OUT)

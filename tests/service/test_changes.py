"""Every changing route checks the caller again when it makes the change: the credential may have been revoked since.

Each request is held twice: with half of its body sent, and between the guard's decision and the change. The kinds of
revocation are in test_revocations.py.
"""

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from service.app import AREAS
from service.authz.route_policies import HOME_PATHS, ROUTE_POLICIES
from tests.service.access import KEYS, STOREFRONT, Iam, allow, document
from tests.service.account import Key
from tests.service.clusters import Cluster
from tests.service.conftest import DemoUrl
from tests.service.held import SIGNED_OUT, InThisProcess, bearer
from tests.service.running import AURORA, OWNER, WEB_SHOP

TENANT = f"/api/v1/tenants/{WEB_SHOP}"
INSTANCES = f"{TENANT}/resources/instance"
# Their changes are made by the owner of the socket, or the route itself checks again.
EXEMPT = {"operator", "anyone"}


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def platform(request: pytest.FixtureRequest, demo_url: DemoUrl) -> Iterator[InThisProcess]:
    with InThisProcess(demo_url(request.param)) as running:
        yield running


@dataclass(frozen=True)
class Things:
    """The objects that the requests are about."""

    group: str
    policy: str
    binding: str
    key: Key
    instance: str

    @classmethod
    def of(cls, platform: InThisProcess, name: str) -> "Things":
        iam = Iam(platform)
        things = cls(
            iam.group(name),
            iam.policy(name, allow("compute:instances:read")),
            iam.binding(name),
            Key(platform, "compute:read"),
            made_instance(platform, name),
        )
        assert iam.add(things.group, "api_key", KEYS["terraform"]).status == 204
        assert iam.attach(things.policy, "group", things.group).status == 204
        return things


def made_instance(platform: InThisProcess, name: str) -> str:
    answer = platform.ask("POST", INSTANCES, as_=OWNER, body=instance(name))
    assert answer.status == 201, answer
    return str(answer.json()["id"])


def instance(name: str) -> dict[str, Any]:
    return {"name": name, "region": "se-sto-1"}


QUOTA = {"resourceType": "vcpu", "limit": 7, "reason": "late"}
ATTACHEE = "attacheeType=group&attacheeId={group}"
MEMBER_QUERY = f"memberType=api_key&memberId={KEYS['terraform']}"

# One request for each changing route, by its line in the table: what follows its path, and its body.
REQUESTS: dict[tuple[str, str], tuple[str, Any]] = {
    ("POST", "/api/v1/organizations/{organization_id}/tenants"): ("", {"displayName": "Late"}),
    ("PATCH", "/api/v1/tenants/{tenant_id}"): ("", {"displayName": "Late"}),
    ("PUT", "/api/v1/tenants/{tenant_id}/default-tags"): ("", {"tags": {"late": "yes"}}),
    ("POST", "/api/v1/tenants/{tenant_id}/default-tags/apply"): ("", None),
    ("POST", "/api/v1/tenants/{tenant_id}/default-tags/runs/{run_id}/undo"): ("", {"preview": False}),
    ("POST", "/api/v1/tenants/{tenant_id}/api-keys"): ("", {"name": "late", "scopes": ["compute:read"]}),
    ("PATCH", "/api/v1/tenants/{tenant_id}/api-keys/{key_id}"): ("", {"name": "late"}),
    ("POST", "/api/v1/tenants/{tenant_id}/api-keys/{key_id}/revoke"): ("", None),
    ("POST", "/api/v1/tenants/{tenant_id}/api-keys/{key_id}/rotate"): ("", {}),
    ("DELETE", "/api/v1/tenants/{tenant_id}/api-keys/{key_id}"): ("", None),
    ("POST", "/api/v1/tenants/{tenant_id}/iam/groups"): ("", {"name": "late"}),
    ("PATCH", "/api/v1/tenants/{tenant_id}/iam/groups/{group_id}"): ("", {"name": "late name"}),
    ("DELETE", "/api/v1/tenants/{tenant_id}/iam/groups/{group_id}"): ("", None),
    ("POST", "/api/v1/tenants/{tenant_id}/iam/groups/{group_id}/members"): (
        "",
        {"memberType": "api_key", "memberId": KEYS["tenant-reader"]},
    ),
    ("DELETE", "/api/v1/tenants/{tenant_id}/iam/groups/{group_id}/members"): (f"?{MEMBER_QUERY}", None),
    ("POST", "/api/v1/tenants/{tenant_id}/iam/policies"): (
        "",
        {"name": "late", "document": document(allow("compute:instances:read"))},
    ),
    ("PATCH", "/api/v1/tenants/{tenant_id}/iam/policies/{policy_id}"): ("", {"name": "late name"}),
    ("DELETE", "/api/v1/tenants/{tenant_id}/iam/policies/{policy_id}"): ("", None),
    ("POST", "/api/v1/tenants/{tenant_id}/iam/policies/{policy_id}/rollback"): ("", {"version": 1}),
    ("POST", "/api/v1/tenants/{tenant_id}/iam/policies/{policy_id}/attachments"): (
        "",
        {"attacheeType": "api_key", "attacheeId": KEYS["tenant-reader"]},
    ),
    ("DELETE", "/api/v1/tenants/{tenant_id}/iam/policies/{policy_id}/attachments"): ("?" + ATTACHEE, None),
    ("POST", "/api/v1/tenants/{tenant_id}/workload-identity/bindings"): (
        "",
        {"clusterId": STOREFRONT, "namespace": "late", "serviceAccount": "late"},
    ),
    ("PUT", "/api/v1/tenants/{tenant_id}/workload-identity/bindings/{binding_id}"): ("", {"scopes": ["compute:read"]}),
    ("DELETE", "/api/v1/tenants/{tenant_id}/workload-identity/bindings/{binding_id}"): ("", None),
    ("PUT", "/api/v1/tenants/{tenant_id}/workload-identity/clusters/{cluster_id}/issuer"): ("", "issuer"),
    ("DELETE", "/api/v1/tenants/{tenant_id}/workload-identity/clusters/{cluster_id}/issuer"): ("", None),
    ("POST", "/api/v1/tenants/{tenant_id}/resources/{kind}"): ("", instance("late")),
    ("PATCH", "/api/v1/tenants/{tenant_id}/resources/{kind}/{resource_id}"): ("", {"name": "late"}),
    ("DELETE", "/api/v1/tenants/{tenant_id}/resources/{kind}/{resource_id}"): ("", None),
    ("POST", "/api/v1/tenants/{tenant_id}/resources/{kind}/{resource_id}/start"): ("", None),
    ("POST", "/api/v1/tenants/{tenant_id}/resources/{kind}/{resource_id}/stop"): ("", None),
    ("POST", "/api/v1/tenants/{tenant_id}/resources/{kind}/{resource_id}/restart"): ("", None),
    ("POST", "/api/v1/tenants/{tenant_id}/interactive/port-forwards"): ("", {"resourceId": "{instance}"}),
    ("POST", "/api/v1/tenants/{tenant_id}/interactive/database-consoles"): ("", {"resourceId": "{instance}"}),
    ("POST", "/api/v1/tenants/{tenant_id}/interactive/shells"): ("", {"resourceId": "{instance}"}),
    ("POST", "/api/v1/tenants/{tenant_id}/interactive/cluster-proxies"): ("", {"resourceId": "{instance}"}),
    ("POST", "/api/v1/tenants/{tenant_id}/quota-requests"): ("", QUOTA),
    ("POST", "/api/v1/organizations/{organization_id}/quota-requests"): ("", QUOTA),
    ("DELETE", "/api/v1/me"): ("", None),
    ("POST", "/api/v1/sessions/revoke-all"): ("", None),
    ("POST", "/api/v1/sessions/current/end"): ("", None),
}
# The untenanted paths take the same requests.
REQUESTS |= {
    (method, home): REQUESTS[method, path]
    for home, path in HOME_PATHS.items()
    for (method, of) in list(REQUESTS)
    if of == path
}
CHANGING = {line for line, rule in ROUTE_POLICIES.items() if rule.audit_event and rule.who not in EXEMPT}
OPEN_TO_KEYS = sorted(line for line in CHANGING if ROUTE_POLICIES[line].who in ("principal", "person_or_key"))


def test_every_changing_route_has_a_request() -> None:
    assert set(REQUESTS) == CHANGING


# Functions of route modules that write without a caller who could lose a right: those of the socket's owner, and the
# exchange of a workload's token, which checks the token again inside its transaction.
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
    functions = set()
    for area in AREAS:
        for node in ast.walk(ast.parse(inspect.getsource(area))):
            if isinstance(node, ast.FunctionDef) and "database.write(" in ast.unparse(node):
                functions.add(node.name)
    assert functions <= WITHOUT_CALLER


def request_of(platform: InThisProcess, line: tuple[str, str], things: Things) -> tuple[str, str, Any]:
    """Method, path and body of a request that its caller may make."""
    suffix, body = REQUESTS[line]
    if body == "issuer":
        cluster = Cluster(platform)
        body = {"issuer": cluster.issuer, "keys": [dict(cluster.key.as_dict(private=False))]}
    if isinstance(body, dict) and body.get("resourceId"):
        body = {"resourceId": things.instance}
    names = {
        "tenant_id": WEB_SHOP,
        "organization_id": AURORA,
        "group_id": things.group,
        "policy_id": things.policy,
        "binding_id": things.binding,
        "key_id": things.key.id,
        "cluster_id": STOREFRONT,
        "kind": "instance",
        "resource_id": things.instance,
        "run_id": "11111111-1111-4111-8111-111111111111",
    }
    return line[0], line[1].format(**names) + suffix.format(group=things.group), body


@pytest.fixture(scope="module")
def things(platform: InThisProcess) -> Things:
    return Things.of(platform, "walked")


# Where a request is held while its caller loses the right to it.
HOLDS = {"body": InThisProcess.hold_body, "change": InThisProcess.hold_change}


@pytest.mark.parametrize("place", HOLDS)
@pytest.mark.parametrize("line", sorted(CHANGING), ids=" ".join)
def test_a_held_change_is_refused_after_its_session_has_ended(
    platform: InThisProcess, things: Things, line: tuple[str, str], place: str
) -> None:
    method, path, body = request_of(platform, line, things)
    token = platform.sign_in(OWNER)
    held = HOLDS[place](platform, method, path, bearer(token), body)
    assert platform.ask("POST", "/api/v1/sessions/current/end", headers=bearer(token)).status == 204
    platform.require_refused(held, SIGNED_OUT)


@pytest.mark.parametrize("place", HOLDS)
@pytest.mark.parametrize("line", OPEN_TO_KEYS, ids=" ".join)
def test_a_held_change_is_refused_after_its_key_was_revoked(
    platform: InThisProcess, things: Things, line: tuple[str, str], place: str
) -> None:
    method, path, body = request_of(platform, line, things)
    scopes = "compute:*", "organizations:*", "quotas:*", "sessions:forward", "sessions:pty", "sessions:write"
    key = Key(platform, *scopes)
    held = HOLDS[place](platform, method, path, {"X-API-Key": key.secret}, body)
    assert key.revoke().status == 200
    platform.require_refused(held, SIGNED_OUT)

"""The calls of the public Terraform provider for its four resources, as in its published source."""

import json
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import pytest
from sqlalchemy import update

from service.db import tables
from service.db.engine import Database
from tests.api import Answer
from tests.people import ADMIN, MEMBER, NEWSROOM, OUTSIDER, OWNER, STAGING, VIEWER, WEB_SHOP
from tests.service.access import STOREFRONT, Iam, allow, code, deny, document
from tests.service.account import Key
from tests.service.queries import execute
from tests.service.running import Running

HOME = "/v1"
TENANT = f"/v1/tenants/{WEB_SHOP}"
BINDINGS = f"{HOME}/workload-identity/bindings"
# Its read of a binding fails if one of these is missing.
BINDING_MEMBERS = {"id", "clusterId", "tenantId", "namespace", "serviceAccount", "scopes", "createdAt", "updatedAt"}


class Provider:
    """The provider's calls with one credential. Its endpoint ends in `/api`."""

    def __init__(self, platform: Running, **credential: Any) -> None:
        self.platform, self.credential = platform, credential

    def call(self, method: str, path: str, body: Any = None) -> Answer:
        headers = {"User-Agent": "terraform-provider-frostmoln/0.36.2", "X-FM-Provider-Version": "0.36.2"}
        return self.platform.request(method, f"/api{path}", headers, body=body, **self.credential)

    def done(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.call(method, path, body)
        assert answer.status < 400, answer
        return answer.json() if answer.body else None

    def has_lost(self, path: str, method: str = "GET") -> bool:
        """Return whether the provider removes a resource from its state: a flat 404 only."""
        answer = self.call(method, path)
        return answer.status == 404 and "code" in answer.json()


def with_session(platform: Running, person: str = OWNER) -> Provider:
    return Provider(platform, token=platform.token(person))


def with_key(platform: Running, *scopes: str, **options: str) -> Provider:
    return Provider(platform, key=Key(platform, *scopes, rateLimit=60_000, **options).secret)


def new_binding(*scopes: str) -> dict[str, Any]:
    body: dict[str, Any] = {"clusterId": STOREFRONT, "namespace": "tests", "serviceAccount": f"sa-{uuid4()}"}
    return body | ({"scopes": list(scopes)} if scopes else {})


def cycle_of_key(provider: Provider, base: str) -> None:
    """Create, read, update and destroy a `frostmoln_api_key`."""
    created = provider.done("POST", f"{base}/api-keys", {"name": "ci", "scopes": ["compute:read"]})
    path = f"{base}/api-keys/{created['apiKey']['id']}"
    assert provider.done("GET", path) == created["apiKey"]
    changed = {"name": "ci", "description": "changed", "scopes": ["compute:read", "storage:read"]}
    provider.done("PATCH", path, changed)
    read = provider.done("GET", path)
    assert ("key" in created, "key" in read, read | changed) == (True, False, read)
    provider.done("DELETE", path)
    assert provider.has_lost(path)
    assert provider.has_lost(path, "DELETE")


def cycle_of_policy_and_attachment(provider: Provider, base: str, binding_id: str) -> None:
    """The same for a `frostmoln_iam_policy` and a `frostmoln_iam_policy_attachment` to a binding."""
    body = {"name": "ci", "document": document(allow("compute:instances:read"))}
    created = provider.done("POST", f"{base}/iam/policies", body)
    assert created["document"] == body["document"]
    path = f"{base}/iam/policies/{created['id']}"
    changed = document(allow("compute:instances:read"), deny("compute:instances:delete"))
    updated = provider.done("PATCH", path, {"name": "ci", "description": "", "document": changed})
    assert (updated["version"], updated["document"]) == (2, changed)
    assert provider.done("GET", path) == updated
    attachee = {"attacheeType": "workload_identity", "attacheeId": binding_id}
    assert provider.done("POST", f"{path}/attachments", attachee) is None
    listed = provider.done("GET", f"{path}/attachments?limit=100&{urlencode(attachee)}")
    (attachment,) = listed["attachments"]
    assert attachment | attachee | {"policyId": created["id"]} == attachment
    assert provider.done("DELETE", f"{path}/attachments?{urlencode(attachee)}") is None
    assert provider.has_lost(f"{path}/attachments?{urlencode(attachee)}", "DELETE")
    provider.done("DELETE", path)
    assert provider.has_lost(path)
    assert provider.has_lost(f"{path}/attachments?limit=100")


def cycle_of_binding(provider: Provider, base: str) -> str:
    """The same for a `frostmoln_workload_identity_binding`; return another one."""
    bindings = f"{base}/workload-identity/bindings"
    first = provider.done("POST", bindings, new_binding("compute:read"))
    assert set(first) >= BINDING_MEMBERS
    path = f"{bindings}/{first['id']}"
    assert provider.done("GET", path) == first
    scopes = ["compute:read", "storage:read"]
    assert provider.done("PUT", path, {"scopes": scopes})["scopes"] == scopes
    provider.done("DELETE", path)
    assert provider.has_lost(path)
    return str(provider.done("POST", bindings, new_binding("compute:read"))["id"])


@pytest.mark.parametrize("base", [HOME, TENANT], ids=["home", "tenant"])
def test_the_four_resources_are_managed(platform: Running, base: str) -> None:
    for provider in (with_key(platform, "organizations:write", "compute:read", "storage:read"), with_session(platform)):
        assert provider.done("GET", "/v1/me")["tenantId"] == WEB_SHOP
        binding_id = cycle_of_binding(provider, base)
        listed = provider.done("GET", f"{base}/workload-identity/bindings?limit=200")
        assert binding_id in {one["id"] for one in listed["bindings"]}
    cycle_of_key(provider, base)
    cycle_of_policy_and_attachment(provider, base, binding_id)


def test_calls_without_a_tenant_act_in_the_home_of_the_principal(platform: Running) -> None:
    provider = with_key(platform, "organizations:write", "compute:read", tenant=STAGING)
    listed = provider.done("GET", f"{BINDINGS}?limit=200")
    assert {one["tenantId"] for one in listed["bindings"]} <= {STAGING}
    # The cluster is one of another tenant.
    assert code(provider.call("POST", BINDINGS, new_binding("compute:read"))) == (404, "NOT_FOUND")
    policies = "/api/v1/iam/policies"
    listed = platform.get(f"{policies}?limit=200", as_=OWNER).json()["policies"]
    assert {one["tenantId"] for one in listed} == {WEB_SHOP}
    assert platform.get(policies, as_=OWNER, headers={"X-Tenant-Id": WEB_SHOP}).status == 200
    for other in (STAGING, NEWSROOM):
        answer = platform.get(policies, as_=OWNER, headers={"X-Tenant-Id": other})
        assert code(answer) == (403, "TENANT_ACCESS_DENIED")


def test_a_person_without_a_default_tenant_names_one(platform: Running, platform_database: Database) -> None:
    for path in ("/v1/api-keys", "/v1/iam/policies", BINDINGS):
        reply = with_session(platform, OUTSIDER).call("GET", path)
        assert code(reply) == (403, "TENANT_ACCESS_DENIED")
        assert reply.json()["error"]["message"] == "this account has no default tenant"
        assert "/api/v1/tenants/{tenant_id}/" in reply.json()["error"]["hint"]
    person = tables.users.c.email == MEMBER
    execute(platform_database, update(tables.users).where(person).values(default_tenant_id=NEWSROOM))
    try:
        assert code(with_session(platform, MEMBER).call("GET", BINDINGS)) == (403, "TENANT_ACCESS_DENIED")
    finally:
        execute(platform_database, update(tables.users).where(person).values(default_tenant_id=WEB_SHOP))


def test_a_key_gives_no_scope_beyond_its_own(platform: Running) -> None:
    for scopes, given, status, error in (
        ("organizations:write compute:read", "compute:read", 201, ""),
        ("organizations:* compute:*", "compute:write", 201, ""),
        ("organizations:write compute:read", "compute:write", 403, "SCOPE_EXCEEDS_AUTHOR"),
        ("organizations:write", "compute:read", 403, "SCOPE_EXCEEDS_AUTHOR"),
        ("organizations:write", "organizations:write", 201, ""),
        ("organizations:write", "organizations:read", 403, "SCOPE_EXCEEDS_AUTHOR"),
        ("organizations:read compute:read", "compute:read", 403, "INSUFFICIENT_SCOPE"),
        ("compute:read", "compute:read", 403, "INSUFFICIENT_SCOPE"),
    ):
        reply = with_key(platform, *scopes.split()).call("POST", BINDINGS, new_binding(given))
        assert (reply.status, reply.json().get("error", {}).get("code", "")) == (status, error), (scopes, given)
        if error == "SCOPE_EXCEEDS_AUTHOR":
            assert reply.json()["error"]["message"] == f"the scope {given} grants more than the API key has"


def test_a_key_changes_no_binding_that_has_more_than_the_key(platform: Running) -> None:
    iam = Iam(platform)
    provider = with_key(platform, "organizations:write", "compute:read")
    stronger = f"{BINDINGS}/{iam.binding(f'sa-{uuid4()}', ['compute:read', 'storage:write'])}"
    assert provider.done("GET", stronger)["scopes"] == ["compute:read", "storage:write"]
    for reply in (provider.call("PUT", stronger, {"scopes": ["compute:read"]}), provider.call("DELETE", stronger)):
        assert code(reply) == (403, "PRINCIPAL_EXCEEDS_AUTHOR")
        assert "API key" in reply.json()["error"]["message"]
    # Without its scopes it would have all that its policy allows.
    weak = iam.binding(f"sa-{uuid4()}", ["compute:read"])
    policy = iam.policy("strong", allow("storage:*"))
    assert iam.attach(policy, "workload_identity", weak).status == 204
    assert code(provider.call("PUT", f"{BINDINGS}/{weak}", {})) == (403, "POLICY_EXCEEDS_AUTHOR")
    with_session(platform).done("PUT", f"{BINDINGS}/{weak}", {})
    assert code(provider.call("DELETE", f"{BINDINGS}/{weak}")) == (403, "PRINCIPAL_EXCEEDS_AUTHOR")


def test_a_key_has_no_more_than_its_creator(platform: Running, platform_database: Database) -> None:
    provider = with_key(platform, "organizations:write", "compute:read", "secrets:read", person=ADMIN)
    created = provider.done("POST", BINDINGS, new_binding("compute:read"))
    person = tables.memberships.c.user_id == "d163ed25-e98a-4276-adff-ba7d1c098f94"

    def become(role: str) -> None:
        execute(platform_database, update(tables.memberships).where(person).values(role=role))

    try:
        become("member")  # The person may manage bindings, but lacks a part of the scope organizations:write.
        assert provider.call("POST", BINDINGS, new_binding("secrets:read")).status == 201
        stronger = new_binding("organizations:write")
        assert code(provider.call("POST", BINDINGS, stronger)) == (403, "SCOPE_EXCEEDS_AUTHOR")
        become("viewer")
        for reply in (
            provider.call("POST", BINDINGS, new_binding("compute:read")),
            provider.call("GET", f"{BINDINGS}/{created['id']}"),
            provider.call("DELETE", f"{BINDINGS}/{created['id']}"),
        ):
            assert code(reply) == (403, "INSUFFICIENT_PERMISSIONS")
    finally:
        become("admin")


def test_policies_of_a_key_narrow_its_actions_and_grants(platform: Running) -> None:
    iam = Iam(platform)
    key = Key(platform, "organizations:write", "compute:read", "storage:read", rateLimit=60_000)
    provider = Provider(platform, key=key.secret)

    def attach(name: str, *rules: dict[str, Any], author: str = OWNER) -> str:
        policy = iam.as_(author).policy(name, *rules)
        assert iam.attach(policy, "api_key", key.id).status == 204
        return policy

    manages = attach("manages bindings", allow("iam:workload-identities:*"), allow("storage:*"))
    assert provider.call("POST", BINDINGS, new_binding("storage:read")).status == 201
    assert code(provider.call("POST", BINDINGS, new_binding("compute:read"))) == (403, "SCOPE_EXCEEDS_AUTHOR")
    # A policy grants at most the permissions of its author: a viewer's policy grants no storage operation.
    attach("of a viewer", allow("compute:*:read"), allow("compute:*:list"), author=VIEWER)
    assert provider.call("POST", BINDINGS, new_binding("storage:read")).status == 201
    # A policy with a condition, which would be lost in a scope.
    attach("from one network", allow("compute:*", ipInRange={"frn:sourceIp": ["203.0.113.0/24"]}))
    assert code(provider.call("POST", BINDINGS, new_binding("compute:read"))) == (403, "SCOPE_EXCEEDS_AUTHOR")
    attach("deletes none", deny("iam:workload-identities:delete"))
    created = provider.done("POST", BINDINGS, new_binding("storage:read"))
    reply = provider.call("DELETE", f"{BINDINGS}/{created['id']}")
    assert code(reply) == (403, "INSUFFICIENT_PERMISSIONS")
    assert reply.json()["error"]["required_permission"] == "iam:workload-identities:delete"
    assert iam.detach(manages, "api_key", key.id).status == 204
    assert code(provider.call("GET", BINDINGS)) == (403, "INSUFFICIENT_PERMISSIONS")


def test_a_refused_call_without_a_tenant_is_in_the_log_of_the_keys_tenant(platform: Running) -> None:
    key = Key(platform, "organizations:write", rateLimit=60_000)
    key.use("POST", "/api/v1/api-keys", {"name": "ci", "scopes": ["compute:read"]})
    query = "operation=api_key.create&outcome=refused&limit=200"
    entries = platform.get(f"/api/v1/tenants/{WEB_SHOP}/activity?{query}", as_=OWNER).json()["entries"]
    assert {(one["operation"], one["outcome"]) for one in entries} == {("api_key.create", "refused")}
    assert any(key.id in json.dumps(one) for one in entries), entries[:3]

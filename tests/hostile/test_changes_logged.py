"""Every change of the table of routes, made once: exactly one entry, of who, with what, where and what."""

from typing import Any
from urllib.parse import urlencode

import pytest
from sqlalchemy import select

from service.authz.route_policies import ROUTE_POLICIES
from service.db.engine import Database
from service.db.tables import audit_log
from tests.api import Answer
from tests.people import AURORA, MEMBER, OWNER, SANDBOX, STAGING, VIEWER, WEB_SHOP
from tests.service.access import KEYS, STOREFRONT, Iam, allow, document
from tests.service.audited import trace
from tests.service.clusters import Cluster, exchange
from tests.service.queries import fetch
from tests.service.running import Running

pytestmark = pytest.mark.slow

TENANT = f"/api/v1/tenants/{WEB_SHOP}"
GRANTED = {"name": "logged", "document": document(allow("compute:instances:read"))}
# Entries of a sign-in are tested in tests/service/test_issuer_*.
ELSEWHERE = {"device.approve"}


class Log:
    """Single changes, each with its entries in the audit log."""

    def __init__(self, platform: Running) -> None:
        self.platform = platform
        self.database = Database(platform.database_url)
        self.seen: set[str] = set()
        self.me = platform.get("/api/v1/me", as_=OWNER).json()

    def change(
        self,
        operation: str,
        method: str,
        path: str,
        body: Any = None,
        *,
        as_: str | None = OWNER,
        tenant: str | None = WEB_SHOP,
    ) -> Any:
        request_id, headers = trace()
        answer = self.platform.ask(method, path, as_=as_, body=body, headers=headers)
        self.entry_of(request_id, operation, answer, tenant, "staff" if as_ is None else "session")
        return answer.json() if answer.body else None

    def entry_of(self, request_id: str, operation: str, answer: Answer, tenant: str | None, kind: str) -> None:
        assert answer.status in (200, 201, 202, 204), (operation, answer)
        entries = fetch(self.database, select(audit_log).where(audit_log.c.request_id == request_id))
        assert [(entry.operation, entry.outcome) for entry in entries] == [(operation, "done")]
        (entry,) = entries
        assert (entry.actor_kind, entry.tenant_id) == (kind, tenant), entry
        assert entry.actor_id
        assert entry.target
        assert entry.hash
        if kind == "session":
            assert entry.credential_id
        self.seen.add(operation)


def test_each_change_is_one_audit_entry(own: Running) -> None:
    log = Log(own)
    iam = f"{TENANT}/iam"
    log.change("tenant.rename", "PATCH", TENANT, {"displayName": "Logged"})
    keys, groups, policies = f"{TENANT}/api-keys", f"{iam}/groups", f"{iam}/policies"
    made = log.change("api_key.create", "POST", keys, {"name": "logged", "scopes": ["compute:read"]})
    key = f"{keys}/{made['apiKey']['id']}"
    group = f"{groups}/" + log.change("group.create", "POST", groups, {"name": "logged"})["id"]
    policy = f"{policies}/" + log.change("policy.create", "POST", policies, GRANTED)["id"]
    reader, described = KEYS["tenant-reader"], {"description": "x"}
    member, attachee = ({f"{one}Type": "api_key", f"{one}Id": reader} for one in ("member", "attachee"))
    for operation, method, path, body in (
        ("api_key.update", "PATCH", key, described),
        ("api_key.rotate", "POST", f"{key}/rotate", {}),
        ("api_key.revoke", "POST", f"{key}/revoke", None),
        ("api_key.delete", "DELETE", key, None),
        ("group.update", "PATCH", group, described),
        ("group.member.add", "POST", f"{group}/members", member),
        ("group.member.remove", "DELETE", f"{group}/members?{urlencode(member)}", None),
        ("policy.update", "PATCH", policy, {"document": document(allow("compute:*"))}),
        ("policy.rollback", "POST", f"{policy}/rollback", {"version": 1}),
        ("policy.attach", "POST", f"{policy}/attachments", attachee),
        ("policy.detach", "DELETE", f"{policy}/attachments?{urlencode(attachee)}", None),
        ("policy.delete", "DELETE", policy, None),
        ("group.delete", "DELETE", group, None),
    ):
        log.change(operation, method, path, body)
    bindings = f"{TENANT}/workload-identity/bindings"
    body = {"clusterId": STOREFRONT, "namespace": "tests", "serviceAccount": "logged", "scopes": ["compute:read"]}
    binding = f"{bindings}/" + log.change("workload_identity.create", "POST", bindings, body)["id"]
    log.change("workload_identity.update", "PUT", binding, {"scopes": ["storage:read"]})
    cluster = Cluster(own)
    body = {"issuer": cluster.issuer, "keys": [dict(cluster.key.as_dict(private=False))]}
    log.change("workload_identity.issuer.set", "PUT", cluster.path, body)
    answer = exchange(own, cluster.token("tests", "logged"))
    request_id = answer.headers["x-request-id"]
    log.entry_of(request_id, "workload_identity.exchange", answer, WEB_SHOP, "workload")
    log.change("workload_identity.issuer.remove", "DELETE", cluster.path)
    log.change("workload_identity.delete", "DELETE", binding)
    resource = f"{TENANT}/resources/instance"
    found = next(one for one in Iam(own).get("/resources/instance")["resources"] if one["state"] == "running")
    for verb in ("stop", "start", "restart"):
        log.change(f"resource.{verb}", "POST", f"{resource}/{found['id']}/{verb}")
    body = {"resourceId": found["id"]}
    log.change("interactive.open", "POST", f"{TENANT}/interactive/shells", body)
    place = f"/api/v1/tenants/{STAGING}/resources/secret"
    secret = log.change("resource.create", "POST", place, {"name": "x", "region": found["region"]}, tenant=STAGING)
    log.change("resource.update", "PATCH", f"{place}/{secret['id']}", {"name": "y"}, tenant=STAGING)
    log.change("resource.delete", "DELETE", f"{place}/{secret['id']}", tenant=STAGING)
    tags = f"/api/v1/tenants/{STAGING}/default-tags"
    log.change("default_tags.update", "PUT", tags, {"tags": {"a": "1"}}, tenant=STAGING)
    log.change("default_tags.apply", "POST", f"{tags}/apply", tenant=STAGING)
    run = Iam(own, tenant=STAGING)
    while (found := run.get("/default-tags/runs")["runs"][0])["status"] != "completed":
        assert found["status"] != "failed"
    log.change("default_tags.undo", "POST", f"{tags}/runs/{found['runId']}/undo", {"preview": False}, tenant=STAGING)
    limit = {"resourceType": "secret", "limit": 7, "reason": "x"}
    log.change("quota_request.create", "POST", f"/api/v1/tenants/{SANDBOX}/quota-requests", limit, tenant=SANDBOX)
    organization = f"/api/v1/organizations/{AURORA}"
    limit = {"resourceType": "vcpu", "limit": 100_000, "reason": "x"}
    path = f"{organization}/quota-requests"
    request = log.change("quota_request.create_organization", "POST", path, limit, tenant=None)["request"]["id"]
    path = f"/api/v1/platform/quota-requests/{request}/review"
    log.change("quota_request.review", "POST", path, {"decision": "approve"}, as_=None, tenant=None)
    answer = own.ask("POST", f"{organization}/tenants", as_=OWNER, body={"displayName": "Logged"})
    log.entry_of(answer.headers["x-request-id"], "tenant.create", answer, answer.json()["id"], "session")
    listed = own.get("/api/v1/platform/operations").json()["operations"]
    run = next(one for one in listed if one["status"] in ("pending", "running"))
    path = f"/api/v1/platform/operations/{run['runId']}/cancel"
    log.change("operation.cancel", "POST", path, as_=None, tenant=run["tenantId"])
    log.change("account.delete", "DELETE", "/api/v1/me", as_=VIEWER, tenant=None)
    body = {"email": VIEWER}
    log.change("account.restore", "POST", "/api/v1/platform/accounts/restore", body, as_=None, tenant=None)
    log.change("session.end", "POST", "/api/v1/sessions/current/end", as_=MEMBER, tenant=None)
    log.change("session.revoke_all", "POST", "/api/v1/sessions/revoke-all", tenant=None)
    exported = own.get("/api/v1/platform/audit/export?before=9999-01-01T00:00:00Z").json()["segment"]
    log.change("audit.drop", "POST", "/api/v1/platform/audit/drop", exported, as_=None, tenant=None)
    log.change("platform.stop", "POST", "/api/v1/platform/stop", as_=None, tenant=None)
    log.database.close()

    assert {rule.audit_event for rule in ROUTE_POLICIES.values() if rule.audit_event} - log.seen == ELSEWHERE

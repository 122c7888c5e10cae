"""Quota requests: decided at once or reviewed."""

from typing import Any

from sqlalchemy import select

from service.db.tables import audit_log
from tests.people import ADMIN, BOREALIS, BOREALIS_OWNER, NEWSROOM, OWNER, SANDBOX, STAGING, UNKNOWN_ID, WEB_SHOP
from tests.service.access import Iam, allow, code, deny, details
from tests.service.account import Key
from tests.service.quotas import REVIEWS, Quotas

ONCE = {"Idempotency_Key": "the-same-request"}


def entries(quotas: Quotas, request: dict[str, Any]) -> list[tuple[str, str, str, dict[str, Any]]]:
    """The audit entries of a request: operation, actor, outcome, details."""
    columns = [audit_log.c[name] for name in ("operation", "actor_id", "outcome", "details")]
    with quotas.database() as connection:
        query = select(*columns).where(audit_log.c.target == f"quota_request:{request['id']}").order_by(audit_log.c.id)
        return [tuple(row) for row in connection.execute(query)]


def test_a_raise_within_the_bound_is_in_force_at_once(sandbox: Quotas) -> None:
    reason = "../../etc'; DROP TABLE quota_requests; -- [/x] {0} %00\nzweite Zeile 東京 🚀"
    request = sandbox.ask("vcpu", 81, reason).json()["request"]
    assert (request["status"], request["from"], request["limit"], request["unit"]) == ("approved", 80, 81, "count")
    assert (request["scope"], request["tenantId"], request["reason"]) == ("tenant", SANDBOX, reason)
    assert (request["decidedBy"], request["decidedAt"]) == ("platform", request["createdAt"])
    assert request["requestedBy"]["email"] == OWNER
    assert sandbox.report()["vcpu"]["limit"] == 81
    assert sandbox.history() == [request]


def test_the_bound_is_granted_and_one_more_refused(sandbox: Quotas) -> None:
    bound = sandbox.report()["instance"]["requestable"]
    refused = sandbox.ask("instance", bound + 1)
    assert code(refused) == (409, "QUOTA_BOUND_EXCEEDED")
    assert details(refused) == {"resourceType": "instance", "limit": bound + 1, "requestable": bound, "current": 20}
    assert "--org" in refused.json()["error"]["hint"]
    assert sandbox.history() == []
    # The bound depends on the limits of other tenants.
    staging = Quotas(sandbox.platform, tenant=STAGING)
    limit = staging.report()["instance"]["limit"]
    staging.give("instance", limit + 2)
    try:
        refused = sandbox.ask("instance", bound)
        assert code(refused) == (409, "QUOTA_BOUND_EXCEEDED")
        assert details(refused)["requestable"] == bound - 2
    finally:
        staging.give("instance", limit)
    assert sandbox.decided("instance", bound)["status"] == "approved"
    report = sandbox.report()["instance"]
    assert (report["limit"], report["requestable"]) == (bound, bound)
    assert sandbox.organization_report()["instance"]["allocated"] == 200


def test_a_limit_is_lowered_at_once_down_to_the_use(sandbox: Quotas) -> None:
    sandbox.put("load_balancer", "active", "active", "active", "creating", "creating")
    denied = sandbox.decided("load_balancer", 4)
    assert (denied["status"], denied["details"]) == ("denied", {"used": 5, "creating": 2, "limit": 4})
    assert denied["decision"] == "5 in use (2 being created): more than 4"
    assert sandbox.report()["load_balancer"]["limit"] == 10
    assert sandbox.decided("load_balancer", 5)["status"] == "approved"
    assert code(sandbox.create("load_balancer")) == (403, "QUOTA_EXCEEDED")
    assert sandbox.decided("database", 0)["status"] == "approved"
    assert sandbox.report()["database"]["limit"] == 0
    assert [one["status"] for one in sandbox.history()] == ["approved", "approved", "denied"]
    # While the use is unknown, lowering is denied and raising is not.
    web_shop = Quotas(sandbox.platform)
    denied = web_shop.decided("registry_storage", 150)
    assert (denied["status"], denied["details"]) == ("denied", {"reason": "usage_unknown"})
    assert "is unknown" in denied["decision"]
    assert web_shop.decided("registry_storage", 300)["status"] == "approved"


def test_a_request_for_the_current_limit_is_not_stored(sandbox: Quotas) -> None:
    for ask, limit in ((sandbox.ask, 20), (sandbox.ask_organization, 200)):
        answer = ask("instance", limit)
        assert (answer.status, answer.headers["x-frost-changed"]) == (200, "false")
        same = answer.json()["request"]
        assert (same["status"], same["from"], same["limit"], same["id"]) == ("approved", limit, limit, "")
    assert sandbox.history() == sandbox.organization_history() == []


def test_a_body_has_a_whole_number_a_reason_and_no_other_member(sandbox: Quotas) -> None:
    limits = ((-1, "range"), (40.0, "int_type"), (True, "int_type"), ("40", "int_type"), (None, "int_type"))
    rows = [("limit", {"limit": limit}, reason) for limit, reason in limits]
    rows += [("reason", {"reason": ""}, "blank")]
    more = {"tenantId": WEB_SHOP, "organizationId": BOREALIS, "status": "approved", "role": "owner"}
    rows += [(name, {name: value}, "unknown_member") for name, value in more.items()]
    body = {"resourceType": "vcpu", "limit": 90, "reason": "launch"}
    for member, change, reason in rows:
        for path in (sandbox.path, sandbox.organization_path):
            refused = sandbox.send(path, body | change)
            assert code(refused) == (400, "INVALID_INPUT")
            assert (details(refused)["member"], details(refused)["reason"]) == (member, reason)
    for incomplete in ({"resourceType": "vcpu", "limit": 90}, body | {"reason": None}):
        assert code(sandbox.send(sandbox.path, incomplete)) == (400, "INVALID_INPUT")
    assert sandbox.report()["vcpu"]["limit"] == 80
    assert sandbox.history() == []


def test_a_key_reads_quotas_unless_a_policy_denies_it_and_requests_within_its_policies(sandbox: Quotas) -> None:
    iam, key = Iam(sandbox.platform, tenant=SANDBOX), Key(sandbox.platform, "quotas:write", tenant=SANDBOX)
    limits = [f"/api/v1/tenants/{SANDBOX}/{name}" for name in ("quotas-report", "quotas", "quotas/usage")]
    iam.attach(iam.policy("of another service", allow("compute:*")), "api_key", key.id)
    assert {key.use("GET", path).status for path in (*limits, sandbox.path)} == {200}
    iam.attach(iam.policy("no quotas", allow("*"), deny("quotas:*")), "api_key", key.id)
    body = {"resourceType": "vcpu", "limit": 90, "reason": "autoscaling"}
    for method, path, needed in (
        *(("GET", path, "quotas:limits:list") for path in limits),
        *(("GET", sandbox.path, "quotas:requests:list"), ("POST", sandbox.path, "quotas:requests:create")),
    ):
        refused = key.use(method, path, body if method == "POST" else None)
        assert code(refused) == (403, "INSUFFICIENT_PERMISSIONS")
        assert refused.json()["error"]["required_permission"] == needed
    assert sandbox.history() == []


def test_an_organization_waits_for_review_and_then_has_room(sandbox: Quotas) -> None:
    waiting = sandbox.as_(ADMIN).waiting("instance", 300)
    figures = ("pending", 200, 300, "organization")
    assert (waiting["status"], waiting["from"], waiting["limit"], waiting["scope"]) == figures
    assert (waiting["tenantId"], waiting["decision"], waiting["decidedAt"], waiting["decidedBy"]) == (None,) * 4
    assert sandbox.organization_report()["instance"]["limit"] == 200
    before = sandbox.report()["instance"]["requestable"]
    done = sandbox.review(waiting["id"], "approve", note="Enjoy").json()["request"]
    assert (done["status"], done["decision"], done["decidedBy"]) == ("approved", "Enjoy", "staff")
    assert done["organizationName"] == "Aurora Labs"
    assert sandbox.organization_report()["instance"]["limit"] == 300
    assert sandbox.report()["instance"]["requestable"] == before + 100
    assert sandbox.organization_history() == [{k: v for k, v in done.items() if k != "organizationName"}]
    lower = sandbox.waiting("instance", 120)
    sandbox.review(lower["id"], "approve")
    entry = sandbox.organization_report()["instance"]
    assert entry["limit"] < entry["allocated"]
    assert sandbox.report()["instance"]["requestable"] == sandbox.report()["instance"]["limit"]


def test_one_request_for_each_type_of_an_organization_waits(sandbox: Quotas) -> None:
    waiting = sandbox.waiting("vcpu", 2000)
    refused = sandbox.as_(ADMIN).ask_organization("vcpu", 3000)
    assert code(refused) == (409, "QUOTA_REQUEST_PENDING")
    assert details(refused) == {"requestId": waiting["id"], "limit": 2000}
    assert sandbox.waiting("ram", 4_000_000)["status"] == "pending"
    borealis = Quotas(sandbox.platform, BOREALIS_OWNER, NEWSROOM, BOREALIS)
    assert borealis.waiting("vcpu", 2000)["status"] == "pending"
    assert code(sandbox.ask("vcpu", 10**6)) == (409, "QUOTA_BOUND_EXCEEDED")
    assert sandbox.decided("vcpu", 90)["status"] == "approved"


def test_a_review_decides_once(sandbox: Quotas) -> None:
    waiting = sandbox.waiting("vcpu", 2000)
    assert sandbox.review(waiting["id"], "reject").json()["request"]["decision"] == "rejected"
    again = sandbox.review(waiting["id"], "approve")
    assert code(again) == (409, "QUOTA_REQUEST_DECIDED")
    assert details(again) == {"status": "rejected", "decision": "rejected"}
    assert sandbox.organization_report()["vcpu"]["limit"] == 800
    # Now another request is accepted.
    following = sandbox.waiting("vcpu", 3000)["id"]
    rejected = sandbox.review(following, "reject", note="None left this year.").json()["request"]
    assert (rejected["status"], rejected["decision"]) == ("rejected", "None left this year.")
    assert [one["status"] for one in sandbox.organization_history()] == ["rejected", "rejected"]
    # A review needs a request of an organization and a decision.
    of_tenant = sandbox.decided("vcpu", 90)
    for identifier in (UNKNOWN_ID, "x", of_tenant["id"].upper(), of_tenant["id"]):
        assert code(sandbox.review(identifier, "approve")) == (404, "NOT_FOUND")
    waiting = sandbox.waiting("ram", 4_000_000)
    for body in ({"decision": "deny"}, {}, {"decision": "approve", "limit": 1}, {"decision": "approve", "note": " "}):
        path = f"{REVIEWS}/{waiting['id']}/review"
        assert code(sandbox.platform.ask("POST", path, body=body)) == (400, "INVALID_INPUT")
    assert sandbox.organization_history()[0]["status"] == "pending"


def test_operators_list_the_requests_of_every_organization(sandbox: Quotas) -> None:
    borealis = Quotas(sandbox.platform, BOREALIS_OWNER, NEWSROOM, BOREALIS)
    first, second = sandbox.waiting("vcpu", 2000), borealis.waiting("vcpu", 900)
    sandbox.decided("vcpu", 90)

    def listed(query: str = "") -> list[tuple[str, str]]:
        answer = sandbox.platform.get(REVIEWS + query)
        assert answer.status == 200, answer
        return [(one["id"], one["organizationName"]) for one in answer.json()["requests"]]

    both = [(second["id"], "Borealis Media"), (first["id"], "Aurora Labs")]
    assert listed() == listed("?status=pending") == both
    sandbox.review(first["id"], "approve")
    by_status = [listed(f"?status={status}") for status in ("pending", "approved", "rejected")]
    assert by_status == [[both[0]], [both[1]], []]
    assert code(sandbox.platform.get(REVIEWS + "?status=denied")) == (400, "INVALID_INPUT")


def test_the_history_is_paged_newest_first_with_pending_requests(sandbox: Quotas) -> None:
    numbers = list(range(81, 88))
    for number in numbers:
        sandbox.decided("vcpu", number)
    waiting = sandbox.waiting("vcpu", 2000)
    pages = list(sandbox.platform.pages(f"{sandbox.path}?limit=3", as_=OWNER))
    assert [len(page["requests"]) for page in pages] == [3, 3, 2]
    assert [one["limit"] for page in pages for one in page["requests"]] == [2000, *reversed(numbers)]
    elsewhere = f"{Quotas(sandbox.platform, tenant=STAGING).path}?cursor={pages[0]['nextCursor']}"
    assert code(sandbox.platform.get(elsewhere, as_=OWNER)) == (400, "INVALID_CURSOR")
    key = Key(sandbox.platform, "quotas:write", tenant=SANDBOX)
    assert [one["limit"] for one in key.use("GET", sandbox.path).json()["requests"]] == list(reversed(numbers))
    sandbox.review(waiting["id"], "approve")
    assert [one["limit"] for one in sandbox.history()] == list(reversed(numbers))
    assert Quotas(sandbox.platform, tenant=STAGING).history() == []


def test_the_same_request_again_is_answered_with_the_first(sandbox: Quotas) -> None:
    first = sandbox.ask("vcpu", 90, **ONCE)
    assert sandbox.decided("vcpu", 85)["status"] == "approved"
    again = sandbox.ask("vcpu", 90, **ONCE)
    assert (again.status, again.json()) == (first.status, first.json())
    assert sandbox.report()["vcpu"]["limit"] == 85
    assert len(sandbox.history()) == 2
    waiting = sandbox.ask_organization("vcpu", 2000, **ONCE)
    assert sandbox.ask_organization("vcpu", 2000, **ONCE).json() == waiting.json()
    assert code(sandbox.ask("vcpu", 91, **ONCE)) == (409, "IDEMPOTENCY_KEY_REUSED")
    assert code(Quotas(sandbox.platform, tenant=STAGING).ask("vcpu", 90, **ONCE)) == (409, "IDEMPOTENCY_KEY_REUSED")
    # A request without effect uses up no idempotency key.
    unused = {"Idempotency_Key": "nothing-to-change"}
    assert sandbox.ask("vcpu", 85, **unused).status == 200
    sandbox.give("vcpu", 70)
    assert sandbox.ask("vcpu", 85, **unused).status == 201
    assert sandbox.report()["vcpu"]["limit"] == 85


def test_every_decision_is_in_the_audit_log_beside_it(sandbox: Quotas) -> None:
    sandbox.put("secret", "active", "active")
    me = sandbox.get("/api/v1/me")["id"]
    approved, denied = sandbox.decided("vcpu", 90), sandbox.decided("secret", 1)
    waiting = sandbox.waiting("vcpu", 2000)
    sandbox.review(waiting["id"], "approve")
    change = {"resourceType": "vcpu", "from": 80, "to": 90, "status": "approved"}
    assert entries(sandbox, approved) == [("quota_request.create", me, "done", change)]
    change = {"resourceType": "secret", "from": 200, "to": 1, "status": "denied"}
    assert entries(sandbox, denied) == [("quota_request.create", me, "refused", change)]
    change = {"resourceType": "vcpu", "from": 800, "to": 2000, "status": "pending"}
    creation, review = entries(sandbox, waiting)
    assert creation == ("quota_request.create_organization", me, "done", change)
    assert (review[0], review[2], review[3]) == ("quota_request.review", "done", change | {"status": "approved"})
    assert review[1].startswith("uid:")

"""Decisions for other services over HTTP."""

from typing import Any

import pytest
from sqlalchemy import select

from service.authzen.request_bodies import MAX_EVALUATIONS
from service.db import tables
from service.db.engine import Database
from tests.api import Answer
from tests.people import BOREALIS_OWNER, MEMBER, NEWSROOM, OUTSIDER, OWNER, UNKNOWN_ID, VIEWER, WEB_SHOP
from tests.service.access import Iam, allow, deny
from tests.service.account import Key, create
from tests.service.queries import fetch, fetch_scalars
from tests.service.running import Running

EVALUATION = "/access/v1/evaluation"
EVALUATIONS = "/access/v1/evaluations"
SEARCH = "/access/v1/search/"
REFUSED = {"decision": False, "context": {"reason": "not permitted"}}
PERMITTED = {"decision": True}


class Asking:
    """A service with a key of the tenant."""

    def __init__(self, platform: Running, **members: Any) -> None:
        self.platform = platform
        self.key = Key(platform, "decisions:evaluate", **({"rateLimit": 60_000} | members))
        self.iam = Iam(platform)
        self.principals: dict[str, tuple[str, str]] = {}
        listed = platform.get(f"/api/v1/tenants/{WEB_SHOP}/resources/instance?limit=200", as_=OWNER).json()
        self.instances: list[dict[str, Any]] = listed["resources"]
        self.one = instance(self.instances[0]["id"])

    def send(self, path: str, body: Any, **headers: str) -> Answer:
        return self.key.use("POST", path, body, **headers)

    def got(self, path: str, body: Any) -> Any:
        answer = self.send(path, body)
        assert answer.status == 200, answer
        return answer.json()

    def question(self, subject: tuple[str, str], name: str, resource: dict[str, Any], **more: Any) -> dict[str, Any]:
        kind, identifier = subject
        return {"subject": {"type": kind, "id": identifier}, "action": {"name": name}, "resource": resource} | more

    def decides(self, subject: tuple[str, str], name: str, resource: dict[str, Any], **more: Any) -> bool:
        decision = self.got(EVALUATION, self.question(subject, name, resource, **more))
        assert decision in (PERMITTED, REFUSED)
        return bool(decision == PERMITTED)

    def evaluations(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        answer = self.got(EVALUATIONS, body)
        assert answer.keys() == {"evaluations"}
        return list(answer["evaluations"])

    def pages(self, what: str, body: dict[str, Any], limit: int) -> list[dict[str, Any]]:
        """Return the results of a search, page by page."""
        results, page = [], self.got(f"{SEARCH}{what}", body | {"page": {"limit": limit}})
        while True:
            assert page["page"]["count"] == len(page["results"]) <= limit
            results += page["results"]
            if not (token := page["page"]["next_token"]):
                return results
            page = self.got(f"{SEARCH}{what}", body | {"page": {"token": token}})

    def principal(self, name: str, *rules: dict[str, Any]) -> tuple[str, str]:
        """Return a workload identity with one policy, the same for every case of a test."""
        if name not in self.principals:
            identity = self.iam.binding(name)
            policy = self.iam.policy(f"for {name}", *rules)
            assert self.iam.done(self.iam.attach(policy, "workload_identity", identity))
            self.principals[name] = "workload_identity", identity
        return self.principals[name]


@pytest.fixture(scope="module")
def asking(platform: Running) -> Asking:
    return Asking(platform)


def instance(identifier: str, **properties: Any) -> dict[str, Any]:
    return {"type": "instance", "id": identifier, "properties": properties}


def test_only_a_key_with_the_scope_may_ask(platform: Running, asking: Asking) -> None:
    body = asking.question(("user", OWNER), "read", asking.one)
    for caller, text in (
        ({}, b"authentication required"),
        ({"as_": OWNER}, b"this needs an API key"),
        ({"key": "deploy-pipeline"}, b"lacks the decisions:evaluate scope"),
    ):
        answer = platform.ask("POST", EVALUATION, body=body, **caller)
        assert answer.status in (401, 403)
        assert text in answer.body
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert ("www-authenticate" in answer.headers) or caller
    other = Asking(platform)
    policy = asking.iam.policy("asks not", allow("*"), deny("iam:policies:simulate"))
    assert asking.iam.done(asking.iam.attach(policy, "api_key", other.key.id))
    assert other.send(EVALUATION, {}).status == 403
    # Only those who may try access themselves give the scope.
    assert create(platform, "decisions:evaluate", person=MEMBER).status == 201
    assert create(platform, "decisions:*", person=OWNER).status == 201
    assert create(platform, "decisions:evaluate", person=VIEWER).status == 403


def test_a_key_asks_about_its_own_tenant_only(platform: Running, asking: Asking) -> None:
    foreign = Key(platform, "decisions:evaluate", person=BOREALIS_OWNER, tenant=NEWSROOM)
    there = instance(asking.instances[0]["id"], tenant=WEB_SHOP)
    body = asking.question(("user", OWNER), "read", there, tenant=WEB_SHOP, context={"tenant": WEB_SHOP})
    assert asking.got(EVALUATION, body) == PERMITTED
    assert foreign.use("POST", EVALUATION, body).json() == REFUSED
    assert foreign.use("POST", EVALUATION, body, **{"X-Tenant-Id": WEB_SHOP}).status == 403
    mine = asking.question(("user", BOREALIS_OWNER), "organizations:tenants:read", {"type": "tenant", "id": NEWSROOM})
    assert foreign.use("POST", EVALUATION, mine).json() == PERMITTED
    assert asking.got(EVALUATION, mine) == REFUSED
    results = foreign.use("POST", f"{SEARCH}resource", body).json()["results"]
    assert there["id"] not in {one["id"] for one in results}


def test_stored_facts_of_a_resource_override_those_of_the_request(asking: Asking) -> None:
    one = asking.instances[0]
    assert one["tags"]
    key, value = next(iter(one["tags"].items()))
    who = asking.principal("tags", allow("compute:*", equals={f"frn:resourceTag/{key}": value}))
    other = asking.principal("other-tags", allow("compute:*", equals={f"frn:resourceTag/{key}": "claimed"}))
    claims = instance(one["id"], tags={key: "claimed"}, **{key: "claimed"}, resourceTags={key: "claimed"})
    assert asking.decides(who, "start", claims)
    assert not asking.decides(other, "start", claims)
    near = asking.principal("region", allow("compute:*", targets=(f"frn:compute:{one['region']}:*:instances/*",)))
    far = asking.principal("other-region", allow("compute:*", targets=("frn:compute:nowhere-1:*:instances/*",)))
    named = instance(f"frn:compute:nowhere-1:{WEB_SHOP}:instances/{one['id']}")
    for elsewhere in (instance(one["id"], region="nowhere-1"), named):
        assert (asking.decides(near, "start", elsewhere), asking.decides(far, "start", elsewhere)) == (True, False)
    assert not asking.decides(near, "start", {"type": "volume", "id": one["id"]})
    for name in (f"frn:storage:*:*:instances/{one['id']}", f"frn:compute:*:{NEWSROOM}:instances/{one['id']}", "frn:"):
        assert not asking.decides(near, "start", instance(name)), name


def test_address_and_instant_come_from_the_context(asking: Asking) -> None:
    in_range: dict[str, Any] = {"ipInRange": {"frn:sourceIp": ["203.0.113.0/24"]}}
    before, after = ({"frn:currentTime": f"{year}-01-01T00:00:00Z"} for year in (2027, 2026))
    who = asking.principal("where-and-when", allow("compute:*", **in_range, before=before, after=after))
    noon, address = {"time": "2026-06-01T12:00:00Z"}, {"ip": "203.0.113.9"}
    for context in (noon | address, {"ip": "::ffff:203.0.113.9", "time": "2026-06-01T14:00+02:00"}):
        assert asking.decides(who, "read", asking.one, context=context), context
    for context in (
        *(address | {"time": time} for time in ("2027-06-01T12:00:00Z", "yesterday", None)),
        *(noon | {"ip": address} for address in ("198.51.100.9", ["203.0.113.9"])),
        *(noon, noon | {"sourceIp": "203.0.113.9"}, None),
    ):
        assert not asking.decides(who, "read", asking.one, context=context), context
    # Without a context the instant is now, and the address is unknown.
    assert not asking.decides(who, "read", asking.one)
    # A deny on an unknown fact applies.
    denied = asking.principal("deny", allow("*"), deny("compute:*", **in_range))
    assert not asking.decides(denied, "read", asking.one)
    assert asking.decides(denied, "read", asking.one, context={"ip": "198.51.100.1"})


def test_a_creation_is_decided_by_region_and_tags(asking: Asking) -> None:
    tagged: dict[str, Any] = {"equals": {"frn:requestTag/env": "dev", "frn:region": "fi-hel-1"}}
    who = asking.principal("makes", allow("compute:instances:create", **tagged))
    body = asking.question(who, "create", instance("*", region="fi-hel-1"))
    sizes: list[dict[str, Any]] = [{"env": "dev"}, {"env": "dev", "size": 3, "keep": True}]
    for properties in (*sizes, {"env": "prod"}, {}, {"env": "dev", "sizes": [1, 2]}):
        body["action"]["properties"] = properties
        assert (asking.got(EVALUATION, body) == PERMITTED) is (properties in sizes)
        for other in (instance("*", region="de-fra-1"), instance("*"), instance("*", region="*"), instance("new")):
            assert asking.got(EVALUATION, body | {"resource": other}) == REFUSED
    # An invalid region is unknown.
    elsewhere: dict[str, Any] = {"notEquals": {"frn:region": "de-fra-1"}}
    who = asking.principal("makes-elsewhere", allow("compute:instances:create", **elsewhere))
    assert asking.decides(who, "create", instance("*", region="fi-hel-1"))
    for region in ("*", "fi-hel-1:x", "", None, 1):
        assert not asking.decides(who, "create", instance("*", region=region))


def test_unknown_subjects_actions_and_resources_are_refused_alike(asking: Asking) -> None:
    there, owner = asking.one, ("user", OWNER)
    assert asking.got(EVALUATION, asking.question(("user", VIEWER), "start", there)) == REFUSED
    subjects = [("user", text) for text in ("nobody@aurora.example", OUTSIDER, "\u0000", "x" * 100_000)]
    subjects += [(kind, UNKNOWN_ID) for kind in ("group", "api_key", "workload_identity")]
    actions = ("fly", "compute:instances:fly", "storage:volumes:read", "")
    spaceship = {"type": "spaceship", "id": "1"}
    unknown = [
        *[asking.question(subject, "start", there) for subject in subjects],
        *[asking.question(owner, action, there) for action in actions],
        *[asking.question(owner, "start", one) for one in (*map(instance, (UNKNOWN_ID, "\u0000", "*")), spaceship)],
        asking.question(owner, "organizations:tenants:read", {"type": "tenant", "id": UNKNOWN_ID}),
    ]
    for body in unknown:
        assert asking.got(EVALUATION, body) == REFUSED, body
    assert asking.evaluations({"evaluations": unknown}) == [REFUSED] * len(unknown)
    key = Key(asking.platform, "compute:read")
    assert asking.decides(("api_key", key.id), "read", there)
    assert not asking.decides(("api_key", key.id), "start", there)
    assert key.revoke().status == 200
    assert not asking.decides(("api_key", key.id), "read", there)


@pytest.mark.parametrize(
    ("semantic", "names", "expected"),
    [
        (None, ["read", "start", "list"], [True, False, True]),
        ("execute_all", ["read", "start", "list"], [True, False, True]),
        ("deny_on_first_deny", ["read", "start", "list"], [True, False]),
        ("deny_on_first_deny", ["read", None, "list"], [True, False]),
        ("deny_on_first_deny", ["read", "list"], [True, True]),
        ("permit_on_first_permit", ["start", "read", "list"], [False, True]),
        ("permit_on_first_permit", [None, "start"], [False, False]),
    ],
)
def test_the_three_semantics(asking: Asking, semantic: str | None, names: list[Any], expected: list[bool]) -> None:
    body = {
        "subject": {"type": "user", "id": VIEWER},
        "resource": asking.one,
        "evaluations": [{"action": {"name": name}} for name in names],
        "options": {"another": 1} | ({"evaluations_semantic": semantic} if semantic else {}),
    }
    results = asking.evaluations(body)
    assert [one["decision"] for one in results] == expected
    errors = [one["context"]["error"] for one in results if "error" in one.get("context", {})]
    assert len(errors) == names[: len(expected)].count(None)
    assert {error["status"] for error in errors} <= {400}


def test_an_invalid_batch_is_an_error_of_the_request_and_an_invalid_item_one_of_the_item(asking: Asking) -> None:
    """A default never replaces a member that is present and invalid."""
    for wrong in (
        *({"options": {"evaluations_semantic": "any"}}, {"options": []}, {"evaluations": {}}),
        *({"evaluations": [{}] * (MAX_EVALUATIONS + 1)}, {"subject": "alice", "evaluations": [{}]}),
    ):
        answer = asking.send(EVALUATIONS, {"evaluations": [{}]} | wrong)
        assert answer.status == 400
        assert answer.headers["content-type"].startswith("text/plain")
    good = asking.question(("user", OWNER), "read", asking.one)
    for item in (None, 1, "x", [], {"subject": None}, {"resource": {"id": 5}}, {"action": "read"}):
        results = asking.evaluations({**good, "evaluations": [{}, item, {}]})
        assert [one["decision"] for one in results] == [True, False, True]
        assert results[1]["context"]["error"]["status"] == 400


@pytest.mark.parametrize("kind", ["user", "api_key", "workload_identity"])
def test_subjects_found_are_those_permitted(asking: Asking, platform_database: Database, kind: str) -> None:
    table = {"user": tables.users, "api_key": tables.api_keys, "workload_identity": tables.workload_identities}[kind]
    everyone = sorted(fetch_scalars(platform_database, select(table.c.id)))
    for name in ("read", "start"):
        expected = []
        for start in range(0, len(everyone), 100):
            some = everyone[start : start + 100]
            questions = [asking.question((kind, identifier), name, asking.one) for identifier in some]
            decisions = asking.evaluations({"evaluations": questions})
            expected += [identifier for identifier, each in zip(some, decisions, strict=True) if each["decision"]]
        body = asking.question((kind, "ignored"), name, asking.one)
        assert asking.pages("subject", body, limit=3) == [{"type": kind, "id": identifier} for identifier in expected]


def test_resources_and_actions_found_are_those_an_evaluation_permits(asking: Asking) -> None:
    tagged = [one for one in asking.instances if one["tags"].get("env") == "prod"]
    assert 0 < len(tagged) < len(asking.instances)
    who = asking.principal("finds", allow("compute:*", equals={"frn:resourceTag/env": "prod"}))
    body = asking.question(who, "start", {"type": "instance"})
    expected = [{"type": "instance", "id": one} for one in sorted(each["id"] for each in tagged)]
    assert asking.pages("resource", body, limit=2) == expected
    tenant = asking.question(("user", OWNER), "organizations:tenants:update", {"type": "tenant"})
    assert asking.pages("resource", tenant, limit=1) == [{"type": "tenant", "id": WEB_SHOP}]
    assert asking.pages("resource", asking.question(who, "create", {"type": "instance"}), limit=1) == []
    body = {"subject": {"type": "user", "id": MEMBER}, "resource": asking.one}
    names = [each["name"] for each in asking.pages("action", body, limit=7)]
    assert {"start", "read", "sessions:shells:open"} <= set(names)
    assert "create" not in names
    evaluations = [{"action": {"name": name}} for name in names]
    assert asking.evaluations(body | {"evaluations": evaluations}) == [PERMITTED] * len(names)
    body["subject"] = {"type": "user", "id": VIEWER}
    assert "start" not in {each["name"] for each in asking.pages("action", body, limit=200)}


def test_a_token_is_good_for_the_same_question_of_the_same_tenant_only(platform: Running, asking: Asking) -> None:
    body = {"subject": {"type": "api_key"}, "action": {"name": "read"}, "resource": asking.one}
    token = asking.got(f"{SEARCH}subject", body | {"page": {"limit": 1}})["page"]["next_token"]
    assert token
    for what, other in (
        ("subject", body | {"action": {"name": "start"}}),
        ("subject", body | {"context": {"ip": "192.0.2.1"}}),
        ("subject", body | {"page": {"limit": 2}}),
        ("resource", body | {"subject": {"type": "user", "id": OWNER}}),
    ):
        page = other.get("page", {}) | {"token": token}
        assert asking.send(f"{SEARCH}{what}", other | {"page": page}).status == 400
    foreign = Key(platform, "decisions:evaluate", person=BOREALIS_OWNER, tenant=NEWSROOM)
    assert foreign.use("POST", f"{SEARCH}subject", body | {"page": {"token": token}}).status == 400
    for page in ({"token": "x"}, {"limit": -1}):
        assert asking.send(f"{SEARCH}subject", body | {"page": page}).status == 400
    assert asking.got(f"{SEARCH}subject", body | {"page": {"limit": 0}})["results"] == []
    assert len(asking.got(f"{SEARCH}subject", body | {"page": {"limit": 10**9}})["results"]) <= 200


def test_a_request_with_many_decisions_counts_as_several_and_writes_no_audit_entry(
    platform: Running, platform_database: Database
) -> None:
    asking, searching = Asking(platform, rateLimit=12), Asking(platform, rateLimit=12)
    entries = select(tables.audit_log.c.id).order_by(tables.audit_log.c.id)  # PostgreSQL moves sealed rows
    before = fetch(platform_database, entries)
    body: dict[str, Any] = {"evaluations": [{}] * 100}
    assert asking.send(EVALUATIONS, body).status == 200
    refused = asking.send(EVALUATIONS, body)
    assert refused.status == 429
    assert int(refused.headers["retry-after"]) >= 1
    search = {"subject": {"type": "user", "id": OWNER}, "resource": {"type": "tenant", "id": WEB_SHOP}}
    statuses = [searching.send(f"{SEARCH}action", search).status for _ in range(3)]
    assert statuses == [200, 200, 429]
    assert fetch(platform_database, entries) == before


def test_the_metadata_does_not_depend_on_the_host_header(platform: Running) -> None:
    for host in ("localhost", "evil.example", "a b", "x/../y", "evil.example/@pdp"):
        answer = platform.request("GET", "/.well-known/authzen-configuration", {"Host": host})
        assert (answer.status, answer.json()["policy_decision_point"]) == (200, "http://localhost")
        assert answer.json()["access_evaluation_endpoint"] == f"http://localhost{EVALUATION}"

"""Decisions for other services over HTTP."""

from typing import Any

import pytest
from sqlalchemy import select

from service.authzen.request_bodies import MAX_EVALUATIONS
from service.db import tables
from service.db.engine import Database
from tests.homes import Answer
from tests.service.access import Iam, allow, deny
from tests.service.account import Key, create
from tests.service.running import BOREALIS_OWNER, MEMBER, NEWSROOM, NOBODY, OUTSIDER, OWNER, VIEWER, WEB_SHOP, Running

EVALUATION = "/access/v1/evaluation"
EVALUATIONS = "/access/v1/evaluations"
SEARCH = "/access/v1/search/"
REFUSED = {"decision": False, "context": {"reason": "not permitted"}}
PERMITTED = {"decision": True}


class Asking:
    """A service that asks with a key of the tenant."""

    def __init__(self, platform: Running, **members: Any) -> None:
        self.platform = platform
        self.key = Key(platform, "decisions:evaluate", **({"rateLimit": 60_000} | members))
        self.iam = Iam(platform)
        listed = platform.get(f"/api/v1/tenants/{WEB_SHOP}/resources/instance?limit=200", as_=OWNER).json()
        self.instances: list[dict[str, Any]] = listed["resources"]

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
        found = self.got(EVALUATION, self.question(subject, name, resource, **more))
        assert found in (PERMITTED, REFUSED)
        return bool(found == PERMITTED)

    def principal(self, name: str, *rules: dict[str, Any]) -> tuple[str, str]:
        """A workload identity with one policy and nothing else."""
        identity = self.iam.binding(name)
        assert self.iam.done(self.iam.attach(self.iam.policy(f"for {name}", *rules), "workload_identity", identity))
        return "workload_identity", identity


@pytest.fixture(scope="module")
def asking(platform: Running) -> Asking:
    return Asking(platform)


def instance(identifier: str, **properties: Any) -> dict[str, Any]:
    return {"type": "instance", "id": identifier, "properties": properties}


# Who may ask


def test_only_a_key_with_the_scope_may_ask(platform: Running, asking: Asking) -> None:
    body = asking.question(("user", OWNER), "read", instance(asking.instances[0]["id"]))
    for answer, words in (
        (platform.ask("POST", EVALUATION, body=body), b"authentication required"),
        (platform.ask("POST", EVALUATION, as_=OWNER, body=body), b"this needs an API key"),
        (platform.ask("POST", EVALUATION, key="deploy-pipeline", body=body), b"lacks the decisions:evaluate scope"),
    ):
        assert answer.status in (401, 403)
        assert words in answer.body
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert "www-authenticate" in platform.ask("POST", EVALUATION, body=body).headers


def test_the_scope_is_given_by_those_who_may_try_access_themselves(platform: Running) -> None:
    assert create(platform, "decisions:evaluate", person=MEMBER).status == 201
    assert create(platform, "decisions:*", person=OWNER).status == 201
    assert create(platform, "decisions:evaluate", person=VIEWER).status == 403


def test_a_key_asks_about_its_own_tenant_whatever_the_request_says(platform: Running, asking: Asking) -> None:
    foreign = Key(platform, "decisions:evaluate", person=BOREALIS_OWNER, tenant=NEWSROOM)
    there = instance(asking.instances[0]["id"], tenant=WEB_SHOP)
    body = asking.question(("user", OWNER), "read", there, tenant=WEB_SHOP, context={"tenant": WEB_SHOP})
    assert asking.got(EVALUATION, body) == PERMITTED
    assert foreign.use("POST", EVALUATION, body).json() == REFUSED
    assert foreign.use("POST", EVALUATION, body, **{"X-Tenant-Id": WEB_SHOP}).status == 403
    mine = asking.question(("user", BOREALIS_OWNER), "organizations:tenants:read", {"type": "tenant", "id": NEWSROOM})
    assert foreign.use("POST", EVALUATION, mine).json() == PERMITTED
    assert asking.got(EVALUATION, mine) == REFUSED
    found = foreign.use("POST", f"{SEARCH}resource", body).json()
    assert there["id"] not in {one["id"] for one in found["results"]}


def test_a_policy_can_deny_evaluations_to_a_key(platform: Running, asking: Asking) -> None:
    other = Asking(platform)
    policy = asking.iam.policy("asks not", allow("*"), deny("iam:policies:simulate"))
    assert asking.iam.done(asking.iam.attach(policy, "api_key", other.key.id))
    assert other.send(EVALUATION, {}).status == 403


# What counts


def test_stored_facts_of_a_resource_override_those_of_the_request(asking: Asking) -> None:
    one = asking.instances[0]
    assert one["tags"]
    key, value = next(iter(one["tags"].items()))
    who = asking.principal("tags", allow("compute:*", equals={f"frn:resourceTag/{key}": value}))
    other = asking.principal("other-tags", allow("compute:*", equals={f"frn:resourceTag/{key}": "said"}))
    said = instance(one["id"], tags={key: "said"}, **{key: "said"}, resourceTags={key: "said"})
    assert asking.decides(who, "start", said)
    assert not asking.decides(other, "start", said)
    near = asking.principal("region", allow("compute:*", targets=(f"frn:compute:{one['region']}:*:instances/*",)))
    far = asking.principal("other-region", allow("compute:*", targets=("frn:compute:nowhere-1:*:instances/*",)))
    elsewhere = instance(one["id"], region="nowhere-1")
    assert (asking.decides(near, "start", elsewhere), asking.decides(far, "start", elsewhere)) == (True, False)
    named = instance(f"frn:compute:nowhere-1:{WEB_SHOP}:instances/{one['id']}")
    assert (asking.decides(near, "start", named), asking.decides(far, "start", named)) == (True, False)
    assert not asking.decides(near, "start", {"type": "volume", "id": one["id"]})
    for name in (f"frn:storage:*:*:instances/{one['id']}", f"frn:compute:*:{NEWSROOM}:instances/{one['id']}", "frn:"):
        assert not asking.decides(near, "start", instance(name)), name


@pytest.mark.parametrize(
    "claimed",
    [
        {"role": "owner", "isAdmin": True},
        {"scopes": ["*"], "groups": ["admins"], "policies": [{"schemaVersion": "1"}]},
        {"organizationId": NOBODY, "createdBy": OWNER, "type": "user", "id": OWNER},
    ],
)
def test_claims_about_a_subject_are_ignored(asking: Asking, claimed: dict[str, Any]) -> None:
    one = instance(asking.instances[0]["id"])
    body = asking.question(("user", VIEWER), "start", one) | claimed | {"target": "*", "decision": True}
    body["subject"] |= {"properties": claimed} | {name: value for name, value in claimed.items() if name[-2:] != "pe"}
    body["subject"]["id"] = VIEWER
    body["context"] = claimed | {"subject": {"type": "user", "id": OWNER}}
    body["action"]["properties"] = claimed
    assert asking.got(EVALUATION, body) == REFUSED
    assert asking.got(EVALUATIONS, {"evaluations": [body]}) == {"evaluations": [REFUSED]}
    assert (
        asking.got(f"{SEARCH}action?role=owner&target=*", body)["results"]
        == asking.got(f"{SEARCH}action", {"subject": {"type": "user", "id": VIEWER}, "resource": one})["results"]
    )


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ({"ip": "203.0.113.9", "time": "2026-06-01T12:00:00Z"}, True),
        ({"ip": "::ffff:203.0.113.9", "time": "2026-06-01T14:00+02:00"}, True),
        ({"ip": "198.51.100.9", "time": "2026-06-01T12:00:00Z"}, False),
        ({"ip": "203.0.113.9", "time": "2027-06-01T12:00:00Z"}, False),
        ({"ip": "203.0.113.9", "time": "yesterday"}, False),
        ({"ip": ["203.0.113.9"], "time": "2026-06-01T12:00:00Z"}, False),
        ({"time": "2026-06-01T12:00:00Z"}, False),
        ({"ip": "203.0.113.9", "time": None}, False),
        ({"sourceIp": "203.0.113.9", "time": "2026-06-01T12:00:00Z"}, False),
        (None, False),
    ],
)
def test_address_and_instant_come_from_the_context(asking: Asking, context: Any, expected: bool) -> None:
    constraints: dict[str, Any] = {
        "ipInRange": {"frn:sourceIp": ["203.0.113.0/24"]},
        "after": {"frn:currentTime": "2026-01-01T00:00:00Z"},
        "before": {"frn:currentTime": "2027-01-01T00:00:00Z"},
    }
    who = _once(asking, "where-and-when", allow("compute:*", **constraints))
    one = instance(asking.instances[0]["id"])
    assert asking.decides(who, "read", one, context=context) is expected
    # An instant that is not said is now; an address that is not said is not known.
    assert not asking.decides(who, "read", one)


def test_a_deny_on_an_unknown_fact_applies(asking: Asking) -> None:
    who = asking.principal("deny", allow("*"), deny("compute:*", ipInRange={"frn:sourceIp": ["203.0.113.0/24"]}))
    one = instance(asking.instances[0]["id"])
    assert not asking.decides(who, "read", one)
    assert asking.decides(who, "read", one, context={"ip": "198.51.100.1"})


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"env": "dev"}, True),
        ({"env": "prod"}, False),
        ({}, False),
        ({"env": "dev", "sizes": [1, 2]}, False),
        ({"env": "dev", "size": 3, "keep": True}, True),
    ],
)
def test_the_making_of_a_resource_is_decided_by_its_region_and_tags(
    asking: Asking, properties: dict[str, Any], expected: bool
) -> None:
    tagged: dict[str, Any] = {"equals": {"frn:requestTag/env": "dev", "frn:region": "fi-hel-1"}}
    who = _once(asking, "makes", allow("compute:instances:create", **tagged))
    body = asking.question(who, "create", instance("*", region="fi-hel-1"))
    body["action"]["properties"] = properties
    assert (asking.got(EVALUATION, body) == PERMITTED) is expected
    for other in (instance("*", region="de-fra-1"), instance("*"), instance("*", region="*"), instance("new")):
        assert asking.got(EVALUATION, body | {"resource": other}) == REFUSED


@pytest.mark.parametrize("region", ["*", "fi-hel-1:x", "", None, 1])
def test_a_region_that_is_none_is_not_known(asking: Asking, region: Any) -> None:
    elsewhere: dict[str, Any] = {"notEquals": {"frn:region": "de-fra-1"}}
    who = _once(asking, "makes-elsewhere", allow("compute:instances:create", **elsewhere))
    assert asking.decides(who, "create", instance("*", region="fi-hel-1"))
    assert not asking.decides(who, "create", instance("*", region=region))


def _once(asking: Asking, name: str, *rules: dict[str, Any]) -> tuple[str, str]:
    """The same principal for every case of a test."""
    kept: dict[str, tuple[str, str]] = asking.__dict__.setdefault("kept", {})
    if name not in kept:
        kept[name] = asking.principal(name, *rules)
    return kept[name]


# Who and what is not there


def test_unknown_subjects_actions_and_resources_are_refused_alike(asking: Asking) -> None:
    there, viewer = instance(asking.instances[0]["id"]), ("user", VIEWER)
    plain = asking.question(viewer, "start", there)
    assert asking.got(EVALUATION, plain) == REFUSED
    unknown = [
        asking.question(("user", "nobody@aurora.example"), "start", there),
        asking.question(("user", OUTSIDER), "start", there),
        asking.question(("user", "\u0000"), "start", there),
        asking.question(("user", "x" * 100_000), "start", there),
        asking.question(("group", NOBODY), "start", there),
        asking.question(("api_key", NOBODY), "start", there),
        asking.question(("workload_identity", NOBODY), "start", there),
        asking.question(("user", OWNER), "fly", there),
        asking.question(("user", OWNER), "compute:instances:fly", there),
        asking.question(("user", OWNER), "storage:volumes:read", there),
        asking.question(("user", OWNER), "", there),
        asking.question(("user", OWNER), "start", instance(NOBODY)),
        asking.question(("user", OWNER), "start", instance("\u0000")),
        asking.question(("user", OWNER), "start", instance("*")),
        asking.question(("user", OWNER), "start", {"type": "spaceship", "id": "1"}),
        asking.question(("user", OWNER), "organizations:tenants:read", {"type": "tenant", "id": NOBODY}),
    ]
    for body in unknown:
        assert asking.got(EVALUATION, body) == REFUSED, body
    assert asking.got(EVALUATIONS, {"evaluations": unknown}) == {"evaluations": [REFUSED] * len(unknown)}


def test_a_revoked_key_is_permitted_nothing(platform: Running, asking: Asking) -> None:
    one, ended = instance(asking.instances[0]["id"]), Key(platform, "compute:read")
    assert asking.decides(("api_key", ended.id), "read", one)
    assert not asking.decides(("api_key", ended.id), "start", one)
    assert ended.revoke().status == 200
    assert not asking.decides(("api_key", ended.id), "read", one)


# Several at once


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
        "resource": instance(asking.instances[0]["id"]),
        "evaluations": [{"action": {"name": name}} for name in names],
        "options": {"another": 1} | ({"evaluations_semantic": semantic} if semantic else {}),
    }
    said = asking.got(EVALUATIONS, body)["evaluations"]
    assert [one["decision"] for one in said] == expected
    errors = [one["context"]["error"] for one in said if "error" in one.get("context", {})]
    assert len(errors) == names[: len(expected)].count(None)
    assert {error["status"] for error in errors} <= {400}


@pytest.mark.parametrize(
    "wrong",
    [
        {"options": {"evaluations_semantic": "any"}},
        {"options": []},
        {"evaluations": {}},
        {"evaluations": [{}] * (MAX_EVALUATIONS + 1)},
        {"subject": "alice", "evaluations": [{}]},
    ],
)
def test_an_invalid_batch_is_an_error_of_the_request(asking: Asking, wrong: dict[str, Any]) -> None:
    answer = asking.send(EVALUATIONS, {"evaluations": [{}]} | wrong)
    assert answer.status == 400
    assert answer.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize("item", [None, 1, "x", [], {"subject": None}, {"resource": {"id": 5}}, {"action": "read"}])
def test_an_invalid_item_is_an_error_of_the_item(asking: Asking, item: Any) -> None:
    """A default never stands in for a member that is there and wrong."""
    good = asking.question(("user", OWNER), "read", instance(asking.instances[0]["id"]))
    said = asking.got(EVALUATIONS, {**good, "evaluations": [{}, item, {}]})["evaluations"]
    assert [one["decision"] for one in said] == [True, False, True]
    assert said[1]["context"]["error"]["status"] == 400


# Searches


@pytest.mark.parametrize("kind", ["user", "api_key", "workload_identity"])
@pytest.mark.parametrize("name", ["read", "start"])
def test_subjects_found_are_those_whom_an_evaluation_permits(
    asking: Asking, platform_database: Database, kind: str, name: str
) -> None:
    table = {"user": tables.users, "api_key": tables.api_keys, "workload_identity": tables.workload_identities}[kind]
    with platform_database.read() as connection:
        everyone = sorted(connection.scalars(select(table.c.id)))
    one = instance(asking.instances[0]["id"])
    expected = []
    for start in range(0, len(everyone), 100):
        some = everyone[start : start + 100]
        asked = [asking.question((kind, identifier), name, one) for identifier in some]
        said = asking.got(EVALUATIONS, {"evaluations": asked})["evaluations"]
        expected += [identifier for identifier, each in zip(some, said, strict=True) if each["decision"]]
    body = {"subject": {"type": kind, "id": "ignored"}, "action": {"name": name}, "resource": one}
    found = pages(asking, "subject", body, limit=3)
    assert [each["id"] for each in found] == expected
    assert {each["type"] for each in found} <= {kind}


def test_resources_found_are_those_an_evaluation_permits(asking: Asking) -> None:
    tagged = [one for one in asking.instances if one["tags"].get("env") == "prod"]
    assert 0 < len(tagged) < len(asking.instances)
    who = asking.principal("finds", allow("compute:*", equals={"frn:resourceTag/env": "prod"}))
    body = asking.question(who, "start", {"type": "instance"})
    found = pages(asking, "resource", body, limit=2)
    assert found == [{"type": "instance", "id": one} for one in sorted(each["id"] for each in tagged)]
    place = asking.question(("user", OWNER), "organizations:tenants:update", {"type": "tenant"})
    assert pages(asking, "resource", place, limit=1) == [{"type": "tenant", "id": WEB_SHOP}]
    assert pages(asking, "resource", asking.question(who, "create", {"type": "instance"}), limit=1) == []


def test_actions_found_are_those_an_evaluation_permits(asking: Asking) -> None:
    one, subject = instance(asking.instances[0]["id"]), {"type": "user", "id": MEMBER}
    found = [each["name"] for each in pages(asking, "action", {"subject": subject, "resource": one}, limit=7)]
    assert {"start", "read", "sessions:shells:open"} <= set(found)
    assert "create" not in found
    asked = [{"action": {"name": name}} for name in found]
    said = asking.got(EVALUATIONS, {"subject": subject, "resource": one, "evaluations": asked})["evaluations"]
    assert said == [PERMITTED] * len(found)
    viewer = {"subject": {"type": "user", "id": VIEWER}, "resource": one}
    assert "start" not in {each["name"] for each in pages(asking, "action", viewer, limit=200)}


def pages(asking: Asking, what: str, body: dict[str, Any], limit: int) -> list[dict[str, Any]]:
    """Everything a search finds, page by page."""
    found, page = [], asking.got(f"{SEARCH}{what}", body | {"page": {"limit": limit}})
    while True:
        assert page["page"]["count"] == len(page["results"]) <= limit
        found += page["results"]
        if not (token := page["page"]["next_token"]):
            return found
        page = asking.got(f"{SEARCH}{what}", body | {"page": {"token": token}})


def test_a_token_is_good_for_the_same_question_of_the_same_tenant_only(platform: Running, asking: Asking) -> None:
    one = instance(asking.instances[0]["id"])
    body = {"subject": {"type": "api_key"}, "action": {"name": "read"}, "resource": one}
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
    assert asking.send(f"{SEARCH}subject", body | {"page": {"token": "x"}}).status == 400
    assert asking.send(f"{SEARCH}subject", body | {"page": {"limit": -1}}).status == 400
    assert asking.got(f"{SEARCH}subject", body | {"page": {"limit": 0}})["results"] == []
    assert len(asking.got(f"{SEARCH}subject", body | {"page": {"limit": 10**9}})["results"]) <= 200


# What it costs


def test_a_request_with_many_decisions_counts_as_several_of_its_key(platform: Running) -> None:
    """Else a batch would be a way around the limit."""
    asking = Asking(platform, rateLimit=12)
    body: dict[str, Any] = {"evaluations": [{}] * 100}
    assert asking.send(EVALUATIONS, body).status == 200
    refused = asking.send(EVALUATIONS, body)
    assert refused.status == 429
    assert int(refused.headers["retry-after"]) >= 1
    searching = Asking(platform, rateLimit=12)
    statuses = [searching.send(f"{SEARCH}action", search(OWNER)).status for _ in range(3)]
    assert statuses == [200, 200, 429]


def search(person: str) -> dict[str, Any]:
    return {"subject": {"type": "user", "id": person}, "resource": {"type": "tenant", "id": WEB_SHOP}}


def test_a_decision_is_not_written_to_the_audit_log(asking: Asking, platform_database: Database) -> None:
    def entries() -> int:
        with platform_database.read() as connection:
            return len(connection.execute(select(tables.audit_log.c.id)).all())

    before = entries()
    asking.got(EVALUATION, asking.question(("user", OWNER), "read", instance(asking.instances[0]["id"])))
    asking.send(EVALUATION, {})
    asking.got(f"{SEARCH}action", search(OWNER))
    assert entries() == before


def test_the_description_shows_who_may_ask_and_how_it_refuses(platform: Running) -> None:
    described = platform.get("/api/openapi.json").json()
    for path in (EVALUATION, EVALUATIONS, *(f"{SEARCH}{what}" for what in ("subject", "resource", "action"))):
        operation = described["paths"][path]["post"]
        assert operation["security"] == [{"apiKey": []}]
        assert "`decisions:evaluate`" in operation["description"]
        assert set(operation["responses"]["default"]["content"]) == {"text/plain"}


@pytest.mark.parametrize("host", ["localhost", "evil.example", "a b", "x/../y", "evil.example/@pdp"])
def test_the_metadata_does_not_depend_on_the_host_header(platform: Running, host: str) -> None:
    answer = platform.request("GET", "/.well-known/authzen-configuration", {"Host": host})
    assert answer.status == 200
    assert answer.json()["policy_decision_point"] == "http://localhost"
    assert answer.json()["access_evaluation_endpoint"] == "http://localhost/access/v1/evaluation"

"""Simulate, coverage and check of policy documents."""

import json
import random
from typing import Any

import pytest

from service.catalogue.resource_types import REGIONS
from service.db import tables
from service.db.engine import Database
from tests.api import Answer
from tests.people import AURORA, WEB_SHOP
from tests.service.access import KEYS, READ, Iam, allow, code, deny, details, document_text, trial
from tests.service.queries import execute
from tests.service.running import Running


def test_a_trial_names_the_deciding_rule_or_traces_every_rule_and_names_the_nearest(iam: Iam) -> None:
    reading = deny("*:*:read") | {"name": "no reading"}
    for rules, decision, reason, name in (
        ((deny("storage:*"), allow("compute:*")), "allowed", "allowed", ""),
        ((allow("compute:*"), reading), "denied", "explicit_deny", "no reading"),
    ):
        found = iam.simulate(*rules)
        assert (found["decision"], found["reason"]) == (decision, reason)
        assert found["decidingRule"] == {"index": 1, "name": name}
    volumes = allow("compute:*", targets=("frn:compute:*:*:volumes/*",), equals={"frn:region": "fi-hel-1"})
    found = iam.simulate(allow("storage:*"), volumes, target="frn:compute:*:t:instances/i-1", region="se-sto-1")
    assert (found["decision"], found["reason"], found["decidingRule"]) == ("denied", "no_match", None)
    assert found["nearestRule"] == {"index": 1, "name": "", "failed": "targets"}
    results = {"operation": "true", "target": "false", "withinAuthor": None, "result": "false", "fires": False}
    constraint = {"operator": "equals", "key": "frn:region", "values": ["fi-hel-1"], "result": "false"}
    rule = {"index": 1, "name": "", "access": "allow", "constraints": [constraint]}
    assert found["rules"][1] == rule | results


NOT_SINGLE = ("compute:read", "compute:*:read", "*", "compute:instances", "a:b:c:d", "")
UNKNOWN_REGIONS = ("atlantis", "se-sto-9", "SE-STO-1", "eu")
MALFORMED_REGIONS = ("", " ", "*", "se-*", "fi hel", "fi:hel", "fi/hel", "fi-hel-1\n")
SERVICES, IN_OFFICE = ("compute", "storage"), {"sourceIp": "203.0.113.7"}
OFFICE: dict[str, Any] = {"ipInRange": {"frn:sourceIp": ["203.0.113.0/24"]}}
NOT_WHOLE = ("instances/i-1", "frn:compute", "frn:c*:*:*:instances/1", "frn:a:b:c:d", "")


def test_a_trial_has_a_single_known_operation_and_a_whole_target(iam: Iam) -> None:
    for member, value in [*(("operation", one) for one in NOT_SINGLE), *(("target", one) for one in NOT_WHOLE)]:
        answer = iam.ask("POST", "/iam/simulate", trial(allow("*")) | {member: value})
        assert (code(answer), details(answer)["member"]) == ((400, "INVALID_INPUT"), member), value
    answer = iam.ask("POST", "/iam/simulate", trial(allow("*"), operation="compute:instance:read"))
    assert code(answer) == (400, "UNKNOWN_OPERATION")
    assert READ in details(answer)["suggestions"]


TYPED = allow("compute:*", equals={"frn:principalType": "api_key"})
TAGGED = allow("compute:*", equals={"frn:requestTag/env": "prod"})
DENIED_TAG = deny("compute:*", equals={"frn:resourceTag/env": "prod"})
LATER = allow("compute:*", after={"frn:currentTime": "2020-01-01T00:00:00Z"})
UNTAGGED: dict[str, Any] = {"resourceTags": {}}
FACTS: list[tuple[tuple[dict[str, Any], ...], dict[str, Any], str]] = [
    ((allow("compute:*", **OFFICE),), IN_OFFICE, "allowed"),
    ((allow("compute:*", **OFFICE),), {"sourceIp": "198.51.100.1"}, "no_match"),
    ((TAGGED,), {"requestTags": {"env": "prod", "team": "a"}}, "allowed"),
    *[((TAGGED,), facts, reason) for facts, reason in (({"requestTags": {}}, "no_match"), ({}, "unknown_context"))],
    *[((allow("*"), DENIED_TAG), facts, decision) for facts, decision in (({}, "denied"), (UNTAGGED, "allowed"))],
    *[((TYPED,), {"principalType": one}, result) for one, result in (("api_key", "allowed"), ("user", "denied"))],
    ((LATER,), {}, "allowed"),  # The time of a trial is now by default.
    *[((LATER,), {"currentTime": f"20{time}"}, "denied") for time in ("19-12-31T23:59:59Z", "20-01-01T02:00:00+02:00")],
    ((LATER,), {"currentTime": None}, "unknown_context"),
]


def test_facts_decide_and_a_missing_one_is_named_with_its_flag(iam: Iam) -> None:
    for rules, facts, expected in FACTS:
        found = iam.simulate(*rules, **facts)
        assert expected in (found["decision"], found["reason"]), (rules, facts, found)
    unknown = iam.simulate(allow("compute:*", **OFFICE))
    assert (unknown["decision"], unknown["reason"]) == ("denied", "unknown_context")
    shut = iam.simulate(allow("*"), deny("*", **OFFICE))
    assert shut["reason"] == "explicit_deny"
    assert shut["missing"] == unknown["missing"] == [{"key": "frn:sourceIp", "flag": "--source-ip"}]
    times = ("2027-W01-1", "20270101", "tomorrow", "2020-01-01T00:00:00")
    for member, value in (("principalType", "robot"), *(("currentTime", time) for time in times)):
        answer = iam.ask("POST", "/iam/simulate", trial(LATER, **{member: value}))
        assert (code(answer), details(answer)["member"]) == ((400, "INVALID_INPUT"), f"facts.{member}"), value


def test_a_target_of_another_service_is_denied_with_the_expected_service(iam: Iam) -> None:
    bucket = "frn:storage:*:*:buckets/b"
    found = iam.simulate(deny("storage:*"), allow("*") | {"name": "all"}, deny("*"), target=bucket)
    assert (found["decision"], found["reason"], found["decidingRule"]) == ("denied", "no_match", None)
    assert found["because"].startswith(f"the target is of storage, and {READ} applies to targets of compute")
    assert found["nearestRule"] == {"index": 1, "name": "all", "failed": "targets"}
    assert {(rule["target"], rule["fires"]) for rule in found["rules"]} == {("false", False)}
    assert iam.simulate(allow("*"))["because"] is None
    answer = iam.ask("POST", "/iam/who", {"operation": READ, "target": bucket})
    assert (code(answer), details(answer)["member"]) == ((400, "INVALID_INPUT"), "target")
    assert "of compute" in answer.json()["error"]["message"]
    assert iam.simulate(allow("*"), target="frn:*:*:*:instances/i-1")["decision"] == "allowed"
    # A map is of every service's operations; on a bucket only those of its own are done.
    (covered,) = cover(iam, allow("*"), targets=[bucket])["targets"]
    assert {one["service"] for one in covered["services"] if one["effective"]} == {"storage"}


def test_a_region_is_a_fact_or_that_of_the_target_and_the_tenant_that_of_the_path(iam: Iam) -> None:
    anywhere, here, elsewhere = (f"frn:compute:{region}:t:instances/i-1" for region in ("*", "fi-hel-1", "se-sto-1"))
    by_target = allow("compute:*", targets=("frn:compute:fi-hel-1:*:*/*",))
    by_fact, own = allow("*", equals={"frn:region": "fi-hel-1"}), allow("*", equals={"frn:tenant": WEB_SHOP})
    for rule, target, facts, decision in (
        *((rule, anywhere, {"region": "fi-hel-1"}, "allowed") for rule in (by_fact, by_target)),
        *((rule, anywhere, {"region": "se-sto-1"}, "denied") for rule in (by_fact, by_target)),
        *((rule, anywhere, {}, "denied") for rule in (by_fact, by_target)),
        *((by_fact, here, {}, "allowed"), (by_fact, elsewhere, {}, "denied")),
        *((own, here, {}, "allowed"), (own, here, {"tenant": "another"}, "denied")),
    ):
        assert iam.simulate(rule, target=target, **facts)["decision"] == decision, (rule, target, facts)
    # Without the region of the target, no person with a rule for a region would be listed.
    body = {"operation": "compute:instances:list", "target": here}
    people = iam.ask("POST", "/iam/who", body).json()["principals"]
    assert any(one["type"] == "user" and "regional" in json.dumps(one["by"]) for one in people), people
    # An open target must be covered whole.
    found = iam.simulate(allow("compute:*", targets=("frn:compute:*:*:instances/web-*",)))
    assert (found["decision"], found["someTarget"]) == ("denied", True)
    assert iam.simulate(allow("compute:*"), target=anywhere)["someTarget"] is True
    assert iam.simulate(allow("*"), target="frn:compute:eu:t:instances/1")["someTarget"] is None


def test_an_unknown_or_malformed_region_is_refused(iam: Iam) -> None:
    """In a target, a malformed one would shift the fields: a deny that fires in the trace would not decide."""
    draft, question = {"documentText": document_text(allow("*"))}, {"operation": READ, "target": "*"}

    def ask(path: str, body: dict[str, Any], region: str) -> Answer:
        return iam.ask("POST", f"/iam/{path}", body | {"facts": {"region": region}})

    for path, body in (("simulate", draft | question), ("coverage", draft), ("who", question)):
        for region in (*UNKNOWN_REGIONS, *MALFORMED_REGIONS):
            answer = ask(path, body, region)
            assert (code(answer), details(answer)["member"]) == ((400, "INVALID_INPUT"), "facts.region"), (path, region)
            if region in UNKNOWN_REGIONS:
                assert (details(answer)["reason"], details(answer)["regions"]) == ("unknown_region", list(REGIONS))
        assert {ask(path, body, region).status for region in REGIONS} == {200}
    # A region in which the tenant has a resource exists.
    made = iam.ask("POST", "/resources/secret", {"name": "far", "region": "no-osl-1"})
    assert made.status == 201, made
    assert ask("coverage", draft, "no-osl-1").status == 200
    assert iam.ask("DELETE", f"/resources/secret/{made.json()['id']}").status == 204
    assert ask("coverage", draft, "no-osl-1").status == 400


def cover(iam: Iam, *rules: dict[str, Any], **members: Any) -> Any:
    answer = iam.ask("POST", "/iam/coverage", {"documentText": document_text(*rules), **members})
    assert answer.status == 200, answer
    return answer.json()


def test_coverage_counts_by_service_with_conditions_apart_and_compares_with_a_policy(iam: Iam) -> None:
    policy = iam.policy("p", allow("compute:*"), deny("*:*:delete"))
    rules = (allow("compute:*", "dns:*"), deny("compute:*:delete"))
    targets = ["*", "frn:compute:*:*:instances/i-1"]
    found = cover(iam, *rules, targets=targets, compare={"policyId": policy}, operations=True)
    everywhere, instance = found["targets"]
    compute, storage = (next(one for one in everywhere["services"] if one["service"] == name) for name in SERVICES)
    assert found["total"] == 528
    assert compute["allowed"] == compute["total"] == 60
    assert compute["effective"] == 60 - compute["denied"] < 60
    assert storage["effective"] == 0
    assert {name.partition(":")[0] for name in everywhere["gained"]} == {"dns"}
    assert everywhere["lost"] == []
    assert len(everywhere["operations"]) == everywhere["effective"]
    assert {name.partition(":")[0] for name in instance["operations"]} == {"compute"}
    rules = (allow("dns:*"), allow("compute:*", **OFFICE))
    (open_,), (known,) = (cover(iam, *rules, facts=facts, operations=True)["targets"] for facts in ({}, IN_OFFICE))
    assert (open_["effective"], open_["conditional"]) == (12, 60)
    counts = {one["service"]: (one["effective"], one["conditional"]) for one in open_["services"]}
    assert (counts["compute"], counts["dns"], counts["storage"]) == ((0, 60), (12, 0), (0, 0))
    assert {name.partition(":")[0] for name in open_["conditionalOperations"]} == {"compute"}
    assert (known["effective"], known["conditional"]) == (72, 0)


def test_coverage_compares_with_a_text_and_with_a_version(iam: Iam) -> None:
    policy, rule = iam.policy("p", allow("compute:*")), allow("dns:*")
    iam.edit(policy, rule)
    for compare, gained in (
        ({"policyId": policy}, 0),
        ({"policyId": policy, "version": 1}, 12),
        ({"documentText": document_text(allow("compute:*"))}, 12),
    ):
        assert len(cover(iam, rule, compare=compare)["targets"][0]["gained"]) == gained
    text = document_text(rule)
    for compare, refusal in (
        ({}, (400, "INVALID_INPUT")),
        ({"policyId": policy, "documentText": text}, (400, "INVALID_INPUT")),
        ({"policyId": policy, "version": 9}, (404, "NOT_FOUND")),
    ):
        answer = iam.ask("POST", "/iam/coverage", {"documentText": text, "compare": compare})
        assert code(answer) == refusal


def test_coverage_compares_gains_losses_and_conditions(iam: Iam) -> None:
    other: dict[str, Any] = {"ipInRange": {"frn:sourceIp": ["192.0.2.0/24"]}}
    of_office = allow("compute:instances:*", "compute:images:*", "network:*", **OFFICE)
    policy = iam.policy("p", allow("dns:*", "storage:buckets:*"), of_office)
    rules = [allow("compute:images:*"), allow("compute:instances:*", **other)]
    rules.append(allow("storage:buckets:*", "iam:*", **OFFICE))
    (found,) = cover(iam, *rules, compare={"policyId": policy})["targets"]
    for change, parts, names in (
        *(("gained", 2, {"compute:images"}), ("nowUnconditional", 2, {"compute:images"})),
        *(("nowConditional", 2, {"storage:buckets"}), ("conditionsChanged", 2, {"compute:instances"})),
        *(("lost", 1, {"dns", "storage"}), ("conditionalLost", 1, {"network"}), ("conditionalGained", 1, {"iam"})),
    ):
        assert {":".join(name.split(":")[:parts]) for name in found[change]} == names, change


@pytest.mark.parametrize("rounds", [20, pytest.param(2_500, marks=pytest.mark.slow)])
def test_a_trial_agrees_with_the_requests_of_a_key(own: Running, own_database: Database, rounds: int) -> None:
    """Random documents on a key; the requests of four routes, as trials and in fact: 10,000 in the long run."""
    iam = Iam(own)
    policy = iam.policy("p", allow("*"))
    assert iam.attach(policy, "api_key", KEYS["terraform"]).status == 204
    # Its own limit would end the long run within seconds.
    unlimited = tables.api_keys.update().where(tables.api_keys.c.id == KEYS["terraform"]).values(rate_limit=60_000)
    execute(own_database, unlimited)
    chance = random.Random(29)
    tenant = f"frn:organizations:*:{WEB_SHOP}:tenants/{WEB_SHOP}"
    organization = f"frn:organizations:*:{WEB_SHOP}:organizations/{AURORA}"
    requests = [
        ("organizations:tenants:read", tenant, "GET", f"/api/v1/tenants/{WEB_SHOP}", None),
        ("organizations:tenants:list", tenant, "GET", "/api/v1/tenants", None),
        ("organizations:organizations:list", organization, "GET", "/api/v1/organizations", None),
        ("organizations:tenants:update", tenant, "PATCH", f"/api/v1/tenants/{WEB_SHOP}", {"displayName": "Web Shop"}),
    ]
    facts = {"principalType": "api_key", "tenant": WEB_SHOP, "requestTags": {}, "resourceTags": {}}
    verdicts = set()
    for version in range(2, 2 + rounds):
        rules = [random_rule(chance) for _ in range(chance.randint(1, 4))]
        text = document_text(*rules)
        changed = tables.policies.update().where(tables.policies.c.id == policy)
        execute(own_database, changed.values(document=text, version=version))
        for operation, target, method, path, body in requests:
            trial = {"documentText": text, "operation": operation, "target": target, "facts": facts}
            tried = iam.ask("POST", "/iam/simulate", trial).json()["decision"]
            got = own.ask(method, path, key="terraform", body=body)
            assert (got.status == 200) is (tried == "allowed"), (rules, operation, got)
            verdicts.add((operation, tried))
    assert len(verdicts) == 8


OPERATIONS = ("organizations:*", "*", "organizations:tenants:*", "*:tenants:read", "*:*:list", "compute:*")
OPERATIONS += ("organizations:tenants:update", "organizations:organizations:list")
TARGETS = ("*", "*", f"frn:organizations:*:{WEB_SHOP}:tenants/{WEB_SHOP[:4]}*", "frn:*:*:*:organizations/*")
TARGETS += ("frn:organizations:fi-hel-1:*:*/*", "frn:compute:*:*:*/*")
CONSTRAINTS: tuple[dict[str, Any], ...] = ({}, {}, {"equals": {"frn:principalType": "api_key"}})
CONSTRAINTS += ({"equals": {"frn:tenant": "x"}}, {"notEquals": {"frn:resourceTag/env": "prod"}})
CONSTRAINTS += ({"ipInRange": {"frn:sourceIp": ["0.0.0.0/0"]}}, {"like": {"frn:region": "fi*"}})
CONSTRAINTS += ({"after": {"frn:currentTime": "2020-01-01T00:00:00Z"}},)


def random_rule(chance: random.Random) -> dict[str, Any]:
    make, operations = chance.choice([allow, allow, allow, deny]), chance.sample(OPERATIONS, chance.randint(1, 3))
    return make(*operations, targets=(chance.choice(TARGETS),), **chance.choice(CONSTRAINTS))

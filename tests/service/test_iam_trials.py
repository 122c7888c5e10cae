"""Simulate, coverage and check of policy documents."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.catalogue.resource_types import REGIONS
from service.db import tables
from service.db.engine import Database
from tests.service.access import KEYS, Iam, allow, code, deny, details, document
from tests.service.running import AURORA, MEMBER, REGIONAL, VIEWER, WEB_SHOP, Running

READ = "compute:instances:read"


def simulate(
    iam: Iam, *rules: dict[str, Any], operation: str = READ, target: str = "*", **facts: Any
) -> dict[str, Any]:
    body = {"documentText": json.dumps(document(*rules)), "operation": operation, "target": target, "facts": facts}
    answer = iam.ask("POST", "/iam/simulate", body)
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json()
    return found


def test_the_deciding_rule_is_named(iam: Iam) -> None:
    allowed = simulate(iam, deny("storage:*"), allow("compute:*"))
    assert (allowed["decision"], allowed["reason"]) == ("allowed", "allowed")
    assert allowed["decidingRule"] == {"index": 1, "name": ""}
    denied = simulate(iam, allow("compute:*"), deny("*:*:read") | {"name": "no reading"})
    assert (denied["decision"], denied["reason"]) == ("denied", "explicit_deny")
    assert denied["decidingRule"] == {"index": 1, "name": "no reading"}


def test_a_denied_trial_traces_every_rule_and_names_the_nearest(iam: Iam) -> None:
    found = simulate(
        iam,
        allow("storage:*"),
        allow("compute:*", targets=("frn:compute:*:*:volumes/*",), equals={"frn:region": "fi-hel-1"}),
        target="frn:compute:*:t:instances/i-1",
        region="se-sto-1",
    )
    assert (found["decision"], found["reason"], found["decidingRule"]) == ("denied", "no_match", None)
    assert found["nearestRule"] == {"index": 1, "name": "", "failed": "targets"}
    assert found["rules"][1] == {
        "index": 1,
        "name": "",
        "access": "allow",
        "operation": "true",
        "target": "false",
        "constraints": [{"operator": "equals", "key": "frn:region", "values": ["fi-hel-1"], "result": "false"}],
        "withinAuthor": None,
        "result": "false",
        "fires": False,
    }


NOT_SINGLE = ("compute:read", "compute:*:read", "*", "compute:instances", "a:b:c:d", "")
NOT_WHOLE = ("instances/i-1", "frn:compute", "frn:c*:*:*:instances/1", "frn:a:b:c:d", "")


@pytest.mark.parametrize(
    ("member", "value"), [*(("operation", one) for one in NOT_SINGLE), *(("target", one) for one in NOT_WHOLE)]
)
def test_a_trial_has_a_single_operation_and_a_whole_target(iam: Iam, member: str, value: str) -> None:
    body = {"documentText": json.dumps(document(allow("*"))), "operation": READ, "target": "*"}
    answer = iam.ask("POST", "/iam/simulate", body | {member: value})
    assert (code(answer), details(answer)["member"]) == ((400, "INVALID_INPUT"), member)


def test_an_unknown_operation_is_refused_with_suggestions(iam: Iam) -> None:
    body = {"documentText": json.dumps(document(allow("*"))), "operation": "compute:instance:read", "target": "*"}
    answer = iam.ask("POST", "/iam/simulate", body)
    assert code(answer) == (400, "UNKNOWN_OPERATION")
    assert READ in details(answer)["suggestions"]


def test_an_address_decides_and_when_it_is_missing_its_flag_is_named(iam: Iam) -> None:
    office = allow("compute:*", ipInRange={"frn:sourceIp": ["203.0.113.0/24"]})
    assert simulate(iam, office, sourceIp="203.0.113.7")["decision"] == "allowed"
    assert simulate(iam, office, sourceIp="198.51.100.1")["reason"] == "no_match"
    unknown = simulate(iam, office)
    assert (unknown["decision"], unknown["reason"]) == ("denied", "unknown_context")
    assert unknown["missing"] == [{"key": "frn:sourceIp", "flag": "--source-ip"}]
    shut = simulate(iam, allow("*"), deny("*", ipInRange={"frn:sourceIp": ["203.0.113.0/24"]}))
    assert (shut["reason"], shut["missing"]) == ("explicit_deny", [{"key": "frn:sourceIp", "flag": "--source-ip"}])


def test_a_target_of_another_service_is_denied_with_the_expected_service(iam: Iam) -> None:
    bucket = "frn:storage:*:*:buckets/b"
    asked = {"documentText": json.dumps(document(allow("*"))), "operation": READ, "target": bucket}
    found = simulate(iam, deny("storage:*"), allow("*") | {"name": "all"}, deny("*"), target=bucket)
    assert (found["decision"], found["reason"], found["decidingRule"]) == ("denied", "no_match", None)
    assert found["because"].startswith(f"the target is of storage, and {READ} applies to targets of compute")
    assert found["nearestRule"] == {"index": 1, "name": "all", "failed": "targets"}
    assert {(rule["target"], rule["fires"]) for rule in found["rules"]} == {("false", False)}
    assert simulate(iam, allow("*"))["because"] is None
    answer = iam.ask("POST", "/iam/who", {"operation": READ, "target": bucket})
    assert (code(answer), details(answer)["member"]) == ((400, "INVALID_INPUT"), "target")
    assert "of compute" in answer.json()["error"]["message"]
    assert simulate(iam, allow("*"), target="frn:*:*:*:instances/i-1")["decision"] == "allowed"
    # A map is of every service's operations; on a bucket only those of its own are done.
    answer = iam.ask("POST", "/iam/coverage", {"documentText": asked["documentText"], "targets": [bucket]})
    effective = {one["service"]: one["effective"] for one in answer.json()["targets"][0]["services"]}
    assert {name for name, many in effective.items() if many} == {"storage"}


def test_a_region_is_a_fact_and_fills_an_open_region_of_the_target(iam: Iam) -> None:
    for rule in (
        allow("compute:*", equals={"frn:region": "fi-hel-1"}),
        allow("compute:*", targets=("frn:compute:fi-hel-1:*:*/*",)),
    ):
        target = "frn:compute:*:t:instances/i-1"
        assert simulate(iam, rule, target=target, region="fi-hel-1")["decision"] == "allowed"
        assert simulate(iam, rule, target=target, region="se-sto-1")["decision"] == "denied"
        assert simulate(iam, rule, target=target)["decision"] == "denied"


UNKNOWN_REGIONS = ("atlantis", "se-sto-9", "SE-STO-1", "eu")
MALFORMED_REGIONS = ("", " ", "*", "se-*", "fi hel", "fi:hel", "fi/hel", "fi-hel-1\n")


@pytest.mark.parametrize("region", [*UNKNOWN_REGIONS, *MALFORMED_REGIONS])
def test_an_unknown_or_malformed_region_is_refused(iam: Iam, region: str) -> None:
    """In a target, a malformed one would shift the fields: a deny that fires in the trace would not decide."""
    draft, asked = {"documentText": json.dumps(document(allow("*")))}, {"operation": READ, "target": "*"}
    for path, body in (("simulate", draft | asked), ("coverage", draft), ("who", asked)):
        answer = iam.ask("POST", f"/iam/{path}", body | {"facts": {"region": region}})
        assert (code(answer), details(answer)["member"]) == ((400, "INVALID_INPUT"), "facts.region"), path
        if region in UNKNOWN_REGIONS:
            assert (details(answer)["reason"], details(answer)["regions"]) == ("unknown_region", list(REGIONS))
            for known in REGIONS:
                assert iam.ask("POST", f"/iam/{path}", body | {"facts": {"region": known}}).status == 200


def test_a_region_in_which_the_tenant_has_a_resource_exists(iam: Iam) -> None:
    body = {"name": "far", "region": "no-osl-1"}
    trial = {"documentText": json.dumps(document(allow("*"))), "operation": READ, "target": "*"}
    trial |= {"facts": {"region": "no-osl-1"}}
    assert iam.ask("POST", "/iam/simulate", trial).status == 400
    made = iam.ask("POST", "/resources/secret", body)
    assert made.status == 201, made
    assert iam.ask("POST", "/iam/simulate", trial).status == 200
    assert iam.ask("DELETE", f"/resources/secret/{made.json()['id']}").status == 204


def test_the_worlds_are_in_regions_that_exist() -> None:
    world = Path("service/seed/data")
    lines = (world / "resources.tsv").read_text().splitlines()
    place = lines[0].split("\t").index("region")
    assert {line.split("\t")[place] for line in lines[1:]} <= set(REGIONS)
    assert set(yaml.safe_load((world / "large.yaml").read_text())["resources"]["regions"]) == set(REGIONS)


def test_tags_and_principal_type_of_a_trial(iam: Iam) -> None:
    tagged = allow("compute:*", equals={"frn:requestTag/env": "prod"})
    assert simulate(iam, tagged, requestTags={"env": "prod", "team": "a"})["decision"] == "allowed"
    assert simulate(iam, tagged, requestTags={})["reason"] == "no_match"
    assert simulate(iam, tagged)["reason"] == "unknown_context"
    kept = deny("compute:*", equals={"frn:resourceTag/env": "prod"})
    assert simulate(iam, allow("*"), kept)["decision"] == "denied"
    assert simulate(iam, allow("*"), kept, resourceTags={})["decision"] == "allowed"
    typed = allow("compute:*", equals={"frn:principalType": "api_key"})
    assert simulate(iam, typed, principalType="api_key")["decision"] == "allowed"
    assert simulate(iam, typed, principalType="user")["decision"] == "denied"
    body = {"documentText": json.dumps(document(typed)), "operation": READ, "target": "*"}
    answer = iam.ask("POST", "/iam/simulate", body | {"facts": {"principalType": "robot"}})
    assert code(answer) == (400, "INVALID_INPUT")


def test_the_time_of_a_trial_is_now_by_default(iam: Iam) -> None:
    rule = allow("compute:*", after={"frn:currentTime": "2020-01-01T00:00:00Z"})
    assert simulate(iam, rule)["decision"] == "allowed"
    assert simulate(iam, rule, currentTime="2019-12-31T23:59:59+00:00")["decision"] == "denied"
    assert simulate(iam, rule, currentTime="2020-01-01T02:00:00+02:00")["decision"] == "denied"
    assert simulate(iam, rule, currentTime=None)["reason"] == "unknown_context"
    for bad in ("2027-W01-1", "20270101", "tomorrow", "2020-01-01T00:00:00"):
        body = {"documentText": json.dumps(document(rule)), "operation": READ, "target": "*"}
        answer = iam.ask("POST", "/iam/simulate", body | {"facts": {"currentTime": bad}})
        assert details(answer)["member"] == "facts.currentTime"


def test_an_open_target_must_be_covered_whole(iam: Iam) -> None:
    narrow = allow("compute:*", targets=("frn:compute:*:*:instances/web-*",))
    found = simulate(iam, narrow)
    assert (found["decision"], found["someTarget"]) == ("denied", True)
    assert simulate(iam, allow("compute:*"), target="frn:compute:*:t:instances/1")["someTarget"] is True
    assert simulate(iam, allow("*"), target="frn:compute:eu:t:instances/1")["someTarget"] is None


def test_a_trial_as_author_is_limited_to_the_rights_of_the_author(iam: Iam) -> None:
    body = {"documentText": json.dumps(document(allow("*"))), "operation": "storage:buckets:read", "target": "*"}
    plain = iam.as_(VIEWER).ask("POST", "/iam/simulate", body).json()
    capped = iam.as_(VIEWER).ask("POST", "/iam/simulate", body | {"asAuthor": True}).json()
    assert (plain["decision"], plain["asAuthor"], plain["rules"][0]["withinAuthor"]) == ("allowed", False, None)
    assert (capped["decision"], capped["asAuthor"], capped["rules"][0]["withinAuthor"]) == ("denied", True, False)


def test_coverage_counts_by_service_and_compares_with_a_policy(iam: Iam) -> None:
    policy = iam.policy("p", allow("compute:*"), deny("*:*:delete"))
    body = {
        "documentText": json.dumps(document(allow("compute:*", "dns:*"), deny("compute:*:delete"))),
        "targets": ["*", "frn:compute:*:*:instances/i-1"],
        "compare": {"policyId": policy},
        "operations": True,
    }
    found = iam.ask("POST", "/iam/coverage", body).json()
    everywhere, instance = found["targets"]
    services = {one["service"]: one for one in everywhere["services"]}
    assert found["total"] == 528
    assert services["compute"]["allowed"] == services["compute"]["total"] == 60
    assert services["compute"]["denied"] > 0
    assert services["compute"]["effective"] == 60 - services["compute"]["denied"]
    assert services["storage"]["effective"] == 0
    assert everywhere["gained"]
    assert all(name.startswith("dns:") for name in everywhere["gained"])
    assert everywhere["lost"] == []
    assert len(everywhere["operations"]) == everywhere["effective"]
    assert {name.partition(":")[0] for name in instance["operations"]} == {"compute"}


def test_coverage_compares_with_a_text_and_with_a_version(iam: Iam) -> None:
    policy = iam.policy("p", allow("compute:*"))
    iam.edit(policy, allow("dns:*"))
    text = json.dumps(document(allow("dns:*")))
    for compare, gained in (
        ({"policyId": policy}, 0),
        ({"policyId": policy, "version": 1}, 12),
        ({"documentText": json.dumps(document(allow("compute:*")))}, 12),
    ):
        found = iam.ask("POST", "/iam/coverage", {"documentText": text, "compare": compare}).json()
        assert len(found["targets"][0]["gained"]) == gained
    for compare in ({}, {"policyId": policy, "documentText": text}):
        answer = iam.ask("POST", "/iam/coverage", {"documentText": text, "compare": compare})
        assert code(answer) == (400, "INVALID_INPUT")
    missing = iam.ask("POST", "/iam/coverage", {"documentText": text, "compare": {"policyId": policy, "version": 9}})
    assert code(missing) == (404, "NOT_FOUND")


OFFICE: dict[str, Any] = {"ipInRange": {"frn:sourceIp": ["10.0.0.0/8"]}}


def test_coverage_counts_conditional_operations_apart(iam: Iam) -> None:
    body = {"documentText": json.dumps(document(allow("dns:*"), allow("compute:*", **OFFICE))), "operations": True}
    found = iam.ask("POST", "/iam/coverage", body).json()["targets"][0]
    services = {one["service"]: (one["effective"], one["conditional"]) for one in found["services"]}
    assert (found["effective"], found["conditional"]) == (12, 60)
    assert (services["compute"], services["dns"], services["storage"]) == ((0, 60), (12, 0), (0, 0))
    assert {name.partition(":")[0] for name in found["conditionalOperations"]} == {"compute"}
    known = iam.ask("POST", "/iam/coverage", body | {"facts": {"sourceIp": "10.1.2.3"}}).json()["targets"][0]
    assert (known["effective"], known["conditional"]) == (72, 0)


def test_coverage_compares_gains_losses_and_conditions(iam: Iam) -> None:
    other: dict[str, Any] = {"ipInRange": {"frn:sourceIp": ["192.0.2.0/24"]}}
    policy = iam.policy(
        "p",
        allow("dns:*", "storage:buckets:*"),
        allow("compute:instances:*", "compute:images:*", "network:*", **OFFICE),
    )
    text = json.dumps(
        document(
            allow("compute:images:*"),
            allow("compute:instances:*", **other),
            allow("storage:buckets:*", "iam:*", **OFFICE),
        )
    )
    found = iam.ask("POST", "/iam/coverage", {"documentText": text, "compare": {"policyId": policy}}).json()
    told = {
        name: {operation.rpartition(":")[0] for operation in found["targets"][0][name]}
        for name in ("gained", "nowUnconditional", "nowConditional", "conditionsChanged")
    }
    assert told == {
        "gained": {"compute:images"},
        "nowUnconditional": {"compute:images"},
        "nowConditional": {"storage:buckets"},
        "conditionsChanged": {"compute:instances"},
    }
    lost = {
        name: {operation.partition(":")[0] for operation in found["targets"][0][name]}
        for name in ("lost", "conditionalLost", "conditionalGained")
    }
    assert lost == {"lost": {"dns", "storage"}, "conditionalLost": {"network"}, "conditionalGained": {"iam"}}


def test_a_check_compares_with_the_rights_of_its_caller(iam: Iam) -> None:
    dev = allow("compute:instances:read", equals={"frn:region": "fi-hel-1", "frn:resourceTag/env": "dev"})
    for person, rule, answer in (
        (VIEWER, allow("compute:*:read"), "within"),
        (VIEWER, allow("compute:*:delete"), "beyond"),
        (REGIONAL, dev, "within"),
        (REGIONAL, allow("compute:instances:read"), "beyond"),
        (MEMBER, deny("*"), "within"),
    ):
        found = iam.as_(person).ask("POST", "/iam/check", {"documentText": json.dumps(document(rule))}).json()
        assert found["answer"] == answer
        assert bool(found["counterexamples"]) is (answer == "beyond")


@pytest.mark.parametrize("rounds", [40, pytest.param(2_500, marks=pytest.mark.slow)])
def test_a_trial_agrees_with_the_requests_of_a_key(own: Running, own_database: Database, rounds: int) -> None:
    """Random documents on a key; the four questions its routes ask, tried and really asked: 10,000 in the long run."""
    iam = Iam(own)
    policy = iam.policy("p", allow("*"))
    assert iam.attach(policy, "api_key", KEYS["terraform"]).status == 204
    with own_database.write() as connection:
        # Its own limit would end the long run within seconds.
        connection.execute(
            tables.api_keys.update().where(tables.api_keys.c.id == KEYS["terraform"]).values(rate_limit=60_000)
        )
    chance = random.Random(29)
    tenant = f"frn:organizations:*:{WEB_SHOP}:tenants/{WEB_SHOP}"
    organization = f"frn:organizations:*:{WEB_SHOP}:organizations/{AURORA}"
    asked = [
        ("organizations:tenants:read", tenant, "GET", f"/api/v1/tenants/{WEB_SHOP}", None),
        ("organizations:tenants:list", tenant, "GET", "/api/v1/tenants", None),
        ("organizations:organizations:list", organization, "GET", "/api/v1/organizations", None),
        ("organizations:tenants:update", tenant, "PATCH", f"/api/v1/tenants/{WEB_SHOP}", {"displayName": "Web Shop"}),
    ]
    facts = {"principalType": "api_key", "tenant": WEB_SHOP, "requestTags": {}, "resourceTags": {}}
    verdicts = set()
    for version in range(2, 2 + rounds):
        rules = [random_rule(chance) for _ in range(chance.randint(1, 4))]
        text = json.dumps(document(*rules))
        with own_database.write() as connection:
            connection.execute(
                tables.policies.update().where(tables.policies.c.id == policy).values(document=text, version=version)
            )
        for operation, target, method, path, body in asked:
            trial = {"documentText": text, "operation": operation, "target": target, "facts": facts}
            tried = iam.ask("POST", "/iam/simulate", trial).json()["decision"]
            got = own.ask(method, path, key="terraform", body=body)
            assert (got.status == 200) is (tried == "allowed"), (rules, operation, got)
            verdicts.add((operation, tried))
    assert len(verdicts) == 8


def random_rule(chance: random.Random) -> dict[str, Any]:
    operations = ["organizations:*", "*", "organizations:tenants:*", "*:tenants:read", "*:*:list", "compute:*"]
    operations += ["organizations:tenants:update", "organizations:organizations:list"]
    targets = ["*", "*", f"frn:organizations:*:{WEB_SHOP}:tenants/{WEB_SHOP[:4]}*", "frn:*:*:*:organizations/*"]
    targets += ["frn:organizations:fi-hel-1:*:*/*", "frn:compute:*:*:*/*"]
    constraints: list[dict[str, Any]] = [{}, {}, {"equals": {"frn:principalType": "api_key"}}]
    constraints += [{"equals": {"frn:tenant": "x"}}, {"notEquals": {"frn:resourceTag/env": "prod"}}]
    constraints += [{"ipInRange": {"frn:sourceIp": ["0.0.0.0/0"]}}, {"like": {"frn:region": "fi*"}}]
    constraints += [{"after": {"frn:currentTime": "2020-01-01T00:00:00Z"}}]
    make = chance.choice([allow, allow, allow, deny])
    return make(
        *chance.sample(operations, chance.randint(1, 3)),
        targets=(chance.choice(targets),),
        **chance.choice(constraints),
    )

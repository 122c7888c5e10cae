"""Trials of a document, from the command line."""

import json
from typing import Any

import pytest

from tests.acceptance.iam import Desk, allow, deny, text
from tests.acceptance.people import OWNER, VIEWER, WEB_SHOP

READ = "compute:instances:read"
ONE = "frn:compute:*:*:instances/i-1"


def tried(
    desk: Desk, *rules: dict[str, Any], operation: str = READ, target: str = "*", flags: tuple[str, ...] = ()
) -> Any:
    words = ("--document", text(*rules), "--operation", operation, "--target", target, *flags)
    return desk.done("simulate", *words)


def verdict(desk: Desk, *rules: dict[str, Any], flags: tuple[str, ...] = (), target: str = "*") -> str:
    return str(tried(desk, *rules, flags=flags, target=target)["decision"])


def shown(desk: Desk, *rules: dict[str, Any], flags: tuple[str, ...] = (), target: str = "*") -> list[str]:
    words = ("--document", text(*rules), "--operation", READ, "--target", target, *flags)
    return desk.iam("simulate", *words).out.splitlines()


def named(name: str, rule: dict[str, Any]) -> dict[str, Any]:
    return {**rule, "name": name}


def test_the_verdict_comes_first_with_the_rule_that_decides(desk: Desk) -> None:
    lines = shown(desk, named("look", allow("compute:*")))
    assert lines[0] == f"ALLOWED  {READ} on *"
    assert lines[1] == "  rule 1 (look) allows it, and no rule denies it"
    words = ("--document", text(allow("compute:*")), "--operation", READ, "--target", "*")
    for form in ("table", "json", "yaml", "wide"):
        assert desk.iam("test", *words, "-o", form).out == desk.iam("simulate", *words, "-o", form).out


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--document", ""),
        ("--operation", ""),
        ("--target", ""),
        ("--target", "instances/i-1"),
        ("--target", "frn:compute:*:*:instances"),
        ("--target", "frn:compute:*::instances/a"),
        ("--source-ip", "999.1.1.1"),
        ("--source-ip", ""),
        ("--source-ip", "203.0.113.0/24"),
        ("--principal-type", "robot"),
        ("--principal-type", ""),
        ("--time", "2026-03-01"),
        ("--time", "2026-03-01T09:00:00"),
        ("--time", ""),
        ("--tenant", ""),
        *(
            (flag, value)
            for flag in ("--request-tag", "--resource-tag")
            for value in ("env", "=p", "e=a,e=b", "e=a,", ",")
        ),
    ],
)
def test_an_invalid_value_is_refused_with_its_flag(desk: Desk, flag: str, value: str) -> None:
    words = {"--document": text(allow("*")), "--operation": READ, "--target": "*", flag: value}
    assert flag in desk.refused(2, "simulate", *(word for pair in words.items() for word in pair))


def test_a_target_of_another_service_is_denied(desk: Desk) -> None:
    bucket = "frn:storage:*:*:buckets/b"
    assert verdict(desk, allow("*"), target=bucket) == "denied"
    lines = shown(desk, allow("*"), target=bucket)
    assert lines[0].startswith("DENIED")
    assert "the target is of storage" in lines[1]
    said = desk.refused(2, "who", "--operation", READ, "--target", bucket)
    assert "target" in said
    assert "of compute" in said


@pytest.mark.parametrize("operation", ["compute:read", "compute:*:read", "*", "a:b:c:d"])
def test_only_a_single_operation_is_tried(desk: Desk, operation: str) -> None:
    said = desk.refused(2, "simulate", "--document", text(allow("*")), "--operation", operation, "--target", "*", "-d")
    assert "svc:resource:action" in said
    assert "/api/" not in said


def test_a_target_is_a_star_or_a_whole_name(desk: Desk) -> None:
    only = allow("*", targets=("frn:compute:*:*:instances/i-*",))
    assert verdict(desk, only, target=ONE) == "allowed"
    assert verdict(desk, only, target="frn:compute:*:*:instances/x-1") == "denied"
    assert "it is allowed on some targets" in shown(desk, only)[2]


def test_both_verdicts_exit_0_and_fail_on_deny_makes_a_deny_1(desk: Desk) -> None:
    words = ("simulate", "--operation", READ, "--target", "*", "--document")
    for rule, code in ((allow("*"), 0), (deny("*"), 1)):
        assert desk.iam(*words, text(rule)).code == 0
        plain, failing = (
            desk.iam(*words, text(rule), "-o", "json"),
            desk.iam(*words, text(rule), "-o", "json", "--fail-on-deny"),
        )
        assert (failing.code, failing.out) == (code, plain.out)


def test_the_result_tells_each_part_of_each_rule(desk: Desk) -> None:
    constrained = named("keep", deny("*:*:read", equals={"frn:region": "fi-hel-1"}))
    found = tried(desk, named("all", allow("*")), constrained, flags=("--region", "fi-hel-1"))
    assert (found["decision"], found["reason"], found["decidingRule"]) == (
        "denied",
        "explicit_deny",
        {"index": 1, "name": "keep"},
    )
    first, second = found["rules"]
    assert (first["operation"], first["target"], first["constraints"], first["fires"]) == ("true", "true", [], True)
    assert second["constraints"] == [
        {"operator": "equals", "key": "frn:region", "values": ["fi-hel-1"], "result": "true"}
    ]
    lines = shown(desk, named("all", allow("*")), constrained, flags=("--region", "fi-hel-1"))
    assert lines[:2] == [f"DENIED  {READ} on *", "  rule 2 (keep) denies it"]
    assert [line.split()[:4] for line in lines[3:]] == [
        ["RULE", "ACCESS", "OUTCOME", "NOT"],
        ["1", "all", "allow", "allows"],
        ["2", "keep", "deny", "denies"],
    ]


def test_without_a_match_the_nearest_rule_is_named_with_what_failed(desk: Desk) -> None:
    far, near = named("far", allow("dns:*")), named("near", allow("compute:*", equals={"frn:region": "se-sto-1"}))
    found = tried(desk, far, near, flags=("--region", "fi-hel-1"))
    assert (found["reason"], found["nearestRule"]["name"]) == ("no_match", "near")
    lines = shown(desk, far, near, flags=("--region", "fi-hel-1"))
    assert lines[1] == "  no rule matched; nearest is rule 2 (near): equals frn:region se-sto-1 is not satisfied"
    assert "its operations do not match" in shown(desk, far)[1]


def test_a_missing_fact_is_named_with_its_flag(desk: Desk) -> None:
    office = named("office", allow("*", ipInRange={"frn:sourceIp": ["203.0.113.0/24"]}))
    for address, decision in (("203.0.113.7", "allowed"), ("::ffff:203.0.113.7", "allowed"), ("2001:db9::1", "denied")):
        assert verdict(desk, office, flags=("--source-ip", address)) == decision
    found = tried(desk, office)
    assert (found["reason"], found["missing"]) == ("unknown_context", [{"key": "frn:sourceIp", "flag": "--source-ip"}])
    assert "set it with --source-ip" in shown(desk, office)[2]


def test_principal_type_and_time_are_facts(desk: Desk) -> None:
    keys = allow("*", equals={"frn:principalType": "api_key"})
    assert verdict(desk, keys, flags=("--principal-type", "api_key")) == "allowed"
    assert verdict(desk, keys, flags=("--principal-type", "user")) == "denied"
    later = allow("*", after={"frn:currentTime": "2026-03-01T09:00:00Z"})
    assert verdict(desk, later, flags=("--time", "2026-03-01T10:00:00+00:30")) == "allowed"
    assert verdict(desk, later, flags=("--time", "2026-03-01T09:30:00+01:00")) == "denied"
    assert verdict(desk, later) == "allowed"


@pytest.mark.parametrize("kind", ["request", "resource"])
def test_tags_are_known_known_to_be_absent_or_unknown(desk: Desk, kind: str) -> None:
    flag, key = f"--{kind}-tag", f"frn:{kind}Tag/env"

    def decided(rule: dict[str, Any], *values: str) -> str:
        return verdict(desk, allow("*"), rule, flags=tuple(word for value in values for word in (flag, value)))

    prod, other = deny("*", equals={key: "prod"}), deny("*", notEquals={key: "prod"})
    # Two tags, in one flag or in two; values may hold an equals sign.
    assert decided(prod, "team=a,env=prod") == decided(prod, "team=a", "env=prod") == "denied"
    assert decided(prod, "env=dev=prod") == "allowed"
    # Known to have none; and not known at all: a deny that needs the tag fires.
    assert decided(prod, "") == "allowed"
    assert decided(prod) == "denied"
    # A tag known to be absent is not equal to anything; an unknown one may be.
    assert decided(other, "") == "denied"
    assert verdict(desk, allow("*", notEquals={key: "prod"}), flags=(flag, "")) == "allowed"
    assert tried(desk, allow("*", notEquals={key: "prod"}))["reason"] == "unknown_context"


def test_tenant_is_a_fact_of_the_request_in_a_trial(desk: Desk) -> None:
    other = "eae729b9-0000-4000-8000-000000000000"
    rule = allow("*", equals={"frn:tenant": other})
    words = ("--document", text(rule), "--operation", READ, "--target", "*", "--tenant", other)
    asked = desk.iam("simulate", *words, "-o", "json", "-d")
    assert json.loads(asked.out)["decision"] == "allowed"
    assert f"/api/v1/tenants/{WEB_SHOP}/iam/simulate" in asked.err
    assert other not in asked.err
    assert verdict(desk, rule, flags=("--tenant", "another name")) == "denied"
    # The tenant to work in is taken from the variable, as everywhere.
    elsewhere = desk.iam("simulate", *words, FROST_TENANT=other)
    assert (elsewhere.code, "FROST_TENANT" in elsewhere.err) == (4, True)


def test_the_rights_of_the_author_count_with_as_author(own_desk: Desk) -> None:
    desk = own_desk
    desk.home.sign_in(VIEWER)
    words = ("simulate", "--document", text(allow("*")), "--operation", "compute:instances:delete", "--target", "*")
    plain = desk.iam(*words)
    assert plain.out.startswith("ALLOWED")
    assert "--as-author" in plain.err
    capped = desk.iam(*words, "--as-author")
    assert capped.out.splitlines()[:2] == [
        "DENIED  compute:instances:delete on *",
        "  no rule matched; nearest is rule 1: you do not have this permission",
    ]
    assert "no permission" in capped.out
    assert capped.err == ""
    assert desk.done(*words, "--as-author")["asAuthor"] is True
    desk.home.sign_in(OWNER)
    assert desk.done(*words, "--as-author")["decision"] == "allowed"


def test_a_warning_has_its_place_and_keeps_the_decision(desk: Desk) -> None:
    words = ("--operation", READ, "--target", "*", "--source-ip", "192.0.2.1", "-o", "json", "-q")
    rule = text(allow("*", ipInRange={"frn:sourceIp": ["0.0.0.0/0"]}))
    result = desk.iam("simulate", "--document", rule, *words)
    assert result.json()["decision"] == "allowed"
    assert result.err.startswith("frost: warning: --document:1:")

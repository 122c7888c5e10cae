"""Trials of a document, from the command line."""

import json
from typing import Any

import pytest

from tests.acceptance.iam import Desk, allow, deny, text
from tests.people import VIEWER, WEB_SHOP

READ = "compute:instances:read"
READING = ("--operation", READ, "--target", "*")


def verdict(desk: Desk, *rules: dict[str, Any], flags: tuple[str, ...] = ()) -> str:
    return str(desk.done("simulate", "--document", text(*rules), *READING, *flags)["decision"])


def shown(desk: Desk, *rules: dict[str, Any], flags: tuple[str, ...] = ()) -> list[str]:
    return desk.iam("simulate", "--document", text(*rules), *READING, *flags).out.splitlines()


def named(name: str, rule: dict[str, Any]) -> dict[str, Any]:
    return {**rule, "name": name}


def test_the_verdict_comes_first_then_the_deciding_or_nearest_rule_and_each_part(desk: Desk) -> None:
    lines = shown(desk, named("look", allow("compute:*")))
    assert lines[:2] == [f"ALLOWED  {READ} on *", "  rule 1 (look) allows it, and no rule denies it"]
    constrained = named("keep", deny("*:*:read", equals={"frn:region": "fi-hel-1"}))
    rules, flags = (named("all", allow("*")), constrained), ("--region", "fi-hel-1")
    lines = shown(desk, *rules, flags=flags)
    assert lines[:2] == [f"DENIED  {READ} on *", "  rule 2 (keep) denies it"]
    assert [line.split()[:4] for line in lines[3:]] == [
        ["RULE", "ACCESS", "OUTCOME", "NOT"],
        ["1", "all", "allow", "allows"],
        ["2", "keep", "deny", "denies"],
    ]
    far, near = named("far", allow("dns:*")), named("near", allow("compute:*", equals={"frn:region": "se-sto-1"}))
    nearest = "  no rule matched; nearest is rule 2 (near): equals frn:region se-sto-1 is not satisfied"
    assert shown(desk, far, near, flags=flags)[1] == nearest
    assert "its operations do not match" in shown(desk, far)[1]
    only = allow("*", targets=("frn:compute:*:*:instances/i-*",))
    assert "the operation is allowed on some targets" in shown(desk, only)[2]
    assert "the target is of storage" in shown(desk, allow("*"), flags=("--target", "frn:storage:*:*:buckets/b"))[1]


def test_an_invalid_value_is_refused_with_its_flag(desk: Desk) -> None:
    for flag, value in (
        *((flag, "") for flag in ("--document", "--operation", "--target", "--principal-type", "--time", "--tenant")),
        ("--target", "frn:compute:*:*:instances"),
        ("--source-ip", "203.0.113.0/24"),
        ("--principal-type", "robot"),
        ("--time", "2026-03-01T09:00:00"),
        *(("--request-tag", tag) for tag in ("env", "=p", "e=a,e=b", "e=a,", ",")),
        ("--resource-tag", "env"),
    ):
        words = {"--document": text(allow("*")), "--operation": READ, "--target": "*", flag: value}
        assert flag in desk.refused(2, "simulate", *(word for pair in words.items() for word in pair))
    message = desk.refused(
        2, "simulate", "--document", text(allow("*")), "--target", "*", "-d", "--operation", "compute:read"
    )
    assert ("svc:resource:action" in message, "/api/" in message) == (True, False)


def test_both_verdicts_exit_0_and_fail_on_deny_makes_a_deny_1(desk: Desk) -> None:
    for rule, code in ((allow("*"), 0), (deny("*"), 1)):
        words = ("--document", text(rule), *READING)
        for form in ("table", "json", "yaml", "wide"):
            plain = desk.iam("simulate", *words, "-o", form)
            failing = desk.iam("test", *words, "-o", form, "--fail-on-deny")
            assert (plain.code, failing.code, failing.out) == (0, code, plain.out)


IP, KIND = {"frn:sourceIp": ["203.0.113.0/24"]}, {"frn:principalType": "api_key"}
LATER = {"frn:currentTime": "2026-03-01T09:00:00Z"}


def test_flags_are_the_context_of_the_request(desk: Desk) -> None:
    for constraint, flags, decision in (
        ({"ipInRange": IP}, ("--source-ip", "203.0.113.7"), "allowed"),
        ({"equals": KIND}, ("--principal-type", "api_key"), "allowed"),
        ({"after": LATER}, ("--time", "2026-03-01T10:00:00+00:30"), "allowed"),
        ({"after": LATER}, ("--time", "2026-03-01T09:30:00+01:00"), "denied"),
        ({"after": LATER}, (), "allowed"),
    ):
        assert verdict(desk, allow("*", **constraint), flags=flags) == decision, (constraint, flags)
    assert "set it with --source-ip" in shown(desk, allow("*", ipInRange=IP))[2]


@pytest.mark.parametrize("kind", ["request", "resource"])
def test_tags_are_known_known_to_be_absent_or_unknown(desk: Desk, kind: str) -> None:
    prod = deny("*", equals={f"frn:{kind}Tag/env": "prod"})
    for values, decision in (
        # Two tags, in one flag or in two; values may hold an equals sign.
        (("team=a,env=prod",), "denied"),
        (("team=a", "env=prod"), "denied"),
        (("env=dev=prod",), "allowed"),
        # Without tags, and with unknown tags: a deny that needs the tag fires.
        (("",), "allowed"),
        ((), "denied"),
    ):
        flags = tuple(word for value in values for word in (f"--{kind}-tag", value))
        assert verdict(desk, allow("*"), prod, flags=flags) == decision, values


def test_tenant_is_a_fact_of_the_request_in_a_trial(desk: Desk) -> None:
    other = "eae729b9-0000-4000-8000-000000000000"
    rule = allow("*", equals={"frn:tenant": other})
    words = ("simulate", "--document", text(rule), *READING, "--tenant", other)
    result = desk.iam(*words, "-o", "json", "-d")
    assert json.loads(result.out)["decision"] == "allowed"
    assert f"/api/v1/tenants/{WEB_SHOP}/iam/simulate" in result.err
    assert other not in result.err
    assert verdict(desk, rule, flags=("--tenant", "another name")) == "denied"
    # The tenant to work in is taken from the variable, as everywhere.
    assert "FROST_TENANT" in desk.refused(4, *words, FROST_TENANT=other)


def test_the_rights_of_the_author_count_with_as_author(own_desk: Desk) -> None:
    desk = own_desk
    desk.home.sign_in(VIEWER)
    words = ("simulate", "--document", text(allow("*")), "--operation", "compute:instances:delete", "--target", "*")
    plain, capped = desk.iam(*words), desk.iam(*words, "--as-author")
    assert (plain.out.startswith("ALLOWED"), "--as-author" in plain.err) == (True, True)
    assert capped.out.splitlines()[:2] == [
        "DENIED  compute:instances:delete on *",
        "  no rule matched; nearest is rule 1: you do not have this permission",
    ]
    assert ("no permission" in capped.out, capped.err) == (True, "")


def test_a_warning_has_its_place_and_keeps_the_decision(desk: Desk) -> None:
    rule = text(allow("*", ipInRange={"frn:sourceIp": ["0.0.0.0/0"]}))
    result = desk.iam("simulate", "--document", rule, *READING, "--source-ip", "192.0.2.1", "-o", "json", "-q")
    assert result.json()["decision"] == "allowed"
    assert result.err.startswith("frost: warning: --document:1:")

"""Tests parsing and validation of policy documents."""

import contextlib
import json
import random
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest

from client.policy.coverage import Catalogue
from client.policy.document import InvalidDocument, ParsedDocument, canonical, parse_document
from client.policy.matching import _cached_glob, compile_glob
from client.policy.problems import Problem
from tests.effort import effort
from tests.policy import worlds

CATALOGUE = Catalogue(worlds.CATALOGUE)
RULE = {"access": "allow", "operations": ["compute:instances:read"], "targets": ["*"]}


def text(*rules: dict[str, Any], **members: Any) -> str:
    return json.dumps({"schemaVersion": "1", "rules": list(rules), **members})


def accepted(source: str | bytes) -> ParsedDocument:
    return parse_document(source, CATALOGUE)


def refused(source: str | bytes) -> tuple[Problem, ...]:
    with pytest.raises(InvalidDocument) as caught:
        parse_document(source, CATALOGUE)
    return caught.value.problems


def test_the_canonical_form_is_fixed_and_reads_back_to_itself() -> None:
    rule = {"targets": ["*", "*"], "constraints": {}, "operations": ["compute:*", "*"], "access": "deny"}
    first = canonical(accepted(text(rule)).document)
    assert list(first["rules"][0]) == ["name", "access", "operations", "targets"]
    assert first["rules"][0] == {"name": "", "access": "deny", "operations": ["compute:*", "*"], "targets": ["*", "*"]}
    assert canonical(accepted(json.dumps(first)).document) == first


@pytest.mark.parametrize("seed", range(5))
def test_a_stored_document_decides_as_the_one_read(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(100):
        document = worlds.document(chance)
        again = accepted(json.dumps(canonical(document))).document
        # The order of a rule's constraints is not kept: all of them must hold anyway.
        assert [set(rule.constraints) for rule in again.rules] == [set(rule.constraints) for rule in document.rules]
        assert [(r.effect, r.operations, r.targets) for r in again.rules] == [
            (r.effect, r.operations, r.targets) for r in document.rules
        ]


@pytest.mark.parametrize("version", [None, 1, "2", 1.0, ["1"]])
def test_the_version_is_the_text_1(version: object) -> None:
    assert "schemaVersion" in refused(json.dumps({"schemaVersion": version, "rules": [RULE]}))[0].path
    assert "schemaVersion" in refused(json.dumps({"rules": [RULE]}))[0].reason


@pytest.mark.parametrize("rules", [[], {}, None, "x", 3])
def test_at_least_one_rule_is_needed(rules: object) -> None:
    assert refused(json.dumps({"schemaVersion": "1", "rules": rules}))[0].path == "$.rules"
    assert "rules is missing" in refused('{"schemaVersion":"1"}')[0].reason


def test_an_unknown_member_is_refused_at_every_level_with_its_path() -> None:
    problem = refused(text({**RULE, "constrants": {}}))[0]
    assert problem.path == "$.rules[0].constrants"
    assert problem.suggestions == ("constraints",)
    assert refused(text(RULE, extra=1))[0].path == "$.extra"
    assert refused(text({**RULE, "constraints": {"Equals": {"frn:region": "eu"}}}))[0].suggestions == ("equals",)


def test_a_duplicate_member_is_refused_at_its_place() -> None:
    source = '{"schemaVersion": "1", "rules": [\n  {"access": "deny", "access": "allow"}]}'
    (problem,) = (one for one in refused(source) if "duplicated" in one.reason)
    assert (problem.line, problem.column) == (2, 22)
    assert problem.path == "$.rules[0].access"
    assert "duplicated" in refused('{"schemaVersion":"1","rules":[],"\\u0072ules":[]}')[0].reason


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('{"schemaVersion": "1",\n "ra\\"ules" :\n [], "rules": []}', '"ra\\"ules"'),
        ('{"schemaVersion": "1", "rules": [{"nmae": "nmae"}]}', '"nmae": '),
        ('{"schemaVersion": "1", "rules": [{"x\\\\": "nmae"}]}', '"x'),
        ('{"schemaVersion": "1", "rules": [{"constraints": {"is": {"frn:region": "a"}}}]}', '"is"'),
        ('{"schemaVersion": "1", "rules": [{"constraints": {"equals": {"region": "a"}}}]}', '"region"'),
    ],
)
def test_an_unknown_member_is_reported_at_its_name(text: str, name: str) -> None:
    problem = next(one for one in refused(text) if one.reason.startswith("unknown "))
    before = text[: text.index(name)]
    assert (problem.line, problem.column) == (before.count("\n") + 1, len(before) - before.rfind("\n"))


def test_duplicate_members_and_other_problems_are_all_reported() -> None:
    source = (
        '{"schemaVersion": "2",\n "rules": [{"access": "deny", "access": "allow",\n'
        ' "operations": ["compute:instanses:read"], "targets": ["*"],\n "targets": ["x"]}]}'
    )
    assert [(problem.path, problem.line) for problem in refused(source)] == [
        ("$.schemaVersion", 1),
        ("$.rules[0].access", 2),
        ("$.rules[0].operations[0]", 3),
        ("$.rules[0].targets", 4),
        ("$.rules[0].targets[0]", 4),
    ]
    broken = refused('{"schemaVersion": "1", "schemaVersion": "1",\n "rules": [}')
    assert [(problem.path, problem.line) for problem in broken] == [("$.schemaVersion", 1), ("$.rules[0]", 2)]


def test_the_first_of_many_duplicate_members_are_reported() -> None:
    members = ",".join(['"access":"no"'] * 15_000)
    problems, taken = effort(lambda: refused(f'{{"schemaVersion":"1","rules":[{{{members}}}]}}'))
    assert (len(problems), {problem.path for problem in problems}) == (20, {"$.rules[0].access"})
    assert taken < 50


@pytest.mark.parametrize(
    ("member", "meant"),
    [("conditions", "constraints"), ("Condition", "constraints"), ("Effect", "access"), ("Resource", "targets"),
     ("actions", "operations"), ("Sid", "name")],
)  # fmt: skip
def test_a_member_of_another_policy_language_leads_to_ours(member: str, meant: str) -> None:
    (problem,) = refused(text({**RULE, member: {}}))
    assert (problem.path, problem.suggestions) == (f"$.rules[0].{member}", (meant,))


def test_a_suggestion_is_a_member_of_the_same_object() -> None:
    assert [problem.suggestions for problem in refused(text(RULE, Effect="Allow"))] == [()]
    assert refused(text(RULE, Statement=[]))[0].suggestions == ("rules",)


@pytest.mark.parametrize(
    ("block", "why", "meant"),
    [
        ("10.0.0.5", "the prefix length is missing; a single address has the length 32", ("10.0.0.5/32",)),
        ("2001:db8::1", "the prefix length is missing; a single address has the length 128", ("2001:db8::1/128",)),
        ("10.0.0.5/24", "it has host bits set", ("10.0.0.0/24",)),
        ("10.0.0.0/33", "the prefix length must be a number from 0 to 32", ()),
        ("2001:db8::/129", "the prefix length must be a number from 0 to 128", ()),
        ("10.0.0.0/255.0.0.0", "the prefix length must be a number from 0 to 32", ()),
        ("10.0.0/8", "it does not start with an IPv4 or IPv6 address", ()),
        ("fe80::1%eth0/64", "it does not start with an IPv4 or IPv6 address", ()),
    ],
)
def test_a_block_that_is_none_says_why_and_which_was_meant(block: str, why: str, meant: tuple[str, ...]) -> None:
    (problem,) = refused(text({**RULE, "constraints": {"ipInRange": {"frn:sourceIp": [block]}}}))
    assert (problem.reason, problem.suggestions) == (f"{block} is not a valid CIDR block: {why}", meant)
    for one in meant:
        assert accepted(text({**RULE, "constraints": {"ipInRange": {"frn:sourceIp": [one]}}}))


def test_operations_are_literals_or_stars_of_the_catalogue() -> None:
    for pattern in ("*", "compute:*", "*:*:delete", "compute:instances:*", "compute:*:read"):
        assert accepted(text({**RULE, "operations": [pattern]}))
    misspelt = refused(text({**RULE, "operations": ["compute:instanses:read"]}))[0]
    assert misspelt.suggestions == ("compute:instances:read",)
    inside = refused(text({**RULE, "operations": ["compute:inst*:read"]}))[0]
    assert inside.suggestions == ("compute:instances:read",)
    for pattern in ("", "compute", "compute:instances", "a:b:c:d", "*:*:nothing", "Compute:*", "compute::read", " *"):
        assert refused(text({**RULE, "operations": [pattern]}))[0].path == "$.rules[0].operations[0]"


def test_targets_keep_colons_in_the_id_and_globs_only_there() -> None:
    source = text({**RULE, "targets": ["frn:storage:*:t-abc:object/bucket:key:x", "frn:*:*:*:instances/logs-*-2*"]})
    first, second = accepted(source).document.rules[0].targets
    assert (first.type, first.id) == ("object", "bucket:key:x")
    assert second.id == "logs-*-2*"
    # Fields of a name end at the first slash, and its service is that of an operation.
    impossible = ("frn:c:eu/1:*:a/b", "frn:c:*:t/1:a/b", "frn:Compute:*:*:a/b", "frn:c.d:*:*:a/b")
    for target in (
        *("", "frn:compute:*", "instances/i-1", "frn:c*:*:*:a/b", "frn::*:*:a/b", "frn:c:*:*:a", "frn:c:*:*:/x"),
        *("frn:c:*:*:a/b\u200b", "frn:c:*:*:a/b\x85", *impossible),
    ):
        assert refused(text({**RULE, "targets": [target]}))[0].path == "$.rules[0].targets[0]"


UNKNOWN_KEYS = ("frn:region ", "frn:Region", "frn:resourceTag/", "frn:resourceTag/env ", "frn:requestTag/ env", "env")
NO_BLOCKS = (
    *("10.0.0.1/8", "010.0.0.1/32", "10.0.0.1", "10.0.0.0/255.0.0.0", "10.0.0.0/0.255.255.255", "10.0.0.0/08"),
    "fe80::1%eth0/128",
)
NO_TIMES = (
    *("2026-01-01", "2026-01-01T00:00:00", "20260101T000000Z", "2026-W01-1T09:00:00Z", "2026-01-31T09:00:00+0100"),
    *("2026-01-31T09:00:00,5Z", "2026-01-31T09:00:00+01:00:30"),
)


@pytest.mark.parametrize(
    ("operator", "key", "value"),
    [
        ("ipInRange", "frn:sourceIp", "10.0.0.0/8"),
        ("ipInRange", "frn:sourceIp", []),
        *(("ipInRange", "frn:sourceIp", [block]) for block in NO_BLOCKS),
        ("ipInRange", "frn:region", ["10.0.0.0/8"]),
        ("equals", "frn:sourceIp", "10.0.0.1"),
        ("equals", "frn:region", ["eu"]),
        ("equals", "frn:region", 3),
        *(("equals", key, "eu") for key in UNKNOWN_KEYS),
        *(("before", "frn:currentTime", time) for time in NO_TIMES),
        ("before", "frn:region", "2026-01-01T00:00:00Z"),
        ("matches", "frn:region", "eu"),
        ("EQUALS", "frn:region", "eu"),
    ],
)
def test_an_invalid_constraint_is_refused(operator: str, key: str, value: object) -> None:
    assert refused(text({**RULE, "constraints": {operator: {key: value}}}))[0].path.startswith("$.rules[0].constraints")


def test_blocks_of_all_addresses_are_accepted_with_a_warning() -> None:
    blocks = ["0.0.0.0/0", "::/0", "::ffff:203.0.113.0/120"]
    reading = accepted(text({**RULE, "constraints": {"ipInRange": {"frn:sourceIp": blocks}}}))
    assert [warning.path[-3:] for warning in reading.warnings] == ["[0]", "[1]"]


def test_limits_hold_before_anything_is_evaluated() -> None:
    assert "longer than" in refused(text(RULE) + " " * 256 * 1024)[0].reason
    assert "501 rules" in refused(text(*[RULE] * 501))[0].reason
    assert accepted(text(*[RULE] * 500))
    assert "4096" in refused(text({**RULE, "operations": ["*"] * 4097}))[0].reason
    deep, taken = effort(lambda: refused("[" * 100_000))
    assert "deeper" in deep[0].reason
    assert taken < 50  # linear, not a bound on speed


@pytest.mark.parametrize(
    "source",
    [
        b"",
        b"nonsense",
        b'{"schemaVersion": NaN}',
        b'{"schemaVersion": Infinity}',
        b'{"schemaVersion": ' + b"9" * 5_000 + b"}",
        b'{"schemaVersion": "\\ud800"}',
        text(RULE).encode("utf-16"),
        b'{"schemaVersion": "\xff"}',
        text(RULE).encode() + b" trailing",
    ],
)
def test_text_that_is_not_strict_json_is_refused_with_a_place(source: bytes) -> None:
    problem = refused(source)[0]
    assert problem.line >= 1
    assert problem.column >= 1


def test_a_byte_order_mark_is_accepted() -> None:
    assert accepted(b"\xef\xbb\xbf" + text(RULE).encode())
    assert refused(b"\xef\xbb\xbf" + text({**RULE, "access": "x"}).encode())[0].path == "$.rules[0].access"


@pytest.mark.parametrize("breaks", ["\n", "\r\n"])
def test_places_are_counted_as_an_editor_counts_them(breaks: str) -> None:
    lines = ["{", '\t"schemaVersion": "1",', '\t"rules": [{"name": "\U0001f600", "access": "x",']
    source = breaks.join([*lines, '"operations": ["*"], "targets": ["*"]}]}'])
    for sent in (source, "\ufeff" + source, ("\ufeff" + source).encode()):
        (problem,) = refused(sent)
        assert (problem.line, problem.column) == (3, lines[2].index('"x"') + 1)


HUGE = {
    "operations": text({**RULE, "operations": [f"compte:instnces{number}:reed" for number in range(4_000)]}),
    "targets": text({**RULE, "targets": ["x"] * 50_000}),
    "members": text(RULE, **{f"r{number}": 1 for number in range(20_000)}),
    "operators": text({**RULE, "constraints": {f"e{number}": 1 for number in range(20_000)}}),
    "keys": text({**RULE, "constraints": {"equals": {f"e{number}": "1" for number in range(15_000)}}}),
}


@pytest.mark.parametrize("kind", HUGE)
def test_the_first_of_thousands_of_problems_are_reported(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    looked: list[str] = []

    def near(word: str, known: Sequence[str], **_: Any) -> list[str]:
        looked.append(word)
        return []

    monkeypatch.setattr("client.policy.document.get_close_matches", near)
    assert len(refused(HUGE[kind])) == 20
    assert len(looked) <= 20


@pytest.mark.parametrize("kind", [*HUGE, "rules", "targets that are"])
def test_a_large_document_is_read_within_64_megabytes(kind: str) -> None:
    largest = {
        "rules": text(*[{**RULE, "constraints": {"equals": {"frn:resourceTag/env": f"v{n}"}}} for n in range(500)]),
        "targets that are": text({**RULE, "targets": [f"frn:*:*:*:t/{number}" for number in range(12_000)]}),
    }
    source = (HUGE | largest)[kind]
    tracemalloc.start()
    try:
        with contextlib.suppress(InvalidDocument):
            parse_document(source, CATALOGUE)
        assert tracemalloc.get_traced_memory()[1] < 64 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_the_first_of_thousands_of_warnings_are_reported() -> None:
    blocks = ["::/0"] * 20_000
    assert len(accepted(text({**RULE, "constraints": {"ipInRange": {"frn:sourceIp": blocks}}})).warnings) == 20


def test_patterns_of_great_length_are_not_kept_in_memory() -> None:
    before = _cached_glob.cache_info().currsize
    assert compile_glob("a*" * 50_000)("a" * 50_000)
    assert _cached_glob.cache_info().currsize == before


def test_problems_are_in_the_order_of_the_text() -> None:
    problems = refused(text({**RULE, "access": "x"}, {**RULE, "targets": ["y"]}))
    assert [problem.path for problem in problems] == ["$.rules[0].access", "$.rules[1].targets[0]"]


def test_a_pattern_of_many_stars_is_answered_in_linear_time() -> None:
    test = compile_glob("*a" * 10_000)
    answers, taken = effort(lambda: (test("b" * 65_536), test("a" * 65_536)))
    assert answers == (False, True)
    assert taken < 50

"""Tests parsing and validation of policy documents."""

import contextlib
import json
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


def parse(source: str | bytes) -> ParsedDocument:
    return parse_document(source, CATALOGUE)


def problems_of(source: str | bytes) -> tuple[Problem, ...]:
    with pytest.raises(InvalidDocument) as error:
        parse_document(source, CATALOGUE)
    return error.value.problems


def problems_in(**members: Any) -> tuple[Problem, ...]:
    return problems_of(text({**RULE, **members}))


def addresses(*blocks: str) -> dict[str, Any]:
    return {"ipInRange": {"frn:sourceIp": list(blocks)}}


def test_the_canonical_form_is_fixed_and_reads_back_to_itself() -> None:
    rule = {"targets": ["*", "*"], "constraints": {}, "operations": ["compute:*", "*"], "access": "deny"}
    first = canonical(parse(text(rule)).document)
    assert list(first["rules"][0]) == ["name", "access", "operations", "targets"]
    assert first["rules"][0] == {"name": "", "access": "deny", "operations": ["compute:*", "*"], "targets": ["*", "*"]}
    assert canonical(parse(json.dumps(first)).document) == first


def test_the_version_is_the_text_1_and_at_least_one_rule_is_needed() -> None:
    for version in (None, 1, "2", 1.0, ["1"]):
        assert "schemaVersion" in problems_of(text(RULE, schemaVersion=version))[0].path
    assert "schemaVersion" in problems_of(json.dumps({"rules": [RULE]}))[0].reason
    for rules in ([], {}, None, "x", 3):
        assert problems_of(text(rules=rules))[0].path == "$.rules"
    assert "rules is missing" in problems_of('{"schemaVersion":"1"}')[0].reason


def test_an_unknown_member_is_refused_at_every_level_with_its_path() -> None:
    problem = problems_in(constrants={})[0]
    assert problem.path == "$.rules[0].constrants"
    assert problem.suggestions == ("constraints",)
    assert problem.reason.startswith("unknown member constrants; known: name, ")
    for name, shown in (("café au lait", "'café au lait'"), ("", "''"), ("a\u200b", "'a\\u200b'"), ("café", "café")):
        assert problems_in(**{name: 1})[0].reason.startswith(f"unknown member {shown}; ")
    assert problems_of(text(RULE, extra=1))[0].path == "$.extra"
    assert problems_in(constraints={"Equals": {"frn:region": "eu"}})[0].suggestions == ("equals",)
    # A member of another policy language leads to ours; a suggestion is a member of the same object.
    for member, suggestion in {
        "conditions": "constraints",
        "Condition": "constraints",
        "Effect": "access",
        "Resource": "targets",
        "actions": "operations",
        "Sid": "name",
    }.items():
        (problem,) = problems_in(**{member: {}})
        assert (problem.path, problem.suggestions) == (f"$.rules[0].{member}", (suggestion,))
    assert [problem.suggestions for problem in problems_of(text(RULE, Effect="Allow"))] == [()]
    assert problems_of(text(RULE, Statement=[]))[0].suggestions == ("rules",)


def test_a_duplicate_member_is_refused_at_its_place() -> None:
    source = '{"schemaVersion": "1", "rules": [\n  {"access": "deny", "access": "allow"}]}'
    (problem,) = (one for one in problems_of(source) if "duplicated" in one.reason)
    assert (problem.line, problem.column) == (2, 22)
    assert problem.path == "$.rules[0].access"
    assert "duplicated" in problems_of('{"schemaVersion":"1","rules":[],"\\u0072ules":[]}')[0].reason


def test_an_unknown_member_is_reported_at_its_name() -> None:
    for source, name in (
        ('{"schemaVersion": "1",\n "ra\\"ules" :\n [], "rules": []}', '"ra\\"ules"'),
        ('{"schemaVersion": "1", "rules": [{"nmae": "nmae"}]}', '"nmae": '),
        ('{"schemaVersion": "1", "rules": [{"x\\\\": "nmae"}]}', '"x'),
        ('{"schemaVersion": "1", "rules": [{"constraints": {"is": {"frn:region": "a"}}}]}', '"is"'),
        ('{"schemaVersion": "1", "rules": [{"constraints": {"equals": {"region": "a"}}}]}', '"region"'),
    ):
        problem = next(one for one in problems_of(source) if one.reason.startswith("unknown "))
        before = source[: source.index(name)]
        assert (problem.line, problem.column) == (before.count("\n") + 1, len(before) - before.rfind("\n"))


def test_duplicate_members_and_other_problems_are_all_reported() -> None:
    source = (
        '{"schemaVersion": "2",\n "rules": [{"access": "deny", "access": "allow",\n'
        ' "operations": ["compute:instanses:read"], "targets": ["*"],\n "targets": ["x"]}]}'
    )
    assert [(problem.path, problem.line) for problem in problems_of(source)] == [
        ("$.schemaVersion", 1),
        ("$.rules[0].access", 2),
        ("$.rules[0].operations[0]", 3),
        ("$.rules[0].targets", 4),
        ("$.rules[0].targets[0]", 4),
    ]
    broken = problems_of('{"schemaVersion": "1", "schemaVersion": "1",\n "rules": [}')
    assert [(problem.path, problem.line) for problem in broken] == [("$.schemaVersion", 1), ("$.rules[0]", 2)]


def test_the_first_of_many_duplicate_members_are_reported() -> None:
    members = ",".join(['"access":"no"'] * 15_000)
    problems, taken = effort(lambda: problems_of(f'{{"schemaVersion":"1","rules":[{{{members}}}]}}'))
    assert (len(problems), {problem.path for problem in problems}) == (20, {"$.rules[0].access"})
    assert taken < 50


def test_an_invalid_block_has_a_reason_and_a_suggestion() -> None:
    for block, reason, suggestion in (
        ("10.0.0.5", "the prefix length is missing; a single address has the length 32", ("10.0.0.5/32",)),
        ("2001:db8::1", "the prefix length is missing; a single address has the length 128", ("2001:db8::1/128",)),
        ("10.0.0.5/24", "it has host bits set", ("10.0.0.0/24",)),
        ("10.0.0.0/33", "the prefix length must be a number from 0 to 32", ()),
        ("2001:db8::/129", "the prefix length must be a number from 0 to 128", ()),
        ("10.0.0.0/255.0.0.0", "the prefix length must be a number from 0 to 32", ()),
        ("10.0.0/8", "it does not start with an IPv4 or IPv6 address", ()),
        ("fe80::1%eth0/64", "it does not start with an IPv4 or IPv6 address", ()),
    ):
        (problem,) = problems_in(constraints=addresses(block))
        assert (problem.reason, problem.suggestions) == (f"{block} is not a valid CIDR block: {reason}", suggestion)
        for one in suggestion:
            assert parse(text({**RULE, "constraints": addresses(one)}))


def test_operations_are_literals_or_stars_of_the_catalogue() -> None:
    for pattern in ("*", "compute:*", "*:*:delete", "compute:instances:*", "compute:*:read"):
        assert parse(text({**RULE, "operations": [pattern]}))
    for misspelt in ("compute:instanses:read", "compute:inst*:read"):
        assert problems_in(operations=[misspelt])[0].suggestions == ("compute:instances:read",)
    for pattern in ("", "compute", "compute:instances", "a:b:c:d", "*:*:nothing", "Compute:*", "compute::read", " *"):
        assert problems_in(operations=[pattern])[0].path == "$.rules[0].operations[0]"


def test_targets_keep_colons_in_the_id_and_globs_only_there() -> None:
    source = text({**RULE, "targets": ["frn:storage:*:t-abc:object/bucket:key:x", "frn:*:*:*:instances/logs-*-2*"]})
    first, second = parse(source).document.rules[0].targets
    assert (first.type, first.id) == ("object", "bucket:key:x")
    assert second.id == "logs-*-2*"
    # Fields of a name end at the first slash, and its service is that of an operation.
    for target in (
        *("", "frn:compute:*", "instances/i-1", "frn:c*:*:*:a/b", "frn::*:*:a/b", "frn:c:*:*:a", "frn:c:*:*:/x"),
        *("frn:c:*:*:a/b\u200b", "frn:c:*:*:a/b\x85"),
        *("frn:c:eu/1:*:a/b", "frn:c:*:t/1:a/b", "frn:Compute:*:*:a/b", "frn:c.d:*:*:a/b"),
    ):
        assert problems_in(targets=[target])[0].path == "$.rules[0].targets[0]"
    assert problems_in(targets=["*, "])[0].reason.startswith("'*, ' is not a valid target")  # quoted for its spaces


UNKNOWN_KEYS = ("frn:region ", "frn:Region", "frn:resourceTag/", "frn:resourceTag/env ", "frn:requestTag/ env", "env")
NO_BLOCKS = (
    *("10.0.0.1/8", "010.0.0.1/32", "10.0.0.1", "10.0.0.0/255.0.0.0", "10.0.0.0/0.255.255.255", "10.0.0.0/08"),
    "fe80::1%eth0/128",
)
NO_TIMES = (
    *("2026-01-01", "2026-01-01T00:00:00", "20260101T000000Z", "2026-W01-1T09:00:00Z", "2026-01-31T09:00:00+0100"),
    *("2026-01-31T09:00:00,5Z", "2026-01-31T09:00:00+01:00:30"),
)


def test_an_invalid_constraint_is_refused() -> None:
    rows: list[tuple[str, str, object]] = [
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
    ]
    for operator, key, value in rows:
        problem = problems_in(constraints={operator: {key: value}})[0]
        assert problem.path.startswith("$.rules[0].constraints"), (operator, key, value)


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ({"constraints": {"like": {"frn:requestTag/team": "%s*"}}}, "$.rules[0].constraints.like["),
        ({"constraints": {"equals": {"frn:resourceTag/%s": "a"}}}, "$.rules[0].constraints.equals["),
        ({"targets": ["*", "frn:compute:*:*:instances/%s"]}, "$.rules[0].targets[1]"),
    ],
)
def test_a_literal_that_is_not_in_normal_form_c_is_accepted_with_a_warning(rule: dict[str, Any], path: str) -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    for word, number in ((composed, 0), ("cafe", 0), (decomposed, 1)):
        source = text({**RULE, **json.loads(json.dumps(rule).replace("%s", word))})
        warnings = parse(source).warnings
        assert [warning.path.startswith(path) for warning in warnings] == [True] * number
        assert all("normal form C; texts are compared by code point" in warning.reason for warning in warnings)
    # Nothing is normalised: the two spellings are two texts.
    by_word = [
        parse(text({**RULE, "constraints": {"equals": {"frn:requestTag/team": word}}})).document
        for word in (composed, decomposed)
    ]
    assert by_word[0] != by_word[1]


def test_a_time_that_only_earlier_versions_accepted_is_valid_with_a_warning() -> None:
    def warned(time: str) -> list[str]:
        return [
            one.reason for one in parse(text({**RULE, "constraints": {"before": {"frn:currentTime": time}}})).warnings
        ]

    assert warned("2027-01-01T00:00:00+05:30") == []
    (reason,) = warned("2027-01-01T00:00:00+05:75")
    assert "offset that is not within -23:59 and +23:59" in reason
    with pytest.raises(InvalidDocument, match="more than 9 digits after the point"):
        warned("2027-01-01T00:00:00.0123456789Z")


def test_blocks_of_all_addresses_are_accepted_with_a_bounded_number_of_warnings() -> None:
    for blocks, number in ((("0.0.0.0/0", "::/0", "::ffff:203.0.113.0/120"), 2), (("::/0",) * 20_000, 20)):
        warnings = parse(text({**RULE, "constraints": addresses(*blocks)})).warnings
        assert [warning.path.rpartition("[")[2] for warning in warnings] == [f"{place}]" for place in range(number)]


def test_limits_hold_before_anything_is_evaluated() -> None:
    assert "longer than" in problems_of(text(RULE) + " " * 256 * 1024)[0].reason
    assert "501 rules" in problems_of(text(*[RULE] * 501))[0].reason
    assert parse(text(*[RULE] * 500))
    assert "4096" in problems_in(operations=["*"] * 4097)[0].reason
    deep, taken = effort(lambda: problems_of("[" * 100_000))
    assert "deeper" in deep[0].reason
    assert taken < 50  # linear, not a bound on speed


def test_text_that_is_not_strict_json_is_refused_with_a_place() -> None:
    for source in (
        b"",
        b"nonsense",
        b'{"schemaVersion": NaN}',
        b'{"schemaVersion": Infinity}',
        b'{"schemaVersion": ' + b"9" * 5_000 + b"}",
        b'{"schemaVersion": "\\ud800"}',
        text(RULE).encode("utf-16"),
        b'{"schemaVersion": "\xff"}',
        text(RULE).encode() + b" trailing",
    ):
        problem = problems_of(source)[0]
        assert min(problem.line, problem.column) >= 1, source
    # A byte order mark is accepted.
    assert parse(b"\xef\xbb\xbf" + text(RULE).encode())
    assert problems_of(b"\xef\xbb\xbf" + text({**RULE, "access": "x"}).encode())[0].path == "$.rules[0].access"


def test_places_are_counted_as_an_editor_counts_them() -> None:
    lines = ["{", '\t"schemaVersion": "1",', '\t"rules": [{"name": "\U0001f600", "access": "x",']
    for line_break in ("\n", "\r\n"):
        source = line_break.join([*lines, '"operations": ["*"], "targets": ["*"]}]}'])
        for document in (source, "\ufeff" + source, ("\ufeff" + source).encode()):
            (problem,) = problems_of(document)
            assert (problem.line, problem.column) == (3, lines[2].index('"x"') + 1)
    problems = problems_of(text({**RULE, "access": "x"}, {**RULE, "targets": ["y"]}))
    assert [problem.path for problem in problems] == ["$.rules[0].access", "$.rules[1].targets[0]"]


HUGE = {
    "operations": text({**RULE, "operations": [f"compte:instnces{number}:reed" for number in range(4_000)]}),
    "targets": text({**RULE, "targets": ["x"] * 50_000}),
    "members": text(RULE, **{f"r{number}": 1 for number in range(20_000)}),
    "keys": text({**RULE, "constraints": {"equals": {f"e{number}": "1" for number in range(15_000)}}}),
}


@pytest.mark.parametrize("kind", HUGE)
def test_the_first_of_thousands_of_problems_are_reported(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    words: list[str] = []

    def near(word: str, known: Sequence[str], **_: Any) -> list[str]:
        words.append(word)
        return []

    monkeypatch.setattr("client.policy.document.get_close_matches", near)
    assert len(problems_of(HUGE[kind])) == 20
    assert len(words) <= 20


VALID = {
    "rules": text(*[{**RULE, "constraints": {"equals": {"frn:resourceTag/env": f"v{n}"}}} for n in range(500)]),
    "valid targets": text({**RULE, "targets": [f"frn:*:*:*:t/{number}" for number in range(12_000)]}),
}


@pytest.mark.parametrize(
    "source",
    [pytest.param(HUGE[kind], id=kind, marks=pytest.mark.slow) for kind in ("targets", "members", "keys")]
    + [pytest.param(text, id=kind) for kind, text in (VALID | {"operations": HUGE["operations"]}).items()],
)
def test_a_large_document_is_read_within_64_megabytes(source: str) -> None:
    tracemalloc.start()
    try:
        with contextlib.suppress(InvalidDocument):
            parse_document(source, CATALOGUE)
        assert tracemalloc.get_traced_memory()[1] < 64 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_a_pattern_of_many_stars_is_answered_in_linear_time_and_not_cached() -> None:
    before = _cached_glob.cache_info().currsize
    assert compile_glob("a*" * 50_000)("a" * 50_000)
    assert _cached_glob.cache_info().currsize == before
    test = compile_glob("*a" * 10_000)
    answers, taken = effort(lambda: (test("b" * 65_536), test("a" * 65_536)))
    assert answers == (False, True)
    assert taken < 50

"""The parts of the policy editor that need no platform."""

import json
from pathlib import Path

import pytest

from tests.tui.editing import document, rule
from tui.iam.editor import completion, counterexample_fixes, json_scanner, request, review
from tui.iam.editor.action_handlers import undo_key
from tui.iam.editor.completion import Catalogue
from tui.iam.editor.document import as_stored, text_of
from tui.iam.editor.request import matches
from tui.iam.effects import difference_lines
from tui.shell import keymap
from tui.state import drafts
from tui.terminal import external_editor

NAMES = [
    "compute:images:list",
    "compute:images:read",
    "compute:instances:delete",
    "compute:instances:read",
    "compute:instances:start",
    "storage:buckets:delete",
    "storage:buckets:read",
]
CATALOGUE = Catalogue({"name": name, "accessLevel": "read"} for name in NAMES)


def offered(text: str) -> list[str]:
    """The choices at the `|` of a text."""
    at = text.index("|")
    offer = completion.in_text(text.replace("|", ""), at, CATALOGUE)
    return [choice.text for choice in offer.choices] if offer is not None else []


def taken(text: str, choice: str) -> str:
    """The text after taking a choice at its `|`, with the cursor as `|`."""
    at = text.index("|")
    plain = text.replace("|", "")
    offer = completion.in_text(plain, at, CATALOGUE)
    span, written, cursor = completion.edit_for(offer, next(one for one in offer.choices if one.text == choice))
    return plain[: span.start] + written[:cursor] + "|" + written[cursor:] + plain[span.end :]


def test_rules_and_brackets_are_found_in_an_incomplete_text() -> None:
    text = '{"note": ["{", {}], "rules": [{"name": "}", "x": [{}]}, {"name": "a\\"{"}, {"na'
    spans = json_scanner.rules(text)
    assert [text[span.start : span.end] for span in spans] == ['{"name": "}", "x": [{}]}', '{"name": "a\\"{"}', '{"na']
    text = '{"a": "]}", "b": [1, {"c": "["}]}'
    assert json_scanner.matching_bracket(text, 0) == len(text) - 1
    assert json_scanner.matching_bracket(text, text.index("[1")) == text.rindex("]")
    assert json_scanner.matching_bracket(text, text.index("]}")) is None
    assert json_scanner.matching_bracket("[}", 0) is None


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('{"rules": [{"operations": ["comp|"]}]}', ["compute:"]),
        (
            '{"rules": [{"operations": ["compute:|"]}]}',
            ["compute:images:", "compute:instances:", "compute:*", "compute:*:"],
        ),
        ('{"rules": [{"operations": ["compute:images:r|"]}]}', ["compute:images:read"]),
        ('{"rules": [{"operations": ["buck|"]}]}', ["storage:buckets:delete", "storage:buckets:read"]),
        ('{"rules": [{"operations": ["storage:buckets:read|"]}]}', []),
        ('{"rules": [{"access": "|"}]}', ["allow", "deny"]),
        ('{"rules": [{"name": "x", "|"}]}', ["access", "operations", "targets", "constraints"]),
        ('{"rules": [{"constraints": {"ip|"}}]}', ["ipInRange"]),
        ('{"rules": [{"constraints": {"before": {"|"}}}]}', ["frn:currentTime"]),
        ('{"rules": [{"constraints": {"equals": {"frn:res|"}}}]}', ["frn:resourceTag/"]),
        ('{"rules": [{"targets": ["frn:comp|"]}]}', ["frn:compute:"]),
        ('{"rules": [{"targets": ["frn:storage:*:*:b|"]}]}', ["frn:storage:*:*:buckets/*", "frn:storage:*:*:buckets/"]),
        ('{"rules": [{"name": "comp|"}]}', []),
        ('{"schemaVersion": "1"} |', []),
        ("{|", ["schemaVersion", "rules"]),
    ],
)
def test_completions_at_the_cursor(text: str, wanted: list[str]) -> None:
    assert offered(text) == wanted


@pytest.mark.parametrize(
    ("text", "choice", "wanted"),
    [
        ('{"rules": [{"operations": ["comp|"]}]}', "compute:", '{"rules": [{"operations": ["compute:|"]}]}'),
        ('{"rules": [{"operations": ["comp|\n  ]}]}', "compute:", '{"rules": [{"operations": ["compute:|"\n  ]}]}'),
        (
            '{"rules": [{"operations": ["a", "comp|],\n "x": 1}]}',
            "compute:",
            '{"rules": [{"operations": ["a", "compute:|"],\n "x": 1}]}',
        ),
        ('{"rules": [{"access": "d|"}]}', "deny", '{"rules": [{"access": "deny"|}]}'),
        ('{"rules": [{"access": |}]}', "deny", '{"rules": [{"access": "deny"|}]}'),
        ('{"rules": [{"op|"}]}', "operations", '{"rules": [{"operations": ["|"]}]}'),
        ('{"rules": [{"op|": []}]}', "operations", '{"rules": [{"operations"|: []}]}'),
        ('{"rules": [{"constraints": |}]}', '{ "before": … }', '{"rules": [{"constraints": { "before": { | } }}]}'),
        ('{"rules": [{"constraints": {"ip|"}}]}', "ipInRange", '{"rules": [{"constraints": {"ipInRange": { | }}}]}'),
    ],
)
def test_taking_a_completion_writes_what_is_missing(text: str, choice: str, wanted: str) -> None:
    assert taken(text, choice) == wanted


def test_formatting_keeps_the_meaning_and_escapes_controls() -> None:
    value = {"schemaVersion": "1", "rules": [{"name": "a\u202eb\x07", "operations": ["x:y:z"] * 30, "targets": ["*"]}]}
    text = text_of(value)
    assert json.loads(text) == value
    assert "\u202e" not in text
    assert max(map(len, text.splitlines())) < 70
    assert text_of(json.loads(text)) == text


def test_a_stored_document_has_ordered_and_no_empty_members() -> None:
    value = {
        "rules": [
            {"targets": ["*"], "constraints": {"equals": {"frn:region": ["a"]}}, "access": "deny"},
            {"constraints": {}},
        ],
        "schemaVersion": "1",
    }
    stored = as_stored(value)
    assert list(stored) == ["schemaVersion", "rules"]
    assert list(stored["rules"][0]) == ["name", "access", "targets", "constraints"]
    assert stored["rules"][0]["constraints"] == {"equals": {"frn:region": "a"}}
    assert stored["rules"][1] == {"name": ""}
    assert as_stored({"rules": [{"constraints": {"equals": 1}}, 5]})["rules"][1] == 5


@pytest.mark.parametrize(
    ("name", "value", "wrong"),
    [
        ("operation", "compute:instances:read", False),
        ("operation", "compute:read", True),
        ("operation", "compute:*:read", True),
        ("operation", "compute:instances:fly", True),
        ("target", "*", False),
        ("target", "frn:compute:*:*:instances/i:1", False),
        ("target", "instances/i-1", True),
        ("target", "frn:compute:*:*:instances", True),
        ("principalType", "api_key", False),
        ("principalType", "robot", True),
        ("region", "eu-central-1", False),
        ("region", "EU Central", True),
        ("region", "eu--1", True),
        ("requestTags", "env=prod, team=a=b", False),
        ("requestTags", "none", False),
        ("requestTags", "env", True),
        ("requestTags", "env=a,env=b", True),
        ("sourceIp", "::ffff:203.0.113.7", False),
        ("sourceIp", "999.1.1.1", True),
        ("currentTime", "2026-01-31T12:00:00Z", False),
        ("currentTime", "2026-01-31T12:00:00", True),
        ("currentTime", "2026-02-31T12:00:00Z", True),
        ("currentTime", "tomorrow", True),
        ("asAuthor", "perhaps", True),
    ],
)
def test_fields_are_checked(name: str, value: str, wrong: bool) -> None:
    assert bool(request.problem(name, value, frozenset(NAMES))) is wrong


@pytest.mark.parametrize(
    ("operation", "target", "wrong"),
    [
        ("compute:instances:read", "frn:compute:*:*:instances/i", False),
        ("compute:instances:read", "frn:*:*:*:instances/i", False),
        ("compute:instances:read", "frn:storage:*:*:buckets/b", True),
        ("", "frn:storage:*:*:buckets/b", False),
    ],
)
def test_the_service_of_a_target_is_the_operations(operation: str, target: str, wrong: bool) -> None:
    said = request.problem("target", target, operation=operation)
    assert ("compute" in said) is wrong
    assert len(f"! Target: {said}") <= ROOM


def test_facts_of_the_request_form() -> None:
    assert "requestTags" not in request.parse_values({"requestTags": ""}).facts
    assert request.parse_values({"requestTags": "none"}).facts["requestTags"] == {}
    assert request.parse_values({"requestTags": "a=b=c, d="}).facts["requestTags"] == {"a": "b=c", "d": ""}
    assert "currentTime" not in request.parse_values({"currentTime": ""}).facts
    assert request.parse_values({"currentTime": "unknown"}).facts["currentTime"] is None
    facts = {"region": "se-sto-1", "resourceTags": {}, "requestTags": {"env": "dev"}, "sourceIp": "203.0.113.7"}
    values = request.field_values("compute:instances:read", "*", facts)
    assert request.parse_values(values).facts == {**facts, "currentTime": None}


ROOM = 51
"""Cells of the form's last line beside the text."""


@pytest.mark.parametrize("field", request.FIELDS, ids=lambda field: field.name)
def test_the_words_of_a_field_fit_its_line(field: request.Field) -> None:
    filled = "none" if field.name.endswith("Tags") else "x"
    said = f"{request.state(field.name, filled)} · {field.takes}"
    wrong = [request.problem(field.name, value, frozenset(NAMES)) for value in ("X X", "a:b:c", "frn:a:b:c:d", "a:b:*")]
    assert any(wrong)
    assert max(map(len, (said, *(f"! {field.label}: {words}" for words in wrong)))) <= ROOM


# The difference


def painted(before: str, after: str, effect: dict[str, object], cells: int = 60) -> list[str]:
    """The lines of a difference as they are painted."""
    return [line.plain for part in difference_lines(before, after, effect, 8) for line in review.folded(part, cells)]


def test_differences_of_a_new_and_of_a_long_document() -> None:
    lines = painted("", "{\n}\n", {"gained": ["compute:images:read"], "lost": []})
    assert lines[:3] == ["Effect on *", "  +1 gained", "  + compute:images:read"]
    assert lines[-2:] == ["  + {", "  + }"]
    text = json.dumps(json.loads(document(*[rule("compute:images:read", name=f"rule {at}") for at in range(9)])))
    lines = painted("{}", text, {})
    assert max(map(len, lines)) <= 60
    assert text in "".join(line[4:] for line in lines)


# Narrowing


def named(text: str) -> list[set[str]]:
    """What each rule of a document names of the catalogue."""
    return [
        {name for name in NAMES if any(matches(pattern, name) for pattern in one["operations"])}
        for one in json.loads(text)["rules"]
    ]


def example(operation: str, index: int = 0, **more: object) -> dict[str, object]:
    return {"operation": operation, "target": "*", "facts": {}, "ruleIndex": index, "ruleName": "", **more}


@pytest.mark.parametrize("pattern", ["*", "compute:*", "compute:instances:*", "*:*:delete", "*:instances:*"])
def test_one_operation_is_taken_out_of_a_pattern(pattern: str) -> None:
    before = {name for name in NAMES if matches(pattern, name)}
    around = counterexample_fixes.patterns_without(pattern, "compute:instances:delete", NAMES)
    assert {name for name in NAMES if any(matches(one, name) for one in around)} == before - {
        "compute:instances:delete"
    }


def test_the_smallest_fix_keeps_the_rest_and_the_last_rule() -> None:
    untouched = rule("storage:*", name="as  typed")
    text = document(rule("compute:*", name="wide"), untouched)
    way = next(counterexample_fixes.candidate_fixes(text, example("compute:instances:delete"), NAMES, {}))
    assert untouched in way.text
    assert named(way.text)[0] == {name for name in NAMES if name.startswith("compute:")} - {"compute:instances:delete"}
    text = document(rule("compute:images:read"), rule("compute:instances:delete"))
    way = next(counterexample_fixes.candidate_fixes(text, example("compute:instances:delete", 1), NAMES, {}))
    assert len(json.loads(way.text)["rules"]) == 1
    first = next(counterexample_fixes.candidate_fixes(text, example("compute:images:read", 0), NAMES, {}))
    assert named(first.text) == [{"compute:instances:delete"}]
    assert not list(
        counterexample_fixes.candidate_fixes(
            document(rule("compute:images:read")), example("compute:images:read"), NAMES, {}
        )
    )


def test_a_fix_keeps_what_the_author_has() -> None:
    held: counterexample_fixes.Permissions = {
        name: [{}] for name in NAMES if name.startswith("compute:images:") or name.endswith(":read")
    }
    ways = list(
        counterexample_fixes.candidate_fixes(document(rule("*")), example("compute:instances:delete"), NAMES, held)
    )
    kept = json.loads(ways[-1].text)["rules"][0]["operations"]
    assert kept == ["compute:images:*", "compute:instances:read", "storage:buckets:read"]
    grant = {"targets": ["*"], "constraints": [{"operator": "equals", "key": "frn:region", "values": ["se-sto-1"]}]}
    held = {name: [grant] for name in NAMES if name.startswith("compute:")}
    way = next(
        counterexample_fixes.candidate_fixes(
            document(rule("compute:*")), example("compute:instances:delete"), NAMES, held
        )
    )
    assert json.loads(way.text)["rules"][0]["constraints"] == {"equals": {"frn:region": "se-sto-1"}}
    assert json.loads(way.text)["rules"][0]["operations"] == ["compute:*"]
    parted = next(
        counterexample_fixes.candidate_fixes(document(rule("*")), example("compute:instances:delete"), NAMES, held)
    )
    rules = json.loads(parted.text)["rules"]
    assert named(parted.text)[0] == set(NAMES) - {"compute:instances:delete"}
    assert rules[1]["operations"] == ["compute:instances:delete"]
    assert rules[1]["constraints"] == {"equals": {"frn:region": "se-sto-1"}}


OFFICE = ', "constraints": {"ipInRange": {"frn:sourceIp": ["192.0.2.0/25", "203.0.113.0/24"]}}'


def networks(*blocks: str) -> counterexample_fixes.Permissions:
    """Permission for all of compute from some networks only."""
    constraint = {"operator": "ipInRange", "key": "frn:sourceIp", "values": list(blocks)}
    return {name: [{"targets": ["*"], "constraints": [constraint]}] for name in NAMES if name.startswith("compute:")}


def test_a_fix_limits_networks_to_those_of_the_author() -> None:
    text, held = document(rule("compute:*", more=OFFICE)), networks("198.51.100.0/24", "192.0.2.0/24", "203.0.113.0/28")
    way = next(counterexample_fixes.candidate_fixes(text, example("compute:instances:delete"), NAMES, held))
    (limited,) = json.loads(way.text)["rules"]
    assert limited["constraints"] == {"ipInRange": {"frn:sourceIp": ["192.0.2.0/25", "203.0.113.0/28"]}}
    text, held = document(rule("compute:*", more=OFFICE)), networks("198.51.100.0/24", "2001:db8::/32")
    ways = counterexample_fixes.candidate_fixes(text, example("compute:instances:delete"), NAMES, held)
    assert not [way for way in ways if "only where" in way.title]


# Drafts and the editor outside


def test_a_draft_is_private_and_comes_back_as_it_was(tmp_path: Path) -> None:
    path = drafts.path_of({"HOME": str(tmp_path)}, "unix:/x", "tenant", "policy", "ada@example.org")
    kept = drafts.Kept(
        '{"é": "\u202e', "name", "d", 3, "2026-01-01T00:00:00+00:00", 4, 2, {"operation": "a:b:c"}, "key"
    )
    assert drafts.keep(path, kept)
    assert drafts.load(path) == kept
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert drafts.path_of({"HOME": str(tmp_path)}, "unix:/x", "other", "policy", "ada@example.org") != path
    assert drafts.path_of({"HOME": str(tmp_path)}, "unix:/x", "tenant", "policy", "bob@example.org") != path
    drafts.drop(path)
    assert drafts.load(path) is None


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", '{"version": 9, "text": "x"}', '{"version": 1, "text": 5}', '{"version":1}']
)
def test_a_damaged_draft_is_no_draft(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "draft.json"
    path.write_text(damage)
    assert drafts.load(path) is None


def test_the_external_editor_is_found(tmp_path: Path) -> None:
    assert external_editor.command({"EDITOR": "code --wait", "PATH": ""}) == ["code", "--wait"]
    assert external_editor.command({"VISUAL": "vim", "EDITOR": "ed"}) == ["vim"]
    assert external_editor.command({"EDITOR": "'", "PATH": str(tmp_path)}) == []
    vi = tmp_path / "vi"
    vi.write_text("#!/bin/sh\n")
    vi.chmod(0o700)
    assert external_editor.command({"PATH": str(tmp_path)}) == ["vi"]


def test_the_undo_key_is_named_while_it_is_bound() -> None:
    assert undo_key(keymap.resolve({})) == "^z"
    assert undo_key(keymap.resolve({"editor.format": "ctrl+z"})) == "super+z"
    assert undo_key(keymap.resolve({"editor.format": "ctrl+z,super+z"})) == ""

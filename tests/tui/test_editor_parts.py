"""The parts of the policy editor that need no platform."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from client.models.analysis import Counterexample, RequestFacts, Simulation, TargetCoverage
from client.models.iam import CatalogueOperation, Grant
from tests.tui.editing import document, rule
from tui.iam.editor import completion, counterexample_fixes, json_scanner, request, review
from tui.iam.editor.action_handlers import undo_key
from tui.iam.editor.autosave import DraftAutosave, Store, View
from tui.iam.editor.completion import Catalogue
from tui.iam.editor.counterexample_fixes import Fix
from tui.iam.editor.document import Document, as_stored, text_of
from tui.iam.editor.evaluation import Evaluation, verdict_reason
from tui.iam.editor.request import Request, matches
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
CATALOGUE = Catalogue(CatalogueOperation(name=name, access_level="read") for name in NAMES)


def offered(text: str) -> list[str]:
    """The choices at the `|` of a text."""
    offer = completion.in_text(text.replace("|", ""), text.index("|"), CATALOGUE)
    return [choice.text for choice in offer.choices] if offer is not None else []


def completed(text: str, choice: str) -> str:
    """The text after taking a choice at its `|`, with the cursor as `|`."""
    plain = text.replace("|", "")
    offer = completion.in_text(plain, text.index("|"), CATALOGUE)
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


BUCKETS = "frn:storage:*:*:buckets/"
MEMBERS = ["access", "operations", "targets", "constraints"]


@pytest.mark.parametrize(
    ("text", "choices"),
    [
        ('"operations": ["comp|"]', ["compute:"]),
        ('"operations": ["compute:|"]', ["compute:images:", "compute:instances:", "compute:*", "compute:*:"]),
        ('"operations": ["compute:images:r|"]', ["compute:images:read"]),
        ('"operations": ["buck|"]', ["storage:buckets:delete", "storage:buckets:read"]),
        ('"operations": ["storage:buckets:read|"]', []),
        ('"access": "|"', ["allow", "deny"]),
        ('"name": "x", "|"', MEMBERS),
        ('"constraints": {"ip|"}', ["ipInRange"]),
        ('"constraints": {"before": {"|"}}', ["frn:currentTime"]),
        ('"constraints": {"equals": {"frn:res|"}}', ["frn:resourceTag/"]),
        ('"targets": ["frn:comp|"]', ["frn:compute:"]),
        ('"targets": ["frn:storage:*:*:b|"]', [f"{BUCKETS}*", BUCKETS]),
        ('"name": "comp|"', []),
    ],
)
def test_completions_at_the_cursor(text: str, choices: list[str]) -> None:
    assert offered(f'{{"rules": [{{{text}}}]}}') == choices
    assert offered('{"schemaVersion": "1"} |') == []
    assert offered("{|") == ["schemaVersion", "rules"]


@pytest.mark.parametrize(
    ("text", "choice", "result"),
    [
        ('"operations": ["comp|"]', "compute:", '"operations": ["compute:|"]'),
        ('"operations": ["comp|\n  ]', "compute:", '"operations": ["compute:|"\n  ]'),
        ('"operations": ["a", "comp|],\n "x": 1', "compute:", '"operations": ["a", "compute:|"],\n "x": 1'),
        ('"access": "d|"', "deny", '"access": "deny"|'),
        ('"access": |', "deny", '"access": "deny"|'),
        ('"op|"', "operations", '"operations": ["|"]'),
        ('"op|": []', "operations", '"operations"|: []'),
        ('"constraints": |', '{ "before": … }', '"constraints": { "before": { | } }'),
        ('"constraints": {"ip|"}', "ipInRange", '"constraints": {"ipInRange": { | }}'),
    ],
)
def test_taking_a_completion_writes_what_is_missing(text: str, choice: str, result: str) -> None:
    assert completed(f'{{"rules": [{{{text}}}]}}', choice) == f'{{"rules": [{{{result}}}]}}'


def test_formatting_keeps_the_meaning_and_escapes_controls() -> None:
    value = {"schemaVersion": "1", "rules": [{"name": "a\u202eb\x07", "operations": ["x:y:z"] * 30, "targets": ["*"]}]}
    text = text_of(value)
    assert json.loads(text) == value
    assert "\u202e" not in text
    assert max(map(len, text.splitlines())) < 70
    assert text_of(json.loads(text)) == text


def test_a_stored_document_has_ordered_and_no_empty_members() -> None:
    first = {"targets": ["*"], "constraints": {"equals": {"frn:region": ["a"]}}, "access": "deny"}
    stored = as_stored({"rules": [first, {"constraints": {}}], "schemaVersion": "1"})
    assert list(stored) == ["schemaVersion", "rules"]
    assert list(stored["rules"][0]) == ["name", "access", "targets", "constraints"]
    assert stored["rules"][0]["constraints"] == {"equals": {"frn:region": "a"}}
    assert stored["rules"][1] == {"name": ""}
    assert as_stored({"rules": [{"constraints": {"equals": 1}}, 5]})["rules"][1] == 5


FIELDS = {
    "operation": (["compute:instances:read"], ["compute:read", "compute:*:read", "compute:instances:fly"]),
    "target": (["*", "frn:compute:*:*:instances/i:1"], ["instances/i-1", "frn:compute:*:*:instances"]),
    "principalType": (["api_key"], ["robot"]),
    "region": (["eu-central-1"], ["EU Central", "eu--1"]),
    "requestTags": (["env=prod, team=a=b", "none"], ["env", "env=a,env=b"]),
    "sourceIp": (["::ffff:203.0.113.7"], ["999.1.1.1"]),
    "currentTime": (["2026-01-31T12:00:00Z"], ["2026-01-31T12:00:00", "2026-02-31T12:00:00Z", "tomorrow"]),
    "asAuthor": ([], ["perhaps"]),
}
"""Valid and invalid values of each field."""


@pytest.mark.parametrize("name", FIELDS)
def test_fields_are_checked(name: str) -> None:
    valid, invalid = FIELDS[name]
    assert [value for value in (*valid, *invalid) if request.problem(name, value, frozenset(NAMES))] == invalid


def test_the_service_of_a_target_is_the_operations() -> None:
    read = "compute:instances:read"
    for operation, target, wrong in (
        (read, "frn:compute:*:*:instances/i", False),
        (read, "frn:*:*:*:instances/i", False),
        (read, "frn:storage:*:*:buckets/b", True),
        ("", "frn:storage:*:*:buckets/b", False),
    ):
        problem = request.problem("target", target, operation=operation)
        assert ("compute" in problem) is wrong
        assert len(f"! Target: {problem}") <= ROOM


def test_facts_of_the_request_form() -> None:
    for name, value, fact in (
        ("requestTags", "", ...),
        ("requestTags", "none", {}),
        ("requestTags", "a=b=c, d=", {"a": "b=c", "d": ""}),
        ("currentTime", "", ...),
        ("currentTime", "unknown", None),
    ):
        assert request.parse_values({name: value}).facts.get(name, ...) == fact
    facts = {"region": "se-sto-1", "resourceTags": {}, "requestTags": {"env": "dev"}, "sourceIp": "203.0.113.7"}
    values = request.field_values("compute:instances:read", "*", RequestFacts.model_validate(facts))
    assert request.parse_values(values).facts == {**facts, "currentTime": None}


ROOM = 51
"""Cells of the form's last line beside the text."""


@pytest.mark.parametrize("field", request.FIELDS, ids=lambda field: field.name)
def test_the_words_of_a_field_fit_its_line(field: request.Field) -> None:
    value = "none" if field.name.endswith("Tags") else "x"
    state = f"{request.state(field.name, value)} · {field.takes}"
    invalid = ("X X", "a:b:c", "frn:a:b:c:d", "a:b:*")
    problems = [request.problem(field.name, value, frozenset(NAMES)) for value in invalid]
    assert any(problems)
    assert max(map(len, (state, *(f"! {field.label}: {problem}" for problem in problems)))) <= ROOM


# The difference


def painted(before: str, after: str, gained: Sequence[str] = (), cells: int = 60) -> list[str]:
    """The lines of a difference as they are painted."""
    effect = TargetCoverage(gained=tuple(gained), lost=())
    return [line.plain for part in difference_lines(before, after, effect, 8) for line in review.folded(part, cells)]


def test_differences_of_a_new_and_of_a_long_document() -> None:
    lines = painted("", "{\n}\n", ["compute:images:read"])
    assert lines[:3] == ["Effect on *", "  +1 gained", "  + compute:images:read"]
    assert lines[-2:] == ["  + {", "  + }"]
    text = json.dumps(json.loads(document(*[rule("compute:images:read", name=f"rule {at}") for at in range(9)])))
    lines = painted("{}", text)
    assert max(map(len, lines)) <= 60
    assert text in "".join(line[4:] for line in lines)


# Narrowing


def named(text: str) -> list[set[str]]:
    """The catalogue operations that each rule of a document names."""
    return [
        {name for name in NAMES if any(matches(pattern, name) for pattern in one["operations"])}
        for one in json.loads(text)["rules"]
    ]


DELETE = "compute:instances:delete"


def fixes(text: str, operation: str = DELETE, index: int = 0, **held: list[Grant]) -> list[Fix]:
    """The fixes of a document for a counterexample; `held` are the permissions of the author."""
    example = Counterexample(operation=operation, rule_index=index)
    return list(counterexample_fixes.candidate_fixes(text, example, NAMES, held))


def rules_of(text: str) -> list[dict[str, Any]]:
    return list(json.loads(text)["rules"])


def compute(constraint: dict[str, Any]) -> dict[str, list[Grant]]:
    """Permission for all of compute under a constraint."""
    grant = Grant.model_validate({"targets": ["*"], "constraints": [constraint]})
    return {name: [grant] for name in NAMES if name.startswith("compute:")}


@pytest.mark.parametrize("pattern", ["*", "compute:*", "compute:instances:*", "*:*:delete", "*:instances:*"])
def test_one_operation_is_taken_out_of_a_pattern(pattern: str) -> None:
    before = {name for name in NAMES if matches(pattern, name)}
    patterns = counterexample_fixes.patterns_without(pattern, DELETE, NAMES)
    assert {name for name in NAMES if any(matches(one, name) for one in patterns)} == before - {DELETE}


def test_the_smallest_fix_keeps_the_rest_and_the_last_rule() -> None:
    untouched = rule("storage:*", name="as  typed")
    fix = fixes(document(rule("compute:*", name="wide"), untouched))[0]
    assert untouched in fix.text
    assert named(fix.text)[0] == {name for name in NAMES if name.startswith("compute:")} - {DELETE}
    text = document(rule("compute:images:read"), rule(DELETE))
    assert len(rules_of(fixes(text, index=1)[0].text)) == 1
    assert named(fixes(text, "compute:images:read")[0].text) == [{DELETE}]
    assert not fixes(document(rule("compute:images:read")), "compute:images:read")


def test_a_fix_keeps_what_the_author_has() -> None:
    held = {name: [Grant()] for name in NAMES if name.startswith("compute:images:") or name.endswith(":read")}
    (kept,) = rules_of(fixes(document(rule("*")), **held)[-1].text)
    assert kept["operations"] == ["compute:images:*", "compute:instances:read", "storage:buckets:read"]
    held = compute({"operator": "equals", "key": "frn:region", "values": ["se-sto-1"]})
    in_region = {"equals": {"frn:region": "se-sto-1"}}
    (limited,) = rules_of(fixes(document(rule("compute:*")), **held)[0].text)
    assert (limited["constraints"], limited["operations"]) == (in_region, ["compute:*"])
    split = fixes(document(rule("*")), **held)[0]
    assert named(split.text)[0] == set(NAMES) - {DELETE}
    second = rules_of(split.text)[1]
    assert (second["operations"], second["constraints"]) == ([DELETE], in_region)


OFFICE = ', "constraints": {"ipInRange": {"frn:sourceIp": ["192.0.2.0/25", "203.0.113.0/24"]}}'


def test_a_fix_limits_networks_to_those_of_the_author() -> None:
    def held(*networks: str) -> dict[str, list[Grant]]:
        return compute({"operator": "ipInRange", "key": "frn:sourceIp", "values": list(networks)})

    text = document(rule("compute:*", more=OFFICE))
    (limited,) = rules_of(fixes(text, **held("198.51.100.0/24", "192.0.2.0/24", "203.0.113.0/28"))[0].text)
    assert limited["constraints"] == {"ipInRange": {"frn:sourceIp": ["192.0.2.0/25", "203.0.113.0/28"]}}
    elsewhere = fixes(text, **held("198.51.100.0/24", "2001:db8::/32"))
    assert not [fix for fix in elsewhere if "only where" in fix.title]


# Drafts and the editor outside


def test_a_draft_is_private_and_comes_back_as_it_was(tmp_path: Path) -> None:
    def path_of(tenant: str, user: str) -> Path:
        return drafts.path_of({"HOME": str(tmp_path)}, "unix:/x", tenant, "policy", user)

    path, values = path_of("tenant", "ada@example.org"), {"operation": "a:b:c"}
    draft = drafts.Draft('{"é": "\u202e', "name", "d", 3, "2026-01-01T00:00:00+00:00", 4, 2, values, "key")
    assert drafts.keep(path, draft) == ""
    assert drafts.load(path) == draft
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert path not in (path_of("other", "ada@example.org"), path_of("tenant", "bob@example.org"))
    drafts.drop(path)
    assert drafts.load(path) is None


async def test_a_draft_of_an_earlier_release_remains_if_it_cannot_be_written(tmp_path: Path) -> None:
    earlier, folder = tmp_path / "earlier.json", tmp_path / "drafts"
    folder.write_text("no folder")
    drafts.keep(earlier, drafts.Draft("typed", who="ada"))
    store = Store(lambda _, user: folder / "draft.json" if user else earlier, "ada", lambda: True)
    autosave = DraftAutosave(Document.of(None, "", "{}"), store, lambda: View(0, 0, {}))
    draft = await autosave.load()
    assert draft is not None
    assert draft.text == "typed"
    assert drafts.load(earlier) == draft
    folder.unlink()
    assert await autosave.load() == draft
    assert drafts.load(autosave.path) == draft
    assert not earlier.exists()


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


def test_the_reason_for_no_decision_follows_the_request() -> None:
    asked = Evaluation(request=Request("dns:zones:read", "*", {}))
    assert asked.undecided_text == "Waiting for the decision …"
    assert Evaluation().undecided_text == "Not evaluated: enter an operation in the request."
    assert asked.with_request_problem("the request is not valid").undecided_text == (
        "Not evaluated: the request is not valid."
    )


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("unknown_context", "frn:region is unknown; nearest is rule 1: its targets may or may not match"),
        ("no_match", "no rule matches; nearest is rule 1: its targets do not match"),
    ],
)
def test_an_undecided_part_is_not_called_a_mismatch(reason: str, text: str) -> None:
    verdict = Simulation.model_validate(
        {
            "decision": "denied",
            "reason": reason,
            "nearestRule": {"index": 0, "failed": "targets"},
            "rules": [],
            "missing": [{"key": "frn:region"}],
        }
    )
    assert verdict_reason(verdict) == text

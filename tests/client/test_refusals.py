"""Messages of refusals, previews and differences between two policy documents."""

import pytest

from client.commands.output import Output
from client.errors import FrostError
from client.texts.effects import changes, effect_lines
from client.texts.refusals import beyond_lines, facts_text, locate_problems, problem_lines, problem_text, stale_lines

EVIL = "\x1b]0;pwned\x07\u202e\n"
PROBLEM = {"path": "$.rules[0]", "line": 4, "column": 2, "reason": "wrong", "suggestions": ["a", "b"]}


def refused(code: str, **details: object) -> FrostError:
    return FrostError("refused", code=code, details=details)


def test_one_problem_is_the_message_and_several_are_lines() -> None:
    one = refused("INVALID_POLICY_DOCUMENT", problems=[PROBLEM])
    locate_problems(one, "p.json")
    assert one.message == "p.json:4:2: wrong; did you mean a or b? ($.rules[0])"
    assert list(problem_lines(one)) == []
    both = refused("INVALID_POLICY_DOCUMENT", problems=[PROBLEM, {**PROBLEM, "path": "$", "suggestions": []}])
    locate_problems(both, "p.json")
    assert "2 problems" in both.message
    assert list(problem_lines(both)) == [
        "  p.json:4:2: wrong; did you mean a or b? ($.rules[0])",
        "  p.json:4:2: wrong",
    ]
    assert both.document()["error"]["details"]["source"] == "p.json"
    # The platform stops after 20 problems.
    for number, words in ((19, "has 19 problems"), (20, "has at least 20 problems")):
        many = refused("INVALID_POLICY_DOCUMENT", problems=[PROBLEM] * number)
        locate_problems(many, "p.json")
        assert words in many.message


def test_problems_without_a_shape_are_left_as_they_came() -> None:
    for details in ({}, {"problems": "x"}, {"problems": [1]}):
        error = refused("INVALID_POLICY_DOCUMENT", **details)
        locate_problems(error, "p.json")
        assert error.message == "refused"
        assert list(problem_lines(error)) == []


def test_facts_read_as_words() -> None:
    tags: dict[str, object] = {"resourceTags": {"env": "prod", "a": "b"}, "requestTags": {}}
    text = "source ip 192.0.2.7, resource tags env=prod a=b, no request tags, region unknown, new 1"
    assert facts_text({"sourceIp": "192.0.2.7", **tags, "region": None, "new": 1}) == text


def test_a_counterexample_names_operation_target_facts_and_reason() -> None:
    principal, reason = {"type": "api_key", "id": "k"}, "you do not have this permission"
    example = {"operation": "a:b:delete", "target": "*", "facts": {"region": "x"}, "ruleIndex": 0, "ruleName": "all"}
    for key, more, name, cause in (
        (principal, {"why": reason}, "k", "rule 1 (all)"),
        ({**principal, "name": "terraform"}, {"why": reason, "role": "owner"}, "terraform", "role owner"),
    ):
        error = refused("PRINCIPAL_EXCEEDS_AUTHOR", principals=[key], counterexamples=[example | more])
        assert list(beyond_lines(error)) == [
            f"  affected: api_key {name}",
            "  a:b:delete on *",
            "    with region x",
            f"    {cause} allows it; {reason}",
        ]


def test_a_stale_write_names_the_changes() -> None:
    change = {"version": 4, "changedByName": "Jonas", "changedAt": "2026-01-02T03:04:05Z", "changed": ["document"]}
    assert list(stale_lines(refused("STALE_VERSION", versions=[change]))) == [
        "  version 4, 2026-01-02 03:04Z, by Jonas: document"
    ]
    group = {"name": "ops", "updatedAt": "2026-01-02T03:04:05Z"}
    assert list(stale_lines(refused("STALE_VERSION", resource=group))) == [
        "  changed 2026-01-02 03:04Z; its name is ops now"
    ]
    assert list(stale_lines(refused("STALE_VERSION"))) == []


def test_keys_of_one_name_have_the_start_of_their_id_in_an_effect() -> None:
    changes = [
        {"type": "api_key", "id": f"{number}f3a9c1d-0000", "name": "deploy", "lostCount": 1, "lost": ["a:b:c"]}
        for number in (1, 2)
    ]
    assert list(effect_lines(changes))[::2] == ["  api_key deploy (1f3a9c1d)", "  api_key deploy (2f3a9c1d)"]
    assert next(iter(effect_lines(changes[:1]))) == "  api_key deploy"


def test_an_effect_names_the_one_it_befalls_and_what_matters_first() -> None:
    silent = {"type": "workload_identity", "name": "shop/x", "inert": True, "policiesBefore": 1, "policiesAfter": 0}
    key = {"type": "api_key", "id": "k", "policiesBefore": 2, "policiesAfter": 0, "gainedCount": 3, "gained": ["a:b:c"]}
    assert list(effect_lines([{**silent, "lostCount": 1, "lost": ["a:b:c"]}, key])) == [
        "  workload_identity shop/x",
        "    loses its last permission; its next request is denied",
        "    -1 lost: a:b:c",
        "  api_key k",
        "    last policy removed, so limited only by scopes and the creator's permissions",
        "    +3 gained: a:b:c and 2 more",
    ]


def test_conditional_effects_are_listed() -> None:
    for member, text in (
        ("narrowed", "1 more conditions"),
        ("widened", "1 fewer conditions"),
        ("conditionsChanged", "1 changed conditions"),
        ("conditionalGained", "1 new, conditional"),
        ("conditionalLost", "1 lost, was conditional"),
    ):
        effect = {"type": "api_key", "id": "k", f"{member}Count": 1, member: ["a:b:c"]}
        assert list(effect_lines([effect]))[1:] == [f"    ~{text}: a:b:c"]


@pytest.mark.parametrize("code", ["INVALID_POLICY_DOCUMENT", "POLICY_EXCEEDS_AUTHOR", "STALE_VERSION"])
def test_nothing_that_was_sent_acts_on_the_terminal(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    details = {
        "problems": [{"path": EVIL, "line": EVIL, "column": EVIL, "reason": EVIL, "suggestions": [EVIL]}] * 2,
        "counterexamples": [
            {"operation": EVIL, "target": EVIL, "facts": {EVIL: {EVIL: EVIL}}, "ruleName": EVIL, "why": EVIL}
        ],
        "principals": [{"type": EVIL, "id": EVIL}],
        "versions": [{"version": EVIL, "changedBy": EVIL, "changedAt": EVIL, "changed": [EVIL]}],
    }
    error = refused(code, **details)
    locate_problems(error, f"{EVIL}.json")
    Output().error(error)
    effect = {"type": EVIL, "name": EVIL, "lostCount": 2, "lost": [EVIL]}
    for line in effect_lines([effect]):
        Output().more(line)
    Output().warn(problem_text(EVIL, PROBLEM))
    shown = capsys.readouterr().err
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)
    assert "pwned" in shown


def test_conditional_changes_are_listed_apart_and_counted() -> None:
    result = changes(
        {
            **{"gained": ["a:b:c", "a:b:d"], "nowUnconditional": ["a:b:d"]},
            **{"lost": ["a:b:e", "a:b:f"], "nowConditional": ["a:b:e"]},
            **{"conditionalGained": ["a:b:g"], "conditionalLost": ["a:b:h"], "conditionsChanged": ["a:b:i"]},
        }
    )
    assert result.gained == {"a:b:c": "", "a:b:d": "was conditional"}
    assert result.lost == {"a:b:e": "now conditional", "a:b:f": ""}
    conditional = {"a:b:i": "changed conditions", "a:b:g": "new, conditional", "a:b:h": "lost, was conditional"}
    assert result.under == conditional
    assert result.conditional == "3 conditional changes"
    assert changes({"conditionalGained": ["a:b:g", "a:b:h"]}).conditional == "2 new conditional"
    assert changes({"conditionalLost": ["a:b:h"]}).conditional == "1 conditional lost"
    assert changes({"conditionsChanged": ["a:b:h"]}).conditional == "1 conditional change"
    assert changes({"gained": ["a:b:h"]}).conditional == changes({}).conditional == ""
    assert changes({"gained": [], "lost": []}) == ({}, {}, {})

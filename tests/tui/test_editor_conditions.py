"""Conditional operations in the policy editor."""

from typing import Any

from client.errors import Exit, FrostError
from client.models.analysis import AuthorCheck, CoverageMap, ErrorDetails
from tests.tui.editing import Edit, document, rule
from tui.iam.editor import panel, request
from tui.iam.editor.bars import Verdict
from tui.iam.editor.evaluation import Evaluation

OFFICE = ', "constraints": {"ipInRange": {"frn:sourceIp": ["192.0.2.0/24"]}}'


def mapped(**target: Any) -> Evaluation:
    """An evaluation with one map of 528 operations."""
    return Evaluation(coverage=CoverageMap.model_validate({"total": 528, "targets": [{"target": "*", **target}]}))


def names(service: str, count: int, start: int = 0) -> list[str]:
    return [f"{service}:things:do-{number}" for number in range(start, start + count)]


def head(evaluation: Evaluation, cells: int) -> str:
    verdict = Verdict()
    verdict.set_reactive(Verdict.evaluation, evaluation)
    verdict.set_reactive(Verdict.compared_version, 4)
    return verdict.change(cells).plain


def test_the_head_line_counts_conditional_operations() -> None:
    same = {"effective": 0, "conditional": 60, "gained": [], "lost": []}
    changed = {"effective": 12, "gained": [], "lost": [], "conditionsChanged": names("dns", 2)}
    for target, line in (
        ({"effective": 12}, "allows 12 of 528 operations"),
        ({"effective": 12, "conditional": 60}, "allows 12 of 528 operations, 60 under conditions"),
        (same, "allows 0 of 528 operations, 60 under conditions · same as v4"),
        (changed, "allows 12 of 528 operations · 2 conditional changes since v4"),
    ):
        assert head(mapped(**target), 90) == line
    gained = mapped(effective=12, gained=names("dns", 3), lost=[], conditionalLost=names("dns", 1, 3))
    assert "+3" in head(gained, 90)
    for count in (1, 264):
        sides = {"gained": names("dns", count), "lost": names("iam", count), "conditionsChanged": names("cdn", count)}
        narrow = head(mapped(effective=count, conditional=count, **sides), 50)
        assert f"+{count} −{count} · {count} conditional change{'s' if count > 1 else ''}" in narrow
        assert len(narrow) <= 50


def service(name: str, total: int, effective: int, conditional: int, denied: int) -> dict[str, Any]:
    numbers = {"effective": effective, "conditional": conditional, "denied": denied}
    return {"service": name, "total": total, **numbers}


def test_the_coverage_has_a_sign_for_each_change() -> None:
    services = [service("organizations", 60, 12, 40, 8), service("dns", 12, 0, 12, 0), service("cdn", 6, 0, 0, 6)]
    evaluation = mapped(
        services=services,
        gained=names("organizations", 10),
        lost=names("organizations", 11, 10),
        conditionsChanged=names("dns", 2),
        conditionalGained=names("dns", 3, 2),
    )
    contents = [
        one.content() if callable(one.content) else one.content for one in panel.lines("coverage", evaluation, 76)
    ]
    assert all(content.cell_length <= 76 for content in contents)
    lines = [content.plain for content in contents]
    assert "━ in effect, ╍ ? under conditions, + gained, − lost, ~ conditional changes since" in " ".join(lines)
    organizations, dns = (next(line for line in lines if line.startswith(name)) for name in ("organizations", "dns"))
    assert organizations.endswith("12 of 60   ?40  +10  −11  8 denied")
    assert dns.endswith("0 of 12   ?12  ~5")
    assert ("━" in organizations, "╍" in organizations, "━" in dns, "╍" in dns) == (True, True, False, True)
    assert lines[-1] == "1 other services: none"


async def test_changes_do_not_depend_on_the_request_and_missing_facts_name_their_field(edit: Edit) -> None:
    it = await edit()
    await it.expect("same as v3")
    await it.ask(sourceIp="203.0.113.7")
    more = rule("compute:instances:delete dns:zones:read", name="office", more=OFFICE)
    at = it.text.rindex("\n  ]")
    await it.evaluate(f"{it.text[:at]},\n    {more}{it.text[at:]}", shows="conditional changes since v3")
    await it.gone("same as v3")
    it.editor.go("coverage")
    await it.expect("On any target, for any request", "~")
    await it.write(document(rule("dns:*", more=OFFICE)))
    await it.ask(operation="dns:zones:read", sourceIp="")
    it.editor.go("rules")
    await it.expect("These could change the decision:", "frn:sourceIp  (Address)")
    await it.gone("--source-ip")


def test_every_key_that_a_request_gives_has_its_field() -> None:
    keys = {"frn:currentTime": "Time", "frn:resourceTag/env": "Resource tags", "frn:requestTag/a": "Request tags"}
    assert {key: request.field_of(key).label for key in keys} == keys
    assert request.field_of("frn:tenant") is None


def test_a_refused_document_is_invalid_also_without_readable_details() -> None:
    refused = FrostError("rule 2 is invalid", code="INVALID_POLICY_DOCUMENT", exit_code=Exit.USAGE, status=422)
    evaluation = mapped().with_result(refused)
    assert [problem.reason for problem in evaluation.problems] == ["rule 2 is invalid"]
    checked = mapped().with_result(AuthorCheck(answer="within", counterexamples=()))
    assert checked.with_refusal(ErrorDetails()).check == checked.check

"""Conditional operations in the policy editor."""

from typing import Any

import pytest

from tests.homes import Home
from tests.tui.editing import Edit, document, rule
from tui.iam.editor import panel, request
from tui.iam.editor.bars import Verdict
from tui.iam.editor.evaluation import Evaluation

OFFICE = ', "constraints": {"ipInRange": {"frn:sourceIp": ["192.0.2.0/24"]}}'
NARROWER = OFFICE.replace("/24", "/25")


def mapped(**target: Any) -> Evaluation:
    """An evaluation with one map of 528 operations."""
    return Evaluation(coverage={"total": 528, "targets": [{"target": "*", **target}]})


def names(service: str, count: int, start: int = 0) -> list[str]:
    return [f"{service}:things:do-{number}" for number in range(start, start + count)]


def head(evaluation: Evaluation, cells: int) -> str:
    verdict = Verdict()
    verdict.set_reactive(Verdict.evaluation, evaluation)
    verdict.set_reactive(Verdict.compared_version, 4)
    return verdict.change(cells).plain


def test_the_head_line_counts_conditional_operations() -> None:
    assert head(mapped(effective=12), 80) == "gives 12 of 528 operations"
    assert head(mapped(effective=12, conditional=60), 80) == "gives 12 of 528 operations, 60 under conditions"
    same = mapped(effective=0, conditional=60, gained=[], lost=[])
    assert head(same, 80) == "allows 0 of 528 operations, 60 under conditions · same as v4"
    changed = mapped(effective=12, gained=[], lost=[], conditionsChanged=names("dns", 2))
    assert head(changed, 90) == "allows 12 of 528 operations · 2 conditional changes since v4"
    assert "+3" in head(mapped(effective=12, gained=names("dns", 3), lost=[], conditionalLost=names("dns", 1, 3)), 90)


@pytest.mark.parametrize("count", [1, 264])
def test_a_narrow_head_line_keeps_the_changes(count: int) -> None:
    changed = mapped(
        effective=count,
        conditional=count,
        gained=names("dns", count),
        lost=names("iam", count),
        conditionsChanged=names("cdn", count),
    )
    said = head(changed, 50)
    assert f"+{count} −{count} · {count} conditional changes" in said
    assert len(said) <= 50


def test_the_coverage_has_a_sign_for_each_change() -> None:
    found = mapped(
        services=[
            {"service": "organizations", "total": 60, "effective": 12, "conditional": 40, "denied": 8},
            {"service": "dns", "total": 12, "effective": 0, "conditional": 12, "denied": 0},
            {"service": "cdn", "total": 6, "effective": 0, "conditional": 0, "denied": 6},
        ],
        gained=names("organizations", 10),
        lost=names("organizations", 11, 10),
        conditionsChanged=names("dns", 2),
        conditionalGained=names("dns", 3, 2),
    )
    contents = [
        line.content() if callable(line.content) else line.content for line in panel.lines("coverage", found, 76)
    ]
    assert all(content.cell_length <= 76 for content in contents)
    said = [content.plain for content in contents]
    assert "━ in effect, ╍ ? under conditions, + gained, − lost, ~ conditional changes since" in " ".join(said)
    organizations, dns = (next(line for line in said if line.startswith(name)) for name in ("organizations", "dns"))
    assert organizations.endswith("12 of 60   ?40  +10  −11  8 denied")
    assert dns.endswith("0 of 12   ?12  ~5")
    assert ("━" in organizations, "╍" in organizations) == (True, True)
    assert ("━" in dns, "╍" in dns) == (False, True)
    assert said[-1] == "1 other services: none"


async def test_changes_do_not_depend_on_the_request(demo: Home, edit: Edit) -> None:
    it = await edit()
    await it.expect("the same as v3")
    await it.ask(sourceIp="203.0.113.7")
    more = rule("compute:instances:delete dns:zones:read", name="office", more=OFFICE)
    at = it.text.rindex("\n  ]")
    await it.evaluate(f"{it.text[:at]},\n    {more}{it.text[at:]}", shows="under conditions changed against v3")
    await it.ui.gone("the same as v3")
    it.editor.go("coverage")
    await it.expect("On any target, for any request", "~")


async def test_facts_that_could_change_the_decision_name_their_field(edit: Edit) -> None:
    it = await edit(policy=None, text=document(rule("dns:*", more=OFFICE)))
    await it.expect("These could change the decision:", "frn:sourceIp  (Address)")
    await it.ui.gone("--source-ip")


@pytest.mark.parametrize(
    ("key", "label"),
    [("frn:currentTime", "Time"), ("frn:resourceTag/env", "Resource tags"), ("frn:requestTag/a", "Request tags")],
)
def test_every_key_that_a_request_gives_has_its_field(key: str, label: str) -> None:
    field = request.field_of(key)
    assert field.label == label
    assert request.field_of("frn:tenant") is None

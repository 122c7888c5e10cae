"""What a draft gives under conditions only is seen while it is written, in a count and a sign of its own."""

from typing import Any

import pytest

from tests.homes import Home
from tests.tui.editing import document, editing, rule
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


def test_the_head_line_tells_what_is_under_conditions_and_nothing_of_what_is_zero() -> None:
    assert head(mapped(effective=12), 80) == "gives 12 of 528 operations"
    assert head(mapped(effective=12, conditional=60), 80) == "gives 12 of 528 operations, 60 under conditions"
    same = mapped(effective=0, conditional=60, gained=[], lost=[])
    assert head(same, 80) == "gives 0 of 528 operations, 60 under conditions · the same as v4"
    changed = mapped(effective=12, gained=[], lost=[], conditionsChanged=names("dns", 2))
    assert head(changed, 90) == "gives 12 of 528 operations · 2 under conditions changed against v4"
    assert "+3" in head(mapped(effective=12, gained=names("dns", 3), lost=[], conditionalLost=names("dns", 1, 3)), 90)


@pytest.mark.parametrize("count", [1, 264])
def test_in_a_narrow_head_line_what_changes_stays(count: int) -> None:
    changed = mapped(
        effective=count,
        conditional=count,
        gained=names("dns", count),
        lost=names("iam", count),
        conditionsChanged=names("cdn", count),
    )
    said = head(changed, 50)
    assert f"+{count} −{count} · {count} under conditions changed" in said
    assert len(said) <= 50


def test_the_coverage_of_a_service_has_a_sign_for_each_way_it_changes_and_fits() -> None:
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
    assert "━ in effect, ╍ ? under conditions, + gained, − lost, ~ under conditions changed against" in " ".join(said)
    organizations, dns = (next(line for line in said if line.startswith(name)) for name in ("organizations", "dns"))
    assert organizations.endswith("12 of 60   ?40  +10  −11  8 denied")
    assert dns.endswith("0 of 12   ?12  ~5")
    assert ("━" in organizations, "╍" in organizations) == (True, True)
    assert ("━" in dns, "╍" in dns) == (False, True)
    assert said[-1] == "1 other services: nothing"


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_another_address_range_is_a_change_in_the_panel(
    demo: Home, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    first = document(rule("dns:*", more=OFFICE))
    async with editing(demo, monkeypatch, policy=None, text=first, size=size) as it:
        await it.press("ctrl+s")
        await it.expect("Save a new policy")
        await it.ui.type("zones")
        await it.press("enter")
        await it.expect("version 1")
        await it.answered()
        await it.write(document(rule("dns:*", more=NARROWER)))
        await it.answered()
        it.editor.go("coverage")
        await it.expect("? under conditions", "?12  ~12")
        if size[0] > 80:
            await it.expect("12 under conditions changed against v1")
            await it.ui.gone("the same as")
        it.editor.perform("editor.changes")
        await it.expect("~ dns:", "other conditions")


async def test_a_request_that_no_condition_meets_hides_nothing_of_what_the_draft_changes(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with editing(demo, monkeypatch) as it:
        await it.expect("the same as v3")
        await it.ask(sourceIp="203.0.113.7")
        more = rule("compute:instances:delete dns:zones:read", name="office", more=OFFICE)
        at = it.text.rindex("\n  ]")
        await it.write(f"{it.text[:at]},\n    {more}{it.text[at:]}")
        await it.answered()
        await it.expect("under conditions changed against v3")
        await it.ui.gone("the same as v3")
        it.editor.go("coverage")
        await it.expect("On any target, for any request", "~")


async def test_what_could_turn_the_verdict_is_named_as_the_field_it_is_given_in(
    shared: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with editing(shared, monkeypatch, policy=None, text=document(rule("dns:*", more=OFFICE))) as it:
        await it.expect("These could change the decision:", "frn:sourceIp  (Address)")
        await it.ui.gone("--source-ip")


@pytest.mark.parametrize(
    ("key", "label"),
    [("frn:currentTime", "Time"), ("frn:resourceTag/env", "Resource tags"), ("frn:requestTag/a", "Request tags")],
)
def test_every_key_that_a_request_gives_has_its_field(key: str, label: str) -> None:
    field = request.field_of(key)
    assert field is not None
    assert field.label == label
    assert request.field_of("frn:tenant") is None

"""Quota plans, compared with a unit by unit search."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.quota_rules import AT_ONCE, FITS, REVIEW, SUPPORT, UNKNOWN, what_if

SMALL = st.integers(0, 30)
QUOTA = st.fixed_dictionaries(
    {"used": st.none() | SMALL, "limit": SMALL, "unit": st.just("count")},
    optional={"requestable": st.integers(0, 60)},
)
QUOTAS = st.dictionaries(st.sampled_from(["vcpu", "ram", "volume", "image"]), QUOTA, min_size=1).map(
    lambda result: [{"resourceType": name, **quota} for name, quota in result.items()]
)


@st.composite
def plans(draw: st.DrawFn) -> tuple[list[dict[str, Any]], dict[str, int]]:
    quotas = draw(QUOTAS)
    names = draw(st.lists(st.sampled_from([one["resourceType"] for one in quotas]), unique=True, min_size=1))
    return quotas, {name: draw(SMALL) for name in names}


def fits(quotas: list[dict[str, Any]], wanted: dict[str, int], times: int) -> bool:
    """Whether so many of it fit, as far as uses are known."""
    return all(
        one["used"] is None or not wanted.get(one["resourceType"])
        or one["used"] + times * wanted[one["resourceType"]] <= one["limit"]
        for one in quotas
    )  # fmt: skip


@given(plans())
def test_a_plan_fits_as_often_as_it_can_be_carried_out(plan: tuple[list[dict[str, Any]], dict[str, int]]) -> None:
    quotas, wanted = plan
    result = what_if(quotas, wanted)
    if result.times is None:
        assert result.first is None
        assert all(need.used is None or not need.addition for need in result.needs)
        return
    assert result.times == 0 or fits(quotas, wanted, result.times)
    assert not fits(quotas, wanted, result.times + 1)
    # The first to break is broken by the first plan too many, or stands nearest to that.
    by_type = {one["resourceType"]: one for one in quotas}
    first = by_type[str(result.first)]
    assert first["used"] + (result.times + 1) * wanted[first["resourceType"]] > first["limit"]


@given(plans())
def test_no_other_limit_breaks_at_a_smaller_part_of_the_plan(plan: tuple[list[dict[str, Any]], dict[str, int]]) -> None:
    quotas, wanted = plan
    result = what_if(quotas, wanted)
    parts = {
        one["resourceType"]: (one["limit"] - one["used"]) / wanted[one["resourceType"]]
        for one in quotas
        if wanted.get(one["resourceType"]) and one["used"] is not None
    }
    if parts:
        assert parts[str(result.first)] == min(parts.values())


@given(plans())
def test_every_need_is_answered_from_its_quota(
    plan: tuple[list[dict[str, Any]], dict[str, int]],
) -> None:
    quotas, wanted = plan
    by_type = {one["resourceType"]: one for one in quotas}
    result = what_if(quotas, wanted)
    for need in result.needs:
        quota, bound = by_type[need.resource_type], by_type[need.resource_type].get("requestable")
        known = need.used is not None
        assert need.after == (quota["used"] + need.addition if known else None)
        assert need.short == (max(need.after - need.limit, 0) if known and need.after is not None else None)
        least = need.after if need.after is not None else need.addition
        over = bool(need.addition) and least > quota["limit"]
        if not over:
            assert need.answer == (FITS if known or not need.addition else UNKNOWN)
        else:
            assert need.answer == (SUPPORT if bound is None else AT_ONCE if least <= bound else REVIEW)
    answers = {need.answer for need in result.needs}
    assert result.fits is (False if answers - {FITS, UNKNOWN} else None if UNKNOWN in answers else True)


def test_a_type_without_a_quota_cannot_be_planned() -> None:
    with pytest.raises(KeyError):
        what_if([], {"vcpu": 1})

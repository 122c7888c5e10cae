"""Quotas as bars, figures, requests and plans."""

from typing import Any

import pytest

from client import quota_rules
from client.quota_rules import (
    AT_ONCE,
    DENIED,
    LARGEST,
    LOWER,
    PENDING,
    REVIEW,
    SAME,
    SUPPORT,
    WAITS,
    foreseen,
    foreseen_of_organization,
    needed_of_organization,
    normalize_reason,
    whole_number,
)
from tui.quotas import bars, detail, table
from tui.quotas.what_if import InvalidPlan, parse_plan, verdict

OWN, OTHER, THIRD = "t-1", "t-2", "t-3"


def quota(**members: Any) -> dict[str, Any]:
    made = {"resourceType": "vcpu", "title": "vCPUs", "used": 4, "creating": 0, "limit": 20, "unit": "count"}
    return {**made, "requestable": 40, **members}


def shared(**members: Any) -> dict[str, Any]:
    tenants = [
        {"tenantId": OTHER, "displayName": "Staging", "limit": 20, "used": 3},
        {"tenantId": OWN, "displayName": "Web Shop", "limit": 60, "used": 51},
        {"tenantId": THIRD, "displayName": None, "limit": 40, "used": None},
    ]
    made = {"resourceType": "vcpu", "used": 60, "limit": 240, "unit": "count", "allocated": 120, "tenants": tenants}
    return {**made, **members}


def drawn(one: dict[str, Any]) -> str:
    return "".join(piece.text for piece in bars.bar(one, 8))


def stacked(one: dict[str, Any], cells: int = 12) -> str:
    return "".join(piece.text for piece in bars.stack(one, OWN, cells))


@pytest.mark.parametrize(
    ("members", "line"),
    [
        ({"used": 0}, "········┃─  "),
        ({"used": 1, "limit": 1000, "requestable": 1000}, "╸·······┃   "),
        ({"used": 10}, "━━━━····┃─  "),
        ({"used": 999, "limit": 1000, "requestable": 1500}, "━━━━━━━╸┃╴  "),
        ({"used": 20}, "━━━━━━━━┃─  "),
        ({"used": 30}, "━━━━━━━━┃╸  "),
        ({"used": 30, "requestable": 60}, "━━━━━━━━┃╸─ "),
        ({"used": 200}, "━━━━━━━━┃━━›"),
        ({"requestable": 200}, "━╸······┃──›"),
        ({"requestable": None}, "━╸······┃   "),
        ({"used": None}, "╱╱╱╱╱╱╱╱┃─  "),
        ({"used": 0, "limit": 0}, "no allowance"),
        ({"used": 3, "limit": 0}, "no allowance"),
    ],
)
def test_a_bar_shows_use_limit_and_bound(members: dict[str, Any], line: str) -> None:
    assert drawn(quota(**members)) == line
    assert len(line) == 8 + 1 + bars.PAST


@pytest.mark.parametrize(
    ("used", "limit", "text", "tone"),
    [
        (0, 20, "0%", None),
        (15, 20, "75%", None),
        (16, 20, "80%", "warning"),
        (1999, 2000, "99%", "warning"),
        (20, 20, "100%", "bad"),
        (2001, 2000, "101%", "bad"),
        (29, 100, "29%", None),
        (10**9, 1, "999%", "bad"),
        (1, 0, "999%", "bad"),
        (0, 0, "—", None),
        (None, 20, "—", None),
    ],
)
def test_a_share_is_100_only_when_it_is_all(used: int | None, limit: int, text: str, tone: str | None) -> None:
    one = quota(used=used, limit=limit)
    assert (bars.share_text(one), bars.tone(one)) == (text, tone)


def test_the_share_column_has_a_sign_and_an_order() -> None:
    shown = table.RowLayout(lambda: 61)
    columns = {column.key: column for column in table.columns(shown)}
    assert columns["share"].text(quota(used=25)).startswith("125% ! ")
    assert columns["share"].text(quota(used=20)).startswith("100%   ")
    assert columns["share"].sort_value(quota(used=None)) is None
    assert columns["share"].sort_value(quota(used=1, limit=0)) > columns["share"].sort_value(quota(used=99))


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({}, "4 of 20"),
        ({"used": 65536, "limit": 131072, "unit": "mb"}, "64 of 128 GB"),
        ({"used": 512, "limit": 1536, "unit": "mb"}, "0.5 of 1.5 GB"),
        ({"used": 1000, "limit": 1600, "unit": "mb"}, "1.0 of 1.6 GB"),
        ({"used": 7, "limit": 500, "unit": "gb"}, "7 of 500 GB"),
        ({"used": None, "limit": 500, "unit": "gb"}, "— of 500 GB"),
        ({"used": 3, "limit": 9, "unit": "shards"}, "3 shards of 9 shards"),
    ],
)
def test_figures_have_readable_units(members: dict[str, Any], text: str) -> None:
    assert table.figures_text(quota(**members)) == text


def test_unknown_types_and_foreign_tenants_are_named() -> None:
    assert table.name_text({"resourceType": "warp_core", "limit": 1}) == "warp_core"
    assert table.name_text({"resourceType": "warp_core", "title": "Warp cores", "limit": 1}) == "Warp cores"
    told = dict(detail.of_organization(shared(), OWN, ()))["Allocated to 3 tenants"]
    assert told == [("►", "Web Shop  60, 51 in use"), ("b", "not yours to enter  40"), ("a", "Staging  20, 3 in use")]


def test_the_limit_of_an_organization_is_stacked_by_tenant() -> None:
    assert stacked(shared()) == "►━━a b━······".replace(" ", "")
    assert stacked(shared(limit=120)) == "►━━━━━a━b━━━"
    assert stacked(shared(limit=60, allocated=120)) == "►━━━━━a━b━━━"  # given more than there is
    assert stacked(shared(limit=0, allocated=0, tenants=[])) == "no allowance"
    none = [{**one, "limit": 0} for one in shared()["tenants"]]
    assert stacked(shared(allocated=0, tenants=none)) == "·" * 12
    pieces = bars.stack(shared(), OWN, 12)
    assert [piece.tone for piece in pieces] == ["mark", None, None, "dim"]


def test_many_and_small_tenants_are_drawn_together() -> None:
    many = [{"tenantId": f"t-{number}", "displayName": None, "limit": 1, "used": None} for number in range(2000)]
    line = stacked(shared(limit=4000, allocated=2000, tenants=many), 40)
    assert len(line) == 40
    assert line == "+" + "━" * 19 + "·" * 20
    told = dict(detail.of_organization(shared(allocated=2000, tenants=many), OWN, ()))
    assert told["Allocated to 2,000 tenants"][-1] == ("", "1,960 more  1960")
    small = [{"tenantId": f"t-{number}", "displayName": f"n{number}", "limit": 1, "used": 0} for number in range(3, 43)]
    much = {"tenantId": "much", "displayName": "Much", "limit": 40, "used": 1}
    own = {"tenantId": OWN, "displayName": "Web Shop", "limit": 2, "used": 0}
    one = shared(limit=100, allocated=82, tenants=[*small[:5], much, own, *small[5:]])
    assert stacked(one, 20) == "f━━━━━━━+━━━━━━━····"  # of one's own there is too little for a cell
    assert stacked(one, 100) == "►━" + "f" + "━" * 39 + "+" + "━" * 39 + "·" * 18


SPACE_AT_80 = 61


@pytest.mark.parametrize(("used", "limit", "cells"), [(4, 20, 11), (1_714_800, 2_000_000, 4), (10**15, 10**16, 3)])
def test_a_bar_gives_way_to_long_figures(used: int, limit: int, cells: int) -> None:
    shown = table.RowLayout(lambda: SPACE_AT_80)
    rows = [quota(title="Kubernetes clusters", used=used, limit=limit, unit="gb", requestable=limit * 2)]
    shown.take(rows)
    columns = {column.key: column for column in table.columns(shown)}
    assert columns["share"].text(rows[0])[7:].index("┃") == cells
    if cells > table.FEWEST:
        taken = [len(columns[key].text(rows[0])) for key in ("title", "used", "share")]
        assert sum(taken) + 2 * 2 <= SPACE_AT_80
    shown = table.RowLayout(lambda: 200)
    shown.take(rows)
    assert table.share_pieces(rows[0], shown)[1].text.count("━") >= 3


# --- requests --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["40.5", "-1", "+40", "1e3", "0x28", "1_000", "４０", "٤٠", "", " 4", "²", "forty"])
def test_a_limit_is_a_whole_number_in_plain_digits(text: str) -> None:
    with pytest.raises(ValueError, match="whole number"):
        whole_number(text)


def test_bounds_of_a_limit_and_of_a_reason() -> None:
    assert whole_number(str(LARGEST)) == LARGEST
    assert whole_number("0" * 5000 + "7") == 7
    for text in (str(LARGEST + 1), "9" * 6000):
        with pytest.raises(ValueError, match="maximum limit"):
            whole_number(text)
    assert normalize_reason("  e\u0301 \n") == "é"
    assert len(normalize_reason("x" * 500)) == 500
    for text in ("", " \n\t", "x" * 501):
        with pytest.raises(ValueError, match="reason"):
            normalize_reason(text)


@pytest.mark.parametrize(
    ("members", "limit", "outcome", "words"),
    [
        ({}, 25, AT_ONCE, "25: approved at once"),
        ({}, 40, AT_ONCE, "up to 40"),
        ({}, 41, REVIEW, "above 40"),
        ({}, 20, SAME, "already 20"),
        ({}, 4, LOWER, "lower"),
        ({"used": 5, "creating": 2}, 4, DENIED, "5 is in use, 2 in creation"),
        ({"used": 5, "creating": 2}, 5, LOWER, "lower"),
        ({"used": 0}, 0, LOWER, "lower"),
        ({"used": None}, 19, DENIED, "use is unknown"),
        ({"used": None}, 21, AT_ONCE, "at once"),
        ({"used": 30}, 20, SAME, "already"),
        ({"used": 30}, 25, AT_ONCE, "at once"),
        ({"resourceType": "image", "requestable": None}, 21, SUPPORT, "contact support"),
        ({"requestable": None}, 21, SUPPORT, "contact support"),
        ({"unit": "mb", "limit": 1024, "requestable": 262144}, 131072, AT_ONCE, "131072 MB (128 GB)"),
    ],
)
def test_the_outcome_of_a_request_is_foreseen(members: dict[str, Any], limit: int, outcome: str, words: str) -> None:
    found = foreseen(quota(**members), limit)
    assert found.outcome == outcome
    assert words in found.explanation


def test_the_outcome_for_an_organization_is_foreseen() -> None:
    assert foreseen_of_organization(shared(), 300, None).outcome == WAITS
    lower = foreseen_of_organization(shared(), 100, None)
    assert lower.outcome == WAITS
    assert "its tenants have 120 allocated" in lower.explanation
    assert foreseen_of_organization(shared(), 240, None).outcome == SAME
    pending = foreseen_of_organization(shared(), 300, {"limit": 250})
    assert pending.outcome == PENDING
    assert "250" in pending.explanation
    assert foreseen_of_organization(shared(resourceType="image"), 300, None).outcome == SUPPORT


@pytest.mark.parametrize(("limit", "allocated", "wanted", "needed"), [(240, 120, 200, 300), (100, 120, 30, 130)])
def test_the_limit_that_an_organization_needs(limit: int, allocated: int, wanted: int, needed: int) -> None:
    one, of = quota(limit=20), shared(limit=limit, allocated=allocated)
    assert needed_of_organization(one, of, wanted) == needed
    bound = one["limit"] + max(0, needed - allocated)
    assert bound == wanted


def test_a_decided_request_is_reported() -> None:
    before = [{"id": "a", "status": "pending"}, {"id": "b", "status": "pending"}, {"id": "c", "status": "approved"}]
    now = [{"id": "a", "status": "rejected"}, {"id": "b", "status": "pending"}, {"id": "d", "status": "approved"}]
    assert [one["id"] for one in table.decided(before, now)] == ["a"]
    made = {"resourceType": "ram", "scope": "organization", "from": 1024, "limit": 2048, "unit": "mb"}
    words = table.outcome_text({**made, "status": "rejected", "decision": "too much"}, {"ram": "Memory"})
    assert words == "Memory of the organization: 1024 MB (1 GB) → 2048 MB (2 GB) rejected: too much"


# --- plans -----------------------------------------------------------------------------------------------------------

TYPES = ("instance", "vcpu", "ram")


def test_a_plan_is_types_with_numbers() -> None:
    assert parse_plan(" instance=3, vcpu=40  ram=65536 ", TYPES) == {"instance": 3, "vcpu": 40, "ram": 65536}
    assert parse_plan("", TYPES) == {}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("vpcu=4", "did you mean vcpu"),
        ("VCPU=4", "did you mean vcpu"),
        ("vcpu", "vcpu=N"),
        ("vcpu=", "vcpu=N"),
        ("vcpu=4 vcpu=5", "duplicate"),
        ("vcpu=４", "whole number"),
        ("vcpu=-1", "whole number"),
        ("[/x]=1", "unknown type"),
    ],
)
def test_an_invalid_plan_is_explained(line: str, words: str) -> None:
    with pytest.raises(InvalidPlan) as caught:
        parse_plan(line, TYPES)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("members", "more", "words"),
    [
        ({}, 4, "The plan fits 4 times over; vcpu runs out first"),
        ({}, 16, "The plan fits once"),
        ({}, 17, "vcpu needs 21, which you can request without review"),
        ({}, 40, "vcpu needs 44, more than the 40 that need no review"),
        ({"requestable": None}, 17, "only support"),
        ({"used": None}, 4, "the use of vcpu is unknown"),
    ],
)
def test_the_outcome_of_a_plan_is_a_sentence(members: dict[str, Any], more: int, words: str) -> None:
    assert words in verdict(quota_rules.what_if([quota(**members)], {"vcpu": more}))

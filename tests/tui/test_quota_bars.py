"""Quotas as bars, figures, requests and plans."""

from typing import Any

import pytest

from client import quota_rules
from client.models.quotas import OrganizationQuota, Quota, QuotaRequest
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
from client.tables.columns import Column
from tui.quotas import bars, detail, table
from tui.quotas.table import RowLayout
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
        (4, 6, "67%", None),
        (159, 200, "80%", None),
        (1, 200, "1%", None),
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


def columns_of(rows: RowLayout) -> dict[str, Column]:
    return {column.key: column for column in table.columns(rows)}


def test_the_share_column_has_a_sign_and_an_order() -> None:
    share = columns_of(RowLayout(lambda: 61))["share"]
    assert share.text(quota(used=25)).startswith("125% ! ")
    assert share.text(quota(used=20)).startswith("100%   ")
    assert share.sort_value(quota(used=None)) is None
    assert share.sort_value(quota(used=1, limit=0)) > share.sort_value(quota(used=99))


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({}, "4 of 20"),
        ({"used": 65536, "limit": 131072, "unit": "mb"}, "64 of 128 GB"),
        ({"used": 7, "limit": 500, "unit": "gb"}, "7 of 500 GB"),
        ({"used": None, "limit": 500, "unit": "gb"}, "— of 500 GB"),
        ({"used": 3, "limit": 9, "unit": "shards"}, "3 shards of 9 shards"),
    ],
)
def test_figures_have_readable_units(members: dict[str, Any], text: str) -> None:
    assert table.figures_text(quota(**members)) == text


def allocation(one: dict[str, Any], title: str) -> list[tuple[str, str]]:
    """The lines of an organization's details that list its tenants."""
    return list(dict(detail.of_organization(OrganizationQuota.model_validate(one), OWN, ()))[title])


def test_unknown_types_and_foreign_tenants_are_named() -> None:
    assert table.name_text({"resourceType": "warp_core", "limit": 1}) == "warp_core"
    assert table.name_text({"resourceType": "warp_core", "title": "Warp cores", "limit": 1}) == "Warp cores"
    assert Quota(resource_type="warp_core", limit=1).name == "warp_core"
    assert Quota(resource_type="warp_core", title="Warp cores", limit=1).name == "Warp cores"
    tenants = [("►", "Web Shop  60, 51 in use"), ("b", "(no access)  40"), ("a", "Staging  20, 3 in use")]
    assert allocation(shared(), "Allocated to 3 tenants") == tenants


def test_the_limit_of_an_organization_is_stacked_by_tenant() -> None:
    without_limits = [{**one, "limit": 0} for one in shared()["tenants"]]
    for members, line in (
        ({}, "►━━ab━······"),
        ({"limit": 120}, "►━━━━━a━b━━━"),
        ({"limit": 60, "allocated": 120}, "►━━━━━a━b━━━"),  # allocated more than the limit
        ({"limit": 0, "allocated": 0, "tenants": []}, "no allowance"),
        ({"allocated": 0, "tenants": without_limits}, "·" * 12),
    ):
        assert stacked(shared(**members)) == line
    assert [piece.tone for piece in bars.stack(shared(), OWN, 12)] == ["mark", None, None, "dim"]


def tenant(tenant_id: str, limit: int, name: str | None = None, used: int | None = 0) -> dict[str, Any]:
    return {"tenantId": tenant_id, "displayName": name, "limit": limit, "used": used}


def test_many_and_small_tenants_are_drawn_together() -> None:
    many = [tenant(f"t-{number}", 1, used=None) for number in range(2000)]
    assert stacked(shared(limit=4000, allocated=2000, tenants=many), 40) == "+" + "━" * 19 + "·" * 20
    lines = allocation(shared(allocated=2000, tenants=many), "Allocated to 2,000 tenants")
    assert lines[-1] == ("", "1,960 more  1960")
    small = [tenant(f"t-{number}", 1, f"n{number}") for number in range(3, 43)]
    tenants = [*small[:5], tenant("much", 40, "Much", 1), tenant(OWN, 2, "Web Shop"), *small[5:]]
    one = shared(limit=100, allocated=82, tenants=tenants)
    assert stacked(one, 20) == "f━━━━━━━+━━━━━━━····"  # the own tenant has too little for a cell
    assert stacked(one, 100) == "►━" + "f" + "━" * 39 + "+" + "━" * 39 + "·" * 18


SPACE_AT_80 = 61


@pytest.mark.parametrize(("used", "limit", "cells"), [(4, 20, 11), (1_714_800, 2_000_000, 4), (10**15, 10**16, 3)])
def test_a_bar_gives_way_to_long_figures(used: int, limit: int, cells: int) -> None:
    row = quota(title="Kubernetes clusters", used=used, limit=limit, unit="gb", requestable=limit * 2)
    narrow, wide = RowLayout(lambda: SPACE_AT_80), RowLayout(lambda: 200)
    for layout in (narrow, wide):
        layout.take([Quota.model_validate(row)])
    columns = columns_of(narrow)
    assert columns["share"].text(row)[7:].index("┃") == cells
    if cells > table.FEWEST:
        assert sum(len(columns[key].text(row)) for key in ("title", "used", "share")) + 2 * 2 <= SPACE_AT_80
    assert table.share_pieces(row, wide)[1].text.count("━") >= 3


# --- requests --------------------------------------------------------------------------------------------------------


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
        ({"used": 5, "creating": 2}, 4, DENIED, "denied: 5 is in use, 2 in creation"),
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
    prediction = foreseen(quota(**members), limit)
    assert (prediction.outcome, words in prediction.explanation) == (outcome, True)


def test_the_outcome_for_an_organization_is_foreseen() -> None:
    for one, limit, pending, outcome, words in (
        (shared(), 300, None, WAITS, ""),
        (shared(), 100, None, WAITS, "its tenants have 120 allocated"),
        (shared(), 240, None, SAME, ""),
        (shared(), 300, {"limit": 250}, PENDING, "250"),
        (shared(resourceType="image"), 300, None, SUPPORT, ""),
    ):
        foreseen = foreseen_of_organization(one, limit, pending)
        assert (foreseen.outcome, words in foreseen.explanation) == (outcome, True)


@pytest.mark.parametrize(("limit", "allocated", "wanted", "needed"), [(240, 120, 200, 300), (100, 120, 30, 130)])
def test_the_limit_that_an_organization_needs(limit: int, allocated: int, wanted: int, needed: int) -> None:
    one = quota(limit=20)
    assert needed_of_organization(one, shared(limit=limit, allocated=allocated), wanted) == needed
    assert one["limit"] + max(0, needed - allocated) == wanted


def quota_request(request_id: str, status: str, decision: str = "") -> QuotaRequest:
    members = {"resourceType": "ram", "scope": "organization", "from": 1024, "limit": 2048, "unit": "mb"}
    return QuotaRequest.model_validate({"id": request_id, "status": status, "decision": decision, **members})


def test_a_decided_request_is_reported() -> None:
    before = [quota_request("a", "pending"), quota_request("b", "pending"), quota_request("c", "approved")]
    now = [quota_request("a", "rejected"), quota_request("b", "pending"), quota_request("d", "approved")]
    assert [request.id for request in table.decided(before, now)] == ["a"]
    words = table.outcome_text(quota_request("a", "rejected", "too much"), "Memory")
    assert words == "Memory of the organization: 1024 MB (1 GB) → 2048 MB (2 GB) rejected: too much"
    figures = {"used": 2000, "creating": 0, "limit": 1000}
    denied = quota_request("a", "denied", "2000 in use: more than 1000").model_copy(update={"details": figures})
    assert table.outcome_text(denied, "Memory").endswith("denied: 2000 MB (2.0 GB) in use: more than 1000 MB (1.0 GB)")


# --- plans -----------------------------------------------------------------------------------------------------------

TYPES = ("instance", "vcpu", "ram")


def test_a_plan_is_types_with_numbers_and_an_invalid_one_is_explained() -> None:
    assert parse_plan(" instance=3, vcpu=40  ram=65536 ", TYPES) == {"instance": 3, "vcpu": 40, "ram": 65536}
    assert parse_plan("", TYPES) == {}
    for lines, message in (
        (("vpcu=4", "VCPU=4"), "did you mean vcpu"),
        (("vcpu", "vcpu="), "vcpu=N"),
        (("vcpu=4 vcpu=5",), "duplicate"),
        (("vcpu=４", "vcpu=-1"), "whole number"),
        (("[/x]=1",), "unknown type"),
    ):
        for line in lines:
            with pytest.raises(InvalidPlan, match=message):
                parse_plan(line, TYPES)


@pytest.mark.parametrize(
    ("members", "more", "words"),
    [
        ({}, 4, "The plan fits 4 times over; vcpu runs out first"),
        ({}, 16, "The plan fits once"),
        ({}, 17, "vcpu needs 21, which you can request without review"),
        ({}, 40, "vcpu needs 44, more than the 40 that need no review"),
        ({"requestable": None}, 17, "only support"),
        ({"used": None}, 4, "the use of vcpu is unknown"),
        ({"used": None}, 22, "vcpu needs at least 22 (its use is unknown), which you can request without review"),
        ({"used": None}, 44, "vcpu needs at least 44 (its use is unknown), more than the 40 that need no review"),
    ],
)
def test_the_outcome_of_a_plan_is_a_sentence(members: dict[str, Any], more: int, words: str) -> None:
    assert words in verdict(quota_rules.what_if([quota(**members)], {"vcpu": more}))

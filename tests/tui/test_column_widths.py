"""The columns that a list shows, and their widths."""

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from client.tables.columns import TENANT, Column, tightest_share
from client.tables.iam import ACCESS, CATALOGUE
from tui.iam.access import Access, access_text
from tui.iam.effects import EFFECT
from tui.tenants import screen as tenants_screen
from tui.widgets.record_view import UNKNOWN_SAMPLE, RecordView
from tui.widgets.row_painting import fitted

LONGEST = "gateway:application-gateways:read-metrics"


def view(kind: Any, columns: Sequence[Column], *records: dict[str, Any]) -> RecordView:
    records_view = RecordView(kind, columns)
    records_view.replace(records)
    return records_view


# The list has 53 cells at 72 columns, where the navigation begins, and 55 at 110, where the details do.
@pytest.mark.parametrize("space", [*range(52, 70), 100])
def test_the_name_of_an_operation_is_never_cut_however_narrow_the_list(space: int) -> None:
    path = [{"kind": "policy", "policyId": "p", "policyName": "from the office " * 4, "ruleIndex": 0, "paths": []}]
    record = {"operation": LONGEST, "access": "conditional", "by": path}
    columns = Access.columns(SimpleNamespace(_access_text=access_text))
    widths = {column.key: cells for column, cells in fitted(view(ACCESS, columns, record), space)}
    assert widths["operation"] >= len(LONGEST)
    assert "access" in widths
    catalogue = view(
        CATALOGUE, CATALOGUE.columns, {"name": LONGEST, "accessLevel": "permission", "description": "x" * 60}
    )
    assert dict(fitted(catalogue, space))[CATALOGUE.columns[0]] >= len(LONGEST)


def titles(records: RecordView) -> list[str]:
    return [column.title for column, _ in fitted(records, 200)]


def test_a_column_without_values_is_not_shown() -> None:
    one = {"id": "1", "name": "deploy", "type": "api_key", "gainedCount": 0, "lostCount": 2}
    expired = {**one, "id": "2", "status": "expired"}
    for records, last in (([one], []), ([one, expired], ["Status"])):
        assert titles(view(EFFECT, EFFECT.columns, *records)) == ["Key or identity", "Type", "+", "−", *last]


def test_a_filter_an_order_a_long_or_an_empty_list_hides_no_column() -> None:
    quota = {"used": 1, "limit": 2, "resourceType": "cpu"}
    tenants = [{"id": str(n), "displayName": f"t{n}", "tightestQuota": quota if n else None} for n in range(3)]
    filtered = view(TENANT, TENANT.columns, *tenants)
    every = titles(filtered)
    filtered.set_filter("t0")
    assert (len(filtered), titles(filtered)) == (1, every)
    bare = view(TENANT, TENANT.columns, *({**tenant, "tightestQuota": None} for tenant in tenants))
    column = next(column for column in TENANT.columns if column.key == "tightestQuota")
    assert column.title not in titles(bare)
    bare.sort_by(column)
    assert column.title in titles(bare)
    many = [{"id": str(n), "displayName": f"t{n}"} for n in range(UNKNOWN_SAMPLE + 1)]
    for records in ([], many):
        assert titles(view(TENANT, TENANT.columns, *records)) == [column.title for column in TENANT.columns]


def test_an_unknown_use_is_no_share_and_a_use_without_allowance_is_the_fullest() -> None:
    def shown(used: int | None, limit: int) -> tuple[str, float | None]:
        record = {"tightestQuota": {"used": used, "limit": limit, "title": "vCPUs"}}
        return tenants_screen._share_text(record), tightest_share(record)

    assert shown(None, 60) == ("— vCPUs", None)
    assert shown(0, 0) == ("0% vCPUs", 0.0)
    assert shown(3, 0) == ("999% vCPUs", math.inf)


def test_a_long_name_gets_the_space_that_other_columns_leave() -> None:
    columns = (Column("name", "Name"), Column("region", "Region"), Column("about", "About"))
    record = {"name": "n" * 40, "region": "se-sto-1", "about": ""}
    assert [cells for _, cells in fitted(view(TENANT, columns, record), 60)] == [40, 8]

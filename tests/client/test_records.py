"""Kinds of records: texts of cells and order of columns."""

import math
from datetime import UTC, datetime, timedelta

import pytest

from client.tables.account import API_KEY, SCOPE, SESSION
from client.tables.columns import (
    CONTEXT,
    OPERATION,
    ORGANIZATION,
    TENANT,
    UNKNOWN,
    Kind,
    age,
    cells,
    columns,
    exact,
    format_remaining,
    quantity,
    time_text,
)
from client.tables.iam import (
    ACCESS,
    ATTACHMENT,
    BINDING,
    CATALOGUE,
    GROUP,
    MEMBER,
    POLICY,
    VERSION,
    WHO,
    grant_text,
    paths_text,
)
from client.tables.quotas import amount_text, decision_text

WEB_SHOP = {
    "id": "4793d4e5-9e63-4ff7-8783-9bb3aca1f5d5",
    "displayName": "Web Shop",
    "slug": "web-shop",
    "status": "active",
    "organizationName": "Aurora Labs",
    "organizationId": "21b19d01-a6e8-4950-818c-144893bd4e01",
    "role": "owner",
    "defaultTagCount": 0,
    "createdAt": "2026-11-21T10:05:59.814Z",
    "updatedAt": None,
    "tightestQuota": {"resourceType": "ram", "used": 1536, "limit": 4096, "unit": "mb"},
}


def column(kind: Kind, key: str):  # type: ignore[no-untyped-def]
    return next(column for column in kind.columns if column.key == key)


IAM_KINDS = [CATALOGUE, GROUP, MEMBER, POLICY, VERSION, ATTACHMENT, BINDING, ACCESS, WHO]
KINDS = [TENANT, ORGANIZATION, CONTEXT, OPERATION, API_KEY, SCOPE, SESSION, *IAM_KINDS]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.plural)
def test_an_empty_record_shows_only_unknown_and_sorts_last(kind: Kind) -> None:
    assert set(cells(kind, {}, wide=True)) == {UNKNOWN}
    assert all(column.sort_value({}) is None for column in kind.columns)
    assert len({column.title for column in kind.columns}) == len(kind.columns)
    assert {column.key for column in kind.filter_fields.values()} <= {column.key for column in kind.columns}


def test_statuses_and_unknown_use_are_printed_as_sent() -> None:
    assert cells(TENANT, WEB_SHOP) == ["Web Shop", "active", "web-shop", WEB_SHOP["id"], "Aurora Labs"]
    assert cells(TENANT, {"status": "hibernating"})[1] == "hibernating"
    assert cells(OPERATION, {"status": "running", "stalled": True})[1] == "running (stalled)"
    assert cells(OPERATION, {"status": "running", "stalled": False})[1] == "running"
    record = {"tightestQuota": {"resourceType": "volume", "used": None, "limit": 10, "unit": "count"}}
    tightest = column(TENANT, "tightestQuota")
    assert tightest.text(record) == f"volume {UNKNOWN} of 10"
    assert tightest.sort_value(record) is None
    assert tightest.sort_value({"tightestQuota": {"used": 1, "limit": 0}}) == math.inf


def test_text_sorts_without_letter_case_numbers_and_times_by_size() -> None:
    for key, less, more in (
        ("displayName", "alpha", "Beta"),
        ("defaultTagCount", 9, 10),
        ("createdAt", "2026-11-21T10:00:00+02:00", "2026-11-21T09:00:00Z"),
    ):
        assert column(TENANT, key).sort_value({key: less}) < column(TENANT, key).sort_value({key: more})


def test_odd_values_of_an_answer_never_break_a_cell() -> None:
    for value in ([], {}, 7, True, "x" * 10_000, "\x1b"):
        record = {column.key: value for kind in (TENANT, OPERATION) for column in kind.columns}
        for kind in (TENANT, OPERATION, CONTEXT, ORGANIZATION):
            assert all(isinstance(text, str) for text in cells(kind, record, wide=True))
            for one in kind.columns:
                one.sort_value(record)


def test_times_ages_and_quota_figures_are_shown_in_one_unit() -> None:
    for value, text in (
        ("2026-11-21T10:05:00Z", "2026-11-21 10:05Z"),
        ("2026-11-21T12:05:00+02:00", "2026-11-21 10:05Z"),
        ("soon", "soon"),
        ("2026-11-21T10:05:00", "2026-11-21T10:05:00"),
        ("", UNKNOWN),
        (None, UNKNOWN),
    ):
        assert time_text(value) == text
    for instant, text in (
        ("2026-11-21T11:59:58Z", "now"),
        ("2026-11-21T11:59:20Z", "40s"),
        ("2026-11-21T11:00:01Z", "59m"),
        ("2026-11-20T12:00:01Z", "23h"),
        ("2026-11-09T11:00:00Z", "12d"),
        ("2024-11-21T11:00:00Z", "2y"),
        ("2026-11-21T13:00:00Z", "now"),
        ("never", UNKNOWN),
    ):
        assert age(instant, datetime(2026, 11, 21, 12, tzinfo=UTC)) == text
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert exact("2026-11-21T12:05:00+02:00", now) == "2026-11-21 10:05:00Z, 1h ago"
    for left, text in (
        (timedelta(days=365) - timedelta(seconds=2), "365d"),
        (timedelta(days=365), "365d"),
        (timedelta(days=364, hours=23), "364d"),
        (timedelta(hours=23, seconds=1), "23h"),
        (timedelta(hours=4, minutes=59), "4h"),
        (timedelta(hours=5) - timedelta(seconds=1), "5h"),
        (timedelta(minutes=12, seconds=59), "12m"),
        (timedelta(seconds=59), "59s"),
        (timedelta(seconds=-1), "0s"),
    ):
        assert format_remaining(left) == text
    # A figure that is not whole keeps its decimal: 1000 MB is not 1 GB.
    sizes = {65536: "64", 4096: "4", 1536: "1.5", 1024: "1", 1000: "1.0", 1600: "1.6", 512: "0.5", 256: "0.3", 0: "0"}
    for megabytes, text in (sizes | {514048: "502", 514049: "502.0", 1023: "1.0", 1025: "1.0", 103: "0.1"}).items():
        assert quantity(megabytes, "mb") == f"{text} GB"
        assert amount_text(megabytes, "mb") == f"{megabytes} MB ({text} GB)"
    for megabytes, text in ((1, "0.0 GB (1 MB)"), (51, "0.0 GB (51 MB)"), (52, "0.1 GB"), (102, "0.1 GB")):
        assert quantity(megabytes, "mb") == text
    assert (amount_text(1, "mb"), amount_text(102, "mb")) == ("1 MB (0.0 GB)", "102 MB (0.1 GB)")
    assert (quantity(7, "count"), quantity(100, "gb"), quantity(None, "mb")) == ("7", "100 GB", UNKNOWN)


def test_a_denial_shows_its_figures_in_the_units_for_reading() -> None:
    denied = {"unit": "mb", "decision": "2000 in use (512 being created): more than 1000"}
    figures = {"used": 2000, "creating": 512, "limit": 1000}
    text = "2000 MB (2.0 GB) in use, 512 MB (0.5 GB) in creation: more than 1000 MB (1.0 GB)"
    assert decision_text({**denied, "details": figures}) == text
    for other in ({"reason": "usage_unknown"}, None):
        assert decision_text({**denied, "details": other}) == denied["decision"]
    assert decision_text({"decision": None}) == ""


GROUP_PATH = {"type": "group", "id": "g", "name": "ops"}


@pytest.mark.parametrize(
    ("grant", "expected"),
    [
        ({"kind": "scope", "scope": "compute:*"}, "scope compute:*"),
        ({"kind": "role", "role": "owner", "ruleIndex": 0, "ruleName": ""}, "role owner"),
        ({"kind": "policy", "policyName": "p", "ruleIndex": 1, "ruleName": "r"}, "policy p rule 2 (r)"),
        ({"kind": "policy", "policyName": "p", "ruleIndex": 0, "paths": [GROUP_PATH]}, "policy p rule 1 via group ops"),
    ],
)
def test_a_grant_reads_with_its_path(grant: dict[str, object], expected: str) -> None:
    assert grant_text(grant) == expected


def test_every_path_of_a_policy_is_named() -> None:
    assert paths_text([{"type": "direct"}]) == ""
    assert paths_text([GROUP_PATH, {"type": "group", "name": "dev"}]) == "via groups ops, dev"
    assert paths_text([{"type": "direct"}, GROUP_PATH]) == "directly and via group ops"
    # The first are named and the rest is counted.
    assert paths_text([{"type": "direct"}, GROUP_PATH], 2) == "directly and via group ops"
    assert paths_text([GROUP_PATH, GROUP_PATH], 25) == "via groups ops, ops and 23 more"


POLICY_RECORD = {"name": "p", "author": {"email": "a@b.example"}, "document": {"rules": [1, 2]}, "attachmentCount": 0}
KEY_RECORD = {"scopes": ["a:read", "b:*"], "expiresAt": "2027-01-02T03:04:05Z", "lastUsedAt": None, "rateLimit": 60}
IDENTITY = {"namespace": "shop", "serviceAccount": "checkout", "scopes": ["a:read", "b:read"], "inert": False}
ROLLBACK = {"version": 3, "change": "rollback", "rolledBackTo": 1, "changed": ["document", "name"]}
BY = {"kind": "policy", "constraints": [{"operator": "equals", "key": "frn:region", "values": ["x"]}]}
DENIED_BY = {"kind": "policy", "targets": ["frn:a:*:*:b/c"]}


@pytest.mark.parametrize(
    ("kind", "record", "expected"),
    [
        (TENANT, WEB_SHOP, {"Created": "2026-11-21 10:05Z", "Updated": UNKNOWN, "Tags": "0"}),
        (TENANT, WEB_SHOP, {"Fullest quota": "ram 1.5 GB of 4 GB"}),
        (API_KEY, KEY_RECORD, {"Scopes": "a:read, b:*", "Expires": "2027-01-02 03:04Z", "Last used": UNKNOWN}),
        (API_KEY, KEY_RECORD, {"Requests/min": "60"}),
        (POLICY, POLICY_RECORD, {"Author": "a@b.example", "Rules": "2", "Attached": "0"}),
        (POLICY, {**POLICY_RECORD, "orphaned": True}, {"Author": "a@b.example (left)"}),
        (VERSION, ROLLBACK, {"Change": "rollback to 1", "Changed": "document, name"}),
        (BINDING, IDENTITY, {"Name": "shop/checkout", "Scopes": "a:read, b:read"}),
        (ACCESS, {"by": [BY], "deniedBy": [DENIED_BY]}, {"When": "equals frn:region x; not frn:a:*:*:b/c"}),
    ],
)
def test_the_columns_of_a_record(kind: Kind, record: dict[str, object], expected: dict[str, str]) -> None:
    titles = [column.title for column in columns(kind, wide=True)]
    assert expected.items() <= dict(zip(titles, cells(kind, record, wide=True), strict=True)).items()

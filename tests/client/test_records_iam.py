"""The record kinds of access policies: what their cells say."""

import pytest

from client.tables.columns import UNKNOWN, Kind, cells, columns
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

KINDS = [CATALOGUE, GROUP, MEMBER, POLICY, VERSION, ATTACHMENT, BINDING, ACCESS, WHO]
GROUP_PATH = {"type": "group", "id": "g", "name": "ops"}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.plural)
def test_a_record_that_says_nothing_shows_only_unknown_and_sorts_last(kind: Kind) -> None:
    assert set(cells(kind, {}, wide=True)) == {UNKNOWN}
    assert all(column.sort_value({}) is None for column in kind.columns)
    assert len({column.title for column in kind.columns}) == len(kind.columns)
    assert {column.key for column in kind.filter_fields.values()} <= {column.key for column in kind.columns}


def named(kind: Kind, record: dict[str, object]) -> dict[str, str]:
    titles = [column.title for column in columns(kind, wide=True)]
    return dict(zip(titles, cells(kind, record, wide=True), strict=True))


def test_a_policy_says_its_author_and_whether_they_still_count() -> None:
    policy = {"name": "p", "author": {"email": "a@b.example"}, "document": {"rules": [1, 2]}, "attachmentCount": 0}
    assert named(POLICY, policy)["Author"] == "a@b.example"
    assert named(POLICY, {**policy, "orphaned": True})["Author"] == "a@b.example (orphaned)"
    assert (named(POLICY, policy)["Rules"], named(POLICY, policy)["Attached"]) == ("2", "0")


def test_a_version_says_what_it_changed() -> None:
    version = {"version": 3, "change": "rollback", "rolledBackTo": 1, "changed": ["document", "name"]}
    assert named(VERSION, version)["Change"] == "rollback to 1"
    assert named(VERSION, version)["Changes"] == "document, name"


def test_an_identity_is_named_by_its_service_account() -> None:
    record = {"namespace": "shop", "serviceAccount": "checkout", "scopes": ["a:read", "b:read"], "inert": False}
    assert (named(BINDING, record)["Name"], named(BINDING, record)["Scopes"]) == ("shop/checkout", "a:read, b:read")


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


def test_every_way_a_policy_takes_is_said() -> None:
    assert paths_text([{"type": "direct"}]) == ""
    assert paths_text([GROUP_PATH, {"type": "group", "name": "dev"}]) == "via groups ops, dev"
    assert paths_text([{"type": "direct"}, GROUP_PATH]) == "directly and via group ops"


def test_what_an_operation_depends_on_is_said_in_the_wide_table() -> None:
    by = {"kind": "policy", "constraints": [{"operator": "equals", "key": "frn:region", "values": ["x"]}]}
    taken = {"kind": "policy", "targets": ["frn:a:*:*:b/c"]}
    assert named(ACCESS, {"by": [by], "deniedBy": [taken]})["When"] == "equals frn:region x; not frn:a:*:*:b/c"


def test_of_very_many_ways_the_first_are_named_and_the_rest_counted() -> None:
    assert paths_text([{"type": "direct"}, GROUP_PATH], 2) == "directly and via group ops"
    assert paths_text([GROUP_PATH, GROUP_PATH], 25) == "via groups ops, ops and 23 more"

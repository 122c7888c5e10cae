"""The record kinds of the account: what their cells say."""

import pytest

from client.tables.account import API_KEY, SCOPE, SESSION
from client.tables.columns import UNKNOWN, Kind, cells, columns

KINDS = [API_KEY, SCOPE, SESSION]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.plural)
def test_a_record_that_says_nothing_shows_only_unknown_and_sorts_last(kind: Kind) -> None:
    assert set(cells(kind, {}, wide=True)) == {UNKNOWN}
    assert all(column.sort_value({}) is None for column in kind.columns)
    assert len({column.title for column in kind.columns}) == len(kind.columns)
    assert {column.key for column in kind.filter_fields.values()} <= {column.key for column in kind.columns}


def test_a_key_says_its_scopes_and_when_it_ends() -> None:
    record = {"scopes": ["a:read", "b:*"], "expiresAt": "2027-01-02T03:04:05Z", "lastUsedAt": None, "rateLimit": 60}
    shown = dict(zip((one.title for one in columns(API_KEY, True)), cells(API_KEY, record, True), strict=True))
    assert (shown["Scopes"], shown["Expires"], shown["Last used"]) == ("a:read, b:*", "2027-01-02 03:04Z", UNKNOWN)
    assert shown["Requests/min"] == "60"

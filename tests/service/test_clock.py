"""The forms of an instant that requests and policy documents accept."""

from datetime import UTC, datetime

import pytest

from client.policy.model import parse_timestamp
from service.clock import parse_instant

MORNING = datetime(2027, 1, 1, 10, tzinfo=UTC)
RFC_3339 = (
    "2027-01-01T10:00:00Z",
    "2027-01-01t10:00:00z",
    "2027-01-01T12:30:00.000+02:30",
    "2027-01-01T10:00:00-00:00",
)
OTHER_FORMS = (
    "",
    "tomorrow",
    "2027-01-01",
    "20270101",
    "20270101T100000Z",
    "2027-W01-1",
    "2027-W01-1T10:00:00Z",
    "2027-01-01 10:00:00Z",
    "2027-01-01T24:00:00Z",
    "2027-01-01T10:00Z",
    "2027-01-01T10:00:00+0200",
    "2027-01-01T10:00:00",
    "2027-01-01T10:00:00,5Z",
    "2027-02-30T10:00:00Z",
    "2027-01-01T10:00:00+24:00",
    "2027-01-01T10:00:00Z\n",
    "٢٠٢٧-01-01T10:00:00Z",
)


@pytest.mark.parametrize(
    ("text", "in_request", "in_document"),
    [
        *[(text, MORNING, MORNING) for text in RFC_3339],
        *[(text, None, None) for text in OTHER_FORMS],
        ("2027-01-01T10:00:00.0000000009Z", MORNING, None),
        ("2027-01-01T16:15:00+05:75", None, MORNING),
    ],
)
def test_requests_and_documents_accept_rfc_3339(
    text: str, in_request: datetime | None, in_document: datetime | None
) -> None:
    assert parse_instant(text) == in_request
    assert parse_timestamp(text) == (in_document and in_document.timestamp())


def test_a_fraction_is_never_rounded_up_and_the_first_year_begins_in_utc() -> None:
    assert parse_instant("2027-01-01T00:00:00.9999999Z") == datetime(2027, 1, 1, 0, 0, 0, 999_999, tzinfo=UTC)
    assert parse_instant("0001-01-01T00:00:00+05:00") is None

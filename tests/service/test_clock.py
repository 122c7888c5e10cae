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


@pytest.mark.parametrize("text", RFC_3339)
def test_requests_and_documents_accept_rfc_3339(text: str) -> None:
    assert parse_instant(text) == MORNING
    assert parse_timestamp(text) == MORNING.timestamp()


@pytest.mark.parametrize("text", OTHER_FORMS)
def test_requests_and_documents_refuse_other_forms(text: str) -> None:
    assert parse_instant(text) is None
    assert parse_timestamp(text) is None


def test_requests_accept_more_digits_than_documents() -> None:
    text = "2027-01-01T10:00:00.0000000009Z"
    assert parse_instant(text) == MORNING
    assert parse_timestamp(text) is None


def test_a_fraction_of_a_second_is_never_rounded_up() -> None:
    read = parse_instant("2027-01-01T00:00:00.9999999Z")
    assert read == datetime(2027, 1, 1, 0, 0, 0, 999_999, tzinfo=UTC)


def test_documents_accept_offset_minutes_above_59() -> None:
    text = "2027-01-01T16:15:00+05:75"
    assert parse_instant(text) is None
    assert parse_timestamp(text) == MORNING.timestamp()


def test_an_instant_before_the_first_year_in_utc_is_refused() -> None:
    assert parse_instant("0001-01-01T00:00:00+05:00") is None

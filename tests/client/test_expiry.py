"""Dates and instants of --expires, by local time."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client import times
from client.commands.iam.inputs import facts
from client.errors import FrostError

ZONES = ("America/Los_Angeles", "Pacific/Auckland", "Europe/Stockholm", "Africa/Cairo", "America/Havana", "Asia/Beirut")


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Moves the machine to a time zone."""

    def move(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield move
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("zone", "typed", "meant"),
    [
        ("America/Los_Angeles", "2027-01-01", "2027-01-02T07:59:59Z"),
        ("Pacific/Auckland", "2027-01-01", "2027-01-01T10:59:59Z"),
        ("UTC", "2027-01-01", "2027-01-01T23:59:59Z"),
        ("Europe/Stockholm", "2027-03-28", "2027-03-28T21:59:59Z"),
        ("Europe/Stockholm", "2027-10-31", "2027-10-31T22:59:59Z"),
        # At the end of this day the clocks go back to 23:00, so that its last hour comes twice.
        ("Africa/Cairo", "2027-10-28", "2027-10-28T21:59:59Z"),
        # On the day after this one midnight does not exist: the clocks go from 24:00 to 01:00.
        ("America/Havana", "2027-03-13", "2027-03-14T04:59:59Z"),
        ("Pacific/Kiritimati", "2027-01-01", "2027-01-01T09:59:59Z"),
        ("UTC", "2028-02-29", "2028-02-29T23:59:59Z"),
    ],
)
def test_a_date_is_the_end_of_that_day_here(clocks: Callable[[str], None], zone: str, typed: str, meant: str) -> None:
    clocks(zone)
    assert times.wire(times.instant(typed)) == meant


@pytest.mark.parametrize("zone", ZONES)
def test_a_second_after_the_end_of_a_day_it_is_the_next_one(clocks: Callable[[str], None], zone: str) -> None:
    clocks(zone)
    first = datetime(2026, 12, 31, tzinfo=UTC).date()
    for number in range(400):
        day = first + timedelta(days=number)
        end = times.end_of_day(day)
        local = [(end + timedelta(seconds=later)).astimezone(ZoneInfo(zone)).date() for later in (0, 1)]
        assert local == [day, day + timedelta(days=1)]
    # The last day ends not after an instant, and the next one does.
    for hours in range(0, 400 * 24, 7):
        latest = datetime(2027, 1, 1, tzinfo=UTC) + timedelta(hours=hours)
        day = times.last_day(latest)
        assert times.end_of_day(day) <= latest < times.end_of_day(day + timedelta(days=1))


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("2027-01-01T00:00:00+02:00", "2026-12-31T22:00:00Z"),
        ("2027-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ("2027-01-01t00:00:00z", "2027-01-01T00:00:00Z"),
        ("2027-01-01T00:00:00.5Z", "2027-01-01T00:00:00.500Z"),
        ("2027-01-01T00:00:00.0604Z", "2027-01-01T00:00:00.060400Z"),
        ("2027-01-01T00:00:00.999999999Z", "2027-01-01T00:00:00.999999Z"),
        ("2027-01-01T00:00:00-00:00", "2027-01-01T00:00:00Z"),
    ],
)
def test_an_instant_is_itself_and_never_rounded_up(typed: str, meant: str) -> None:
    assert times.wire(times.instant(typed)) == meant


REFUSED = [
    "2027-01-01T00:00:00", "01/02/2027", "2027-W01-1", "20270101", "2027-001", "2027-02-30", "2027-13-01",
    "0000-01-01", "9999-12-31", "tomorrow", "1y", "2027-01-01T24:00:00Z", "2027-01-01T00:00:60Z", "2027-01-01T00:00Z",
    "2027-01-01T00:00:00+0200", "2027-01-01T00:00:00+02:75", "2027-01-01T00:00:00+25:00", "2027-01-01T00:00:00,5Z",
    "9999-12-31T23:59:59-01:00", "+2027-01-01", "2027-01-01T00:00:00[Europe/Stockholm]",
]  # fmt: skip


def test_anything_else_is_refused_with_both_forms() -> None:
    for typed in (*REFUSED, "", " ", " 2027-01-01", "2027-01-01\n", "2027-01-01 00:00:00Z", "２０２７-01-01"):
        with pytest.raises(FrostError) as caught:
            times.instant(typed)
        assert caught.value.exit_code == 2
        assert all(form in caught.value.message for form in ("YYYY-MM-DD", "RFC 3339"))


@pytest.mark.parametrize(
    ("typed", "limit"),
    [
        ("9999-12-31T23:59:59-01:00", "years 0001 and 9999"),
        ("0001-01-01T00:00:00+01:00", "years 0001 and 9999"),
        ("9999-12-31", "years 0001 and 9999"),
        ("2027-02-30", "does not exist"),
        ("2027-01-01T24:00:00Z", "does not exist"),
        ("2027-01-01T00:00:00+25:00", "-23:59 and +23:59"),
        ("2027-01-01T00:00:00+02:75", "-23:59 and +23:59"),
        ("2027-01-01T00:00:00.0123456789Z", "more than 9 digits"),
    ],
)
def test_flags_name_the_limit_that_a_time_exceeds(typed: str, limit: str) -> None:
    calls: list[Callable[[], object]] = [lambda: times.instant(typed)]
    if typed != "9999-12-31":  # its first second is within the limits
        calls.append(lambda: times.past_instant_text(typed, "--since"))
    if "T" in typed:
        calls.append(lambda: facts(region=None, request_tag=(), resource_tag=(), source_ip=None, time=typed))
    for call in calls:
        with pytest.raises(FrostError) as caught:
            call()
        assert (caught.value.exit_code, limit in caught.value.message) == (2, True), caught.value.message


@given(st.text(max_size=40))
def test_no_text_does_anything_else_than_be_read_or_refused(typed: str) -> None:
    try:
        read = times.instant(typed)
    except FrostError:
        return
    assert read.tzinfo is UTC

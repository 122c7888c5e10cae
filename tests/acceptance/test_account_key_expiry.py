"""When a key expires, as it is typed and as it is kept.

The forms themselves, and the days on which clocks change, are in tests/client/test_expiry.py.
"""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from tests.acceptance.account import CREATE, Account, Key, days, instant
from tests.conftest import opened


def test_without_a_date_a_key_lives_365_days(owner: Account) -> None:
    made = Key(owner, "compute:read").made
    assert instant(made["expiresAt"]) - instant(made["createdAt"]) == timedelta(days=365)


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Pacific/Auckland", "UTC"])
def test_a_date_is_the_end_of_that_day_where_one_is(owner: Account, zone: str) -> None:
    day = days(100).date().isoformat()
    result = owner.run(*CREATE, "compute:read", "--expires", day, "-o", "json", TZ=zone)
    local = instant(result.json()["apiKey"]["expiresAt"]).astimezone(ZoneInfo(zone))
    assert local.strftime("%Y-%m-%d %H:%M:%S") == f"{day} 23:59:59"
    assert f"the end of {day}" in result.err


def test_an_instant_is_itself(owner: Account) -> None:
    typed = days(10).replace(microsecond=123_000).isoformat().replace("+00:00", "+02:00")
    made = owner.done(*CREATE, "compute:read", "--expires", typed)["apiKey"]
    assert instant(made["expiresAt"]) == instant(typed)


@pytest.mark.parametrize("typed", ["", "2027-01-01T00:00:00", "01/02/2027", "20270101", "2027-02-30", "tomorrow", "1y"])
def test_what_is_neither_is_refused_before_anything_is_sent(owner: Account, typed: str) -> None:
    result = owner.run(*CREATE, "compute:read", "--expires", typed, "-d")
    assert (result.code, result.out) == (2, "")
    assert "YYYY-MM-DD" in result.err
    assert "RFC 3339" in result.err
    assert "POST" not in result.err


def test_too_late_a_date_is_refused_with_the_latest_that_would_do(owner: Account) -> None:
    far = days(3 * 365).date().isoformat()
    result = owner.run(*CREATE, "compute:read", "--expires", far, "-o", "json", TZ="Pacific/Auckland")
    assert (result.code, result.error()["code"]) == (2, "API_KEY_LIFETIME_EXCEEDS_MAX")
    latest = result.error()["message"].rpartition(" ")[2]
    assert owner.run(*CREATE, "compute:read", "--expires", latest, TZ="Pacific/Auckland").code == 0
    next_day = (instant(f"{latest}T00:00:00+00:00") + timedelta(days=1)).date().isoformat()
    assert owner.run(*CREATE, "compute:read", "--expires", next_day, TZ="Pacific/Auckland").code == 2


def test_too_late_an_instant_is_refused_with_the_latest_instant(owner: Account) -> None:
    said = owner.refused(2, *CREATE, "compute:read", "--expires", days(3 * 365).isoformat())
    latest = said.partition("until ")[2].partition(",")[0]
    assert owner.done(*CREATE, "compute:read", "--expires", latest)["apiKey"]["expiresAt"] == latest


@pytest.mark.parametrize("typed", ["2020-01-01", "2020-01-01T00:00:00Z"])
def test_a_past_instant_is_refused(owner: Account, typed: str) -> None:
    said = owner.refused(2, *CREATE, "compute:read", "--expires", typed)
    assert "--expires: the expiry is in the past: the platform's time is " in said


def test_two_years_to_the_second_are_taken_and_one_more_is_not(demo_platform: Path) -> None:
    now = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=5)
    two_years = now.replace(year=now.year + 2)
    home = opened(demo_platform, FROST_CLOCK=now.isoformat())
    try:
        home.sign_in()
        account = Account(home)
        for later, code in ((0, 0), (1, 2)):
            until = (two_years + timedelta(seconds=later)).isoformat()
            assert account.run(*CREATE, "dns:read", "--expires", until).code == code
        # The end of that very day is after the bound, unless it is the last second of it.
        assert account.run(*CREATE, "dns:read", "--expires", two_years.date().isoformat()).code == 2
    finally:
        home.remove()


@pytest.mark.slow
def test_a_key_works_until_its_expiry_and_not_from_then_on(owner: Account) -> None:
    until = datetime.now(UTC) + timedelta(seconds=8)
    key = Key(owner, "compute:read", more=("--expires", until.isoformat()))
    while (asked := datetime.now(UTC)) < until - timedelta(seconds=1):
        assert key.use("GET", "/resources/instance") == 200, (asked, until)
        time.sleep(0.2)
    time.sleep(max(0.0, (until - datetime.now(UTC)).total_seconds()))
    assert key.use("GET", "/resources/instance") == 401
    assert owner.done("api-key", "get", key.id)["status"] == "expired"

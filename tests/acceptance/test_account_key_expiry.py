"""Expiry of an API key, as typed."""

from datetime import timedelta
from zoneinfo import ZoneInfo

from tests.acceptance.account import CREATE, Account, days, instant


def test_a_date_is_the_end_of_that_local_day(owner: Account) -> None:
    day = days(100).date().isoformat()
    result = owner.run(*CREATE, "compute:read", "--expires", day, "-o", "json", TZ="Pacific/Auckland")
    local = instant(result.json()["apiKey"]["expiresAt"]).astimezone(ZoneInfo("Pacific/Auckland"))
    assert local.strftime("%Y-%m-%d %H:%M:%S") == f"{day} 23:59:59"
    assert f"the end of {day}" in result.err


def test_an_unreadable_expiry_is_refused_before_a_request(owner: Account) -> None:
    said = owner.refused(2, *CREATE, "compute:read", "--expires", "01/02/2027", "-d")
    assert "YYYY-MM-DD" in said
    assert "POST" not in said


def test_a_late_expiry_is_refused_with_the_latest_date(owner: Account) -> None:
    far = days(3 * 365).date().isoformat()
    result = owner.run(*CREATE, "compute:read", "--expires", far, "-o", "json", TZ="Pacific/Auckland")
    assert (result.code, result.error()["code"]) == (2, "API_KEY_LIFETIME_EXCEEDS_MAX")
    latest = result.error()["message"].rpartition(" ")[2]
    next_day = (instant(f"{latest}T00:00:00+00:00") + timedelta(days=1)).date().isoformat()
    for day, code in ((latest, 0), (next_day, 2)):
        assert owner.run(*CREATE, "compute:read", "--expires", day, TZ="Pacific/Auckland").code == code

"""The client's clock, and parsing of expiry times and of past instants.

`FROST_CLOCK` fixes the clock, for screenshots and tests. An expiry is a local date or an instant. A date means the last
second of that day in local time, also when clocks change on that day; as a past instant it means the first second. A
fraction of a second is truncated to microseconds.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta

from client.errors import FrostError, usage
from client.policy.instants import NO_SUCH_TIME, NOT_RFC_3339, OUT_OF_YEARS, InvalidTime, parse_instant
from client.text import safe


def now() -> datetime:
    """Return the current time in UTC; the time in `FROST_CLOCK` (RFC 3339) if set."""
    fixed = os.environ.get("FROST_CLOCK")
    if not fixed:
        return datetime.now(UTC)
    try:
        instant = datetime.fromisoformat(fixed)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        raise usage(f"FROST_CLOCK is not an RFC 3339 instant: {fixed!r}")
    return instant.astimezone(UTC)


_AGE = re.compile(r"([0-9]+)([smhdw])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


def instant(text: str, flag: str = "--expires") -> datetime:
    """Parse a date or an RFC 3339 timestamp and return the instant in UTC.

    Raises:
        FrostError: The text has neither form, the date or time does not exist, or it exceeds a limit (exit 2).
    """
    forms = (
        "a date (YYYY-MM-DD, the end of that day, local time) or an RFC 3339 timestamp"
        " (2027-01-31T12:00:00Z or with an offset such as +02:00)"
    )
    if not text:
        raise usage(f"{flag}: the value is empty; expected {forms}")
    try:
        return _in_years(end_of_day, text) if is_date(text) else parse_instant(text)
    except InvalidTime as error:
        raise _invalid(flag, text, error, forms) from None


def _in_years(instant_of: Callable[[date], datetime], text: str) -> datetime:
    """Return an instant of a local date. Raises InvalidTime if there is no such date, or if it is out of range."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise InvalidTime(NO_SUCH_TIME) from None
    try:
        return instant_of(day)
    except (ValueError, OverflowError):
        raise InvalidTime(OUT_OF_YEARS) from None


def _invalid(flag: str, text: str, error: InvalidTime, forms: str) -> FrostError:
    if str(error) == NOT_RFC_3339:
        return usage(f"{flag}: {safe(text, 60)!r} is not {forms}")
    beyond = usage(f"{flag}: {safe(text, 60)!r} {error}; expected {forms}")
    beyond.details = {"limit": str(error)}
    return beyond


def is_date(text: str) -> bool:
    return _DATE.fullmatch(text) is not None


def end_of_day(day: date) -> datetime:
    """Return the last second of a day in local time, as UTC.

    Computed from the next midnight: 23:59:59 occurs twice where clocks go back at midnight. The timestamp is used
    because a midnight that clocks skip would be an hour early by its UTC offset.
    """
    midnight = datetime.combine(day + timedelta(days=1), time.min)
    return datetime.fromtimestamp(midnight.timestamp(), UTC) - timedelta(seconds=1)


def last_day(latest: datetime) -> date:
    """Return the last local date whose end is not after an instant."""
    day = latest.astimezone().date()
    return day if end_of_day(day) <= latest else day - timedelta(days=1)


def wire(moment: datetime) -> str:
    """Format an instant as RFC 3339 in UTC with `Z`, with milliseconds or microseconds only if they are not zero."""
    exact = "microseconds" if moment.microsecond % 1_000 else "milliseconds" if moment.microsecond else "seconds"
    return moment.astimezone(UTC).isoformat(timespec=exact).removesuffix("+00:00") + "Z"


def past_instant_text(text: str, flag: str) -> str:
    """Parse a past instant, such as an age, and return it as RFC 3339 in UTC.

    Args:
        flag: Name of the option, for the message.

    Raises:
        FrostError: The text has none of the forms, or is too long ago (exit 2).
    """
    if ago := _AGE.fullmatch(text):
        return _ago(text, flag, ago[1], _SECONDS[ago[2]])
    try:
        return wire(_in_years(_start_of_day, text) if is_date(text) else parse_instant(text))
    except InvalidTime as error:
        forms = "an age (30m, 2h, 3d), a date (YYYY-MM-DD) or an RFC 3339 timestamp (2027-01-31T12:00:00Z)"
        raise _invalid(flag, text, error, forms) from None


def _start_of_day(day: date) -> datetime:
    return datetime.fromtimestamp(datetime.combine(day, time.min).timestamp(), UTC)


def _ago(text: str, flag: str, number: str, seconds: int) -> str:
    try:
        return wire(now() - timedelta(seconds=int(number) * seconds))
    except (ValueError, OverflowError):  # before year 1, or too many digits
        raise usage(f"{flag}: {safe(text, 60)} is too long ago") from None

"""Parse past instants: an age, the start of a local date, or an RFC 3339 timestamp."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta

from client import times
from client.errors import usage
from client.text import safe

_AGE = re.compile(r"([0-9]+)([smhdw])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def instant_text(text: str, flag: str) -> str:
    """Parse an instant and return it as RFC 3339 in UTC.

    Args:
        flag: name of the option, for the message.

    Raises:
        FrostError: the text has none of the forms, or is too long ago (exit 2).
    """
    try:
        if ago := _AGE.fullmatch(text):
            return _ago(text, flag, ago[1], _SECONDS[ago[2]])
        if times.is_date(text):
            midnight = datetime.combine(date.fromisoformat(text), time.min)
            return times.wire(datetime.fromtimestamp(midnight.timestamp(), UTC))
        if times.is_timestamp(text):
            return times.wire(datetime.fromisoformat(text.upper()))
    except (ValueError, OverflowError):
        pass  # the date or time does not exist
    raise usage(
        f"{flag}: {safe(text, 60)!r} is no age (30m, 2h, 3d), no date (YYYY-MM-DD) and no RFC 3339 timestamp"
        " (2027-01-31T12:00:00Z)"
    )


def _ago(text: str, flag: str, number: str, seconds: int) -> str:
    try:
        return times.wire(times.now() - timedelta(seconds=int(number) * seconds))
    except (ValueError, OverflowError):  # before year 1, or too many digits
        raise usage(f"{flag}: {safe(text, 60)} is too long ago") from None

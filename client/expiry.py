"""When a key is to expire, as people write it: a local date or an instant. contract: account, `--expires`; K22 to K27

A date means the end of that day where the person is, to the second: the last one before the next midnight, whatever
the clocks do that day. An instant means itself; a fraction of a second is kept to the microsecond, never rounded up.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta

from client.errors import usage
from client.text import safe

_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"


def instant(text: str, flag: str = "--expires") -> datetime:
    """What was typed as an instant in UTC.

    Raises:
        FrostError: It is of neither form, or no such day or time (exit 2).
    """
    try:
        if is_date(text):
            return end_of_day(date.fromisoformat(text))
        if is_timestamp(text):
            return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        pass  # no such day, or one for which there are no clocks
    given = f"{safe(text, 60)!r} is neither" if text else "it is empty; it takes"
    joint = "nor" if text else "or"
    raise usage(
        f"{flag}: {given} a date (YYYY-MM-DD, the end of that day here) {joint} an RFC 3339 timestamp"
        " (2027-01-31T12:00:00Z, or with +02:00 for Z)"
    )


def is_date(text: str) -> bool:
    """Whether it has the form of a date, which ends with the day."""
    return re.fullmatch(_DATE, text) is not None


def is_timestamp(text: str) -> bool:
    """Whether it has the form of an RFC 3339 timestamp."""
    return re.fullmatch(_DATE + _TIME, text) is not None


def end_of_day(day: date) -> datetime:
    """The last second of a day by this machine's clocks, in UTC.

    The next midnight is asked for, not 23:59:59: where clocks go back at midnight, that second comes twice. By its
    timestamp, because a midnight that clocks skip would be an hour early by its time zone.
    """
    midnight = datetime.combine(day + timedelta(days=1), time.min)
    return datetime.fromtimestamp(midnight.timestamp(), UTC) - timedelta(seconds=1)


def last_day(latest: datetime) -> date:
    """The last date whose end is not after an instant, by this machine's clocks."""
    day = latest.astimezone().date()
    return day if end_of_day(day) <= latest else day - timedelta(days=1)


def wire(moment: datetime) -> str:
    """RFC 3339 in UTC with `Z`; a fraction of a second only where there is one, in milliseconds if that is enough."""
    exact = "microseconds" if moment.microsecond % 1_000 else "milliseconds" if moment.microsecond else "seconds"
    return moment.astimezone(UTC).isoformat(timespec=exact).removesuffix("+00:00") + "Z"

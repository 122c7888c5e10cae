"""The parser of times (RFC 3339) in flags, requests and policy documents, with its limits."""

import re
from datetime import UTC, datetime

MAX_FRACTION_DIGITS = 9
EXAMPLE = "2027-01-31T23:59:59Z"
NOT_RFC_3339 = f"is not an RFC 3339 timestamp with a zone, such as {EXAMPLE}"
_LONG_FRACTION = f"has more than {MAX_FRACTION_DIGITS} digits after the point"
WIDE_OFFSET = "has an offset that is not within -23:59 and +23:59"
NO_SUCH_TIME = "names a date or time that does not exist"
OUT_OF_YEARS = "is not within the years 0001 and 9999 in UTC"

# `datetime.fromisoformat` accepts more: weeks, commas, offsets with seconds.
_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.([0-9]+))?(?:Z|[+-]([0-9]{2}):([0-9]{2}))"
)


class InvalidTime(ValueError):
    """The text is no time within the limits. The message continues a sentence about it: `has an offset that …`."""


def parse_instant(text: str) -> datetime:
    """Parse an RFC 3339 time with a zone, truncated to microseconds; return it in UTC.

    Raises:
        InvalidTime: The text has another form, or exceeds a limit, which the message names.
    """
    instant, offset_minutes = _parse(text)
    if offset_minutes > 59:
        raise InvalidTime(WIDE_OFFSET)
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        raise InvalidTime(OUT_OF_YEARS) from None


def parse_stored_timestamp(text: str) -> float:
    """Parse a time of a policy document to seconds since 1970.

    Stored documents may have what `parse_instant` refuses: an offset such as +05:75, or a year 0000 or 10000 in UTC.

    Raises:
        InvalidTime: The text has another form, or exceeds a limit, which the message names.
    """
    return _parse(text)[0].timestamp()


def _parse(text: str) -> tuple[datetime, int]:
    """Return a time in its own zone, and the minutes of its offset."""
    text = text.upper() if text.isascii() else ""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise InvalidTime(NOT_RFC_3339)
    fraction, hours, minutes = match[1] or "", int(match[2] or 0), int(match[3] or 0)
    if len(fraction) > MAX_FRACTION_DIGITS:
        raise InvalidTime(_LONG_FRACTION)
    if hours > 23:
        raise InvalidTime(WIDE_OFFSET)
    try:
        return datetime.fromisoformat(text), minutes
    except ValueError:
        # Minutes over 59 can make an offset of 24 hours.
        raise InvalidTime(WIDE_OFFSET if hours * 60 + minutes >= 24 * 60 else NO_SUCH_TIME) from None

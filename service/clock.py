"""What time it is, and how an instant is written on the wire.

Everything that needs the time asks a `Clock`, so that pictures and tests can stand still
(environment variable FROST_CLOCK, an RFC 3339 instant).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """A source of aware UTC datetimes."""

    def now(self) -> datetime: ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class FixedClock:
    """A clock that stands still."""

    instant: datetime

    def now(self) -> datetime:
        return self.instant


def clock_from_environment(environ: Mapping[str, str]) -> Clock:
    """The clock FROST_CLOCK asks for, else the machine's.

    Raises:
        ValueError: FROST_CLOCK is not an RFC 3339 instant with a zone.
    """
    fixed = environ.get("FROST_CLOCK", "")
    if not fixed:
        return SystemClock()
    try:
        instant = datetime.fromisoformat(fixed)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        raise ValueError(f"FROST_CLOCK must be an RFC 3339 instant with a zone, not {fixed!r}")
    return FixedClock(instant.astimezone(UTC))


def wire_time(instant: datetime) -> str:
    """RFC 3339 in UTC with `Z`; milliseconds only when there are any, microseconds cut (`2026-01-31T09:30:00.250Z`)."""
    utc = instant.astimezone(UTC)
    text = utc.strftime("%Y-%m-%dT%H:%M:%S")
    milliseconds = utc.microsecond // 1000
    return f"{text}.{milliseconds:03d}Z" if milliseconds else f"{text}Z"

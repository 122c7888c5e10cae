"""What time it is, and how an instant is written on the wire.

Everything that needs the time asks a `Clock`, so that pictures and tests can stand still
(environment variable FROST_CLOCK, an RFC 3339 instant).
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """A source of aware UTC datetimes."""

    def now(self) -> datetime: ...


def _wall() -> datetime:
    return datetime.now(UTC)


class SystemClock:
    """The machine's clock, which never goes back while this process runs: nothing that has expired is good again.

    When the machine's clock is set back, time goes on here as it would have; when it is set forward, it is followed.
    hostile J09
    """

    def __init__(self, wall: Callable[[], datetime] = _wall, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._steady = steady
        self._anchor = (wall(), steady())

    def now(self) -> datetime:
        wall, (then, passed) = self._wall(), self._anchor
        steady = self._steady()
        expected = then + timedelta(seconds=steady - passed)
        if wall < expected:
            return expected
        self._anchor = (wall, steady)
        return wall

    def went_back(self) -> timedelta:
        """How far the machine's clock is behind what it would be, had it not been set back."""
        return self.now() - self._wall()


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
    exact = "milliseconds" if utc.microsecond >= 1000 else "seconds"
    return utc.isoformat(timespec=exact).removesuffix("+00:00") + "Z"

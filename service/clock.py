"""Clocks, and instants as RFC 3339 writes them.

Code that needs the time takes a `Clock`, so that tests and screenshots can stop it with the environment variable
FROST_CLOCK.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from client.policy.model import parse_rfc3339


class Clock(Protocol):
    """A source of aware UTC datetimes."""

    def now(self) -> datetime: ...


def _system_time() -> datetime:
    return datetime.now(UTC)


class SystemClock:
    """The system clock, except that it never goes back while the process runs: an expired credential stays expired.

    While the system clock is behind, this clock advances from its last value; it follows jumps forward.
    """

    def __init__(
        self, system: Callable[[], datetime] = _system_time, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._system = system
        self._monotonic = monotonic
        self._anchor = (system(), monotonic())

    def now(self) -> datetime:
        instant, monotonic = self._system(), self._monotonic()
        anchor_instant, anchor_monotonic = self._anchor
        expected = anchor_instant + timedelta(seconds=monotonic - anchor_monotonic)
        if instant < expected:
            return expected
        self._anchor = (instant, monotonic)
        return instant

    def lag(self) -> timedelta:
        """Return how far the system clock is behind this one."""
        return self.now() - self._system()


@dataclass(frozen=True, slots=True)
class FixedClock:
    """A clock that is stopped."""

    instant: datetime

    def now(self) -> datetime:
        return self.instant


def clock_from_environment(environ: Mapping[str, str]) -> Clock:
    """Return a clock stopped at FROST_CLOCK if that is set, otherwise the system clock.

    Raises:
        ValueError: FROST_CLOCK is not an instant with a zone.
    """
    text = environ.get("FROST_CLOCK", "")
    if not text:
        return SystemClock()
    try:
        # Every ISO 8601 form, as in the client.
        instant = datetime.fromisoformat(text)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        raise ValueError(f"FROST_CLOCK must be an RFC 3339 instant with a zone, not {text!r}")
    return FixedClock(instant.astimezone(UTC))


def parse_instant(text: str) -> datetime | None:
    """Parse an RFC 3339 instant with a zone as UTC; None if it is not one."""
    instant = parse_rfc3339(text)
    try:
        return None if instant is None else instant.astimezone(UTC)
    except OverflowError:
        return None


def wire_time(instant: datetime) -> str:
    """Format an instant as RFC 3339 in UTC, with milliseconds only if it has any (`2026-01-31T09:30:00.250Z`)."""
    utc = instant.astimezone(UTC)
    precision = "milliseconds" if utc.microsecond >= 1000 else "seconds"
    return utc.isoformat(timespec=precision).removesuffix("+00:00") + "Z"

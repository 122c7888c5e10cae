"""Clocks, and instants in RFC 3339 format. The environment variable FROST_CLOCK stops the clock for tests."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

import orjson


class Clock(Protocol):
    """A source of aware datetimes in UTC."""

    def now(self) -> datetime: ...


def _system_time() -> datetime:
    return datetime.now(UTC)


class SystemClock:
    """The system clock, made monotonic so that expired credentials remain expired. It follows jumps forward."""

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
        """Return how far the system clock is behind."""
        return self.now() - self._system()


@dataclass(frozen=True, slots=True)
class FixedClock:
    instant: datetime

    def now(self) -> datetime:
        return self.instant


def clock_from_environment(environ: Mapping[str, str]) -> Clock:
    """Return a clock fixed at FROST_CLOCK, by default the system clock.

    Raises:
        ValueError: FROST_CLOCK is not an instant with a zone.
    """
    text = environ.get("FROST_CLOCK", "")
    if not text:
        return SystemClock()
    try:
        # ISO 8601, as in the client.
        instant = datetime.fromisoformat(text)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        raise ValueError(f"FROST_CLOCK must be an RFC 3339 instant with a zone, not {text!r}")
    return FixedClock(instant.astimezone(UTC))


def wire_time(instant: datetime) -> str:
    """Format an instant (RFC 3339, UTC), with milliseconds unless 0 (`2026-01-31T09:30:00.250Z`)."""
    utc = instant.astimezone(UTC)
    # A quoted text with microseconds, in a third of the time of `isoformat`.
    text = orjson.dumps(utc).decode()
    return (text[1:24] if utc.microsecond >= 1000 else text[1:20]) + "Z"

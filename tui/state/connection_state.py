"""State of the connection to the platform, and its retry delays. No I/O and no clock."""

from dataclasses import dataclass
from datetime import datetime

BACKOFF = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds between attempts while the platform does not respond; the last value repeats."""
STEPS_MS = (10, 25, 50, 100, 250, 500, 1000, 2500, 5000)
"""Steps of the displayed latency, which is smoothed: jitter would repaint an idle screen."""
SMOOTHING = 0.25


@dataclass(slots=True)
class Link:
    """State of the connection: `opening`, `up`, `lost` or `signed_out`."""

    state: str = "opening"
    since: datetime | None = None
    """Time of the first failure."""
    tries: int = 0
    why: str = ""
    latency_ms: float | None = None
    stopped: bool = False
    """Whether the platform was stopped on purpose. Only the user starts it again."""

    def answered(self, latency_ms: float | None) -> bool:
        """Record a response. Return whether the displayed state changes."""
        before = (self.state, self.latency)
        self.state, self.since, self.tries, self.why, self.stopped = "up", None, 0, "", False
        if latency_ms is not None and self.latency_ms is not None:
            latency_ms = self.latency_ms + SMOOTHING * (latency_ms - self.latency_ms)
        self.latency_ms = latency_ms if latency_ms is not None else self.latency_ms
        return before != (self.state, self.latency)

    def failed(self, why: str, at: datetime, *, stopped: bool = False) -> None:
        """Record a failure. `since` is the time of the first one."""
        if self.state != "lost":
            self.state, self.since, self.tries = "lost", at, 0
        self.tries += 1
        self.stopped = stopped
        self.why = why

    def refused(self, why: str) -> None:
        """Record the end of the session. Requests are suspended until the next sign-in."""
        self.state, self.since, self.why = "signed_out", None, why

    @property
    def pause(self) -> float:
        """Seconds until the next attempt."""
        return BACKOFF[min(max(self.tries, 1), len(BACKOFF)) - 1]

    @property
    def latency(self) -> str:
        """The latency, rounded up to a step (`5 ms`); empty if unknown."""
        if self.latency_ms is None:
            return ""
        step = next((step for step in STEPS_MS if self.latency_ms <= step), None)
        return f"{step} ms" if step is not None else "> 5 s"

"""What is known of the connection to the platform, and when to try again. No I/O, no clock of its own."""

from dataclasses import dataclass
from datetime import datetime

BACKOFF = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds before each further try while the platform does not answer; the last one repeats."""
STEPS_MS = (10, 25, 50, 100, 250, 500, 1000, 2500, 5000)
"""Latency is shown in these steps, smoothed: a figure that jitters would repaint an idle screen."""
SMOOTHING = 0.25


@dataclass(slots=True)
class Link:
    """The state of the connection: `opening`, `up`, `lost` or `signed_out`."""

    state: str = "opening"
    since: datetime | None = None
    """When the connection was lost."""
    tries: int = 0
    why: str = ""
    latency_ms: float | None = None
    stopped: bool = False
    """Whether it is lost because somebody stopped the platform; only a person starts it again."""

    def answered(self, latency_ms: float | None) -> bool:
        """The platform answered; tells whether anything shown changes."""
        before = (self.state, self.latency)
        self.state, self.since, self.tries, self.why, self.stopped = "up", None, 0, "", False
        if latency_ms is not None and self.latency_ms is not None:
            latency_ms = self.latency_ms + SMOOTHING * (latency_ms - self.latency_ms)
        self.latency_ms = latency_ms if latency_ms is not None else self.latency_ms
        return before != (self.state, self.latency)

    def failed(self, why: str, at: datetime, *, stopped: bool = False) -> None:
        """The platform did not answer. `since` stays that of the first failure."""
        if self.state != "lost":
            self.state, self.since, self.tries = "lost", at, 0
        self.tries += 1
        self.stopped = stopped
        self.why = why

    def refused(self, why: str) -> None:
        """The session is over: nothing is asked until somebody signs in."""
        self.state, self.since, self.why = "signed_out", None, why

    @property
    def pause(self) -> float:
        """Seconds until the next try."""
        return BACKOFF[min(max(self.tries, 1), len(BACKOFF)) - 1]

    @property
    def latency(self) -> str:
        """`5 ms` and the like, rounded up to a step; empty when unknown."""
        if self.latency_ms is None:
            return ""
        step = next((step for step in STEPS_MS if self.latency_ms <= step), None)
        return f"{step} ms" if step is not None else "> 5 s"

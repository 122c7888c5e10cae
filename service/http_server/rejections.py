"""Count the requests and connections beyond a limit, and log a remedy. Event loop only."""

import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping

logger = logging.getLogger(__name__)

LOG_INTERVAL_SECONDS = 1.0
# Within a second. From then on, the server slows the clients that it refuses.
FLOOD_REJECTIONS = 100
ADVICE: Mapping[str, str] = {
    "connections": "too many connections: raise FROST_PLATFORM_MAX_CONNECTIONS or its limit per address",
    "requests": "too many requests: raise FROST_PLATFORM_MAX_REQUESTS or its limit per address, or add a replica",
    "bodies": "too many request bodies: raise FROST_PLATFORM_MAX_BODY_MEBIBYTES or its limit per address",
    "late_bodies": "request bodies arrive too slowly: check the network, or raise FROST_PLATFORM_BODY_SECONDS",
    "large_bodies": "too many large bodies wait: send them one after another",
    "event_streams": "too many event streams: raise FROST_PLATFORM_MAX_EVENT_STREAMS, or add a replica",
    "reads": "too many reads wait: lower the rate limit of the busiest keys, or add a replica",
    "writes": "too many writes wait: check the storage of the database, or lower the rate limit of the busiest keys",
    "cpu_intensive": "too many CPU-intensive requests wait: add cores or a replica",
    "sign_ins": "too many sign-ins wait: check the identity providers of the clusters",
}
"""Remedies by the limit that rejected a request."""


def spread(seconds: float, uniform: Callable[[float, float], float] = random.uniform) -> float:
    """Return a random time of one to two times `seconds`, so that clients do not come back at once."""
    return uniform(seconds, 2 * seconds)


class Rejections:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.counts: Counter[str] = Counter()
        """By the keys of `ADVICE`, since the start."""
        self._clock = clock
        self._logged_at = float("-inf")
        self._second = float("-inf")
        self._in_second = 0

    def record(self, limit: str) -> None:
        """Count a rejection, and log at most once a second."""
        self.counts[limit] += 1
        now = self._clock()
        if now - self._second >= 1.0:
            self._second, self._in_second = now, 0
        self._in_second += 1
        if now - self._logged_at >= LOG_INTERVAL_SECONDS:
            self._logged_at = now
            counts = ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items()))
            logger.warning("overloaded: %s; refused since the start: %s", ADVICE[limit], counts)

    def is_flood(self) -> bool:
        """Return whether the last second had so many rejections that they delay other requests."""
        return self._in_second > FLOOD_REJECTIONS and self._clock() - self._second < 1.0

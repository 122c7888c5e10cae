"""Counters of requests for `service/operator/monitoring.py`: by route, and those beyond a limit.

Requests and connections beyond a limit are counted on the event loop only, and logged with a remedy.
"""

import logging
import random
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping

from starlette.types import Scope

logger = logging.getLogger(__name__)

LOG_INTERVAL_SECONDS = 1.0
# Within a second. From then on, the server slows the clients that it refuses.
FLOOD_REJECTIONS = 100
ADVICE: Mapping[str, str] = {
    "connections": "too many connections: raise FROST_PLATFORM_MAX_CONNECTIONS or its limit per address",
    "requests": "too many requests: raise FROST_PLATFORM_MAX_REQUESTS or its limit per address, or add a replica",
    "unauthenticated": "too many requests of a network without a valid credential: block it, or check its clients",
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
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds in seconds, without the last, unbounded bucket."""
READ_ONLY_SECONDS = 30
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
UNROUTED = "unrouted"


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
        now = self.count_for_flood()
        if now - self._logged_at >= LOG_INTERVAL_SECONDS:
            self._logged_at = now
            counts = ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items()))
            logger.warning("overloaded: %s; refused since the start: %s", ADVICE[limit], counts)

    def count_for_flood(self) -> float:
        """Count a refused request for `is_flood` only; return the time."""
        now = self._clock()
        if now - self._second >= 1.0:
            self._second, self._in_second = now, 0
        self._in_second += 1
        return now

    def is_flood(self) -> bool:
        """Return whether the last second had so many rejections that they delay other requests."""
        return self._in_second > FLOOD_REJECTIONS and self._clock() - self._second < 1.0


class RequestMetrics:
    """Counters of this process. Clients cannot create labels."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.seconds: dict[str, tuple[float, list[int]]] = {}
        self.audit_failures = 0
        self.rejections = Rejections()
        self._read_only_at = float("-inf")

    def record(self, method: str, route: str, status: int, seconds: float) -> None:
        """Record a request. Status 0: the client disconnected before the response."""
        self.requests[method if method in METHODS else "other", route, status] += 1
        total, counts = self.seconds.get(route) or (0.0, [0] * (len(BUCKETS) + 1))
        counts[bisect_left(BUCKETS, seconds)] += 1
        self.seconds[route] = (total + seconds, counts)

    def record_audit_failure(self) -> None:
        self.audit_failures += 1

    def record_read_only(self) -> None:
        """Record a change that failed because the database is full or read-only."""
        self._read_only_at = time.monotonic()

    def is_writable(self) -> bool:
        """Return whether no such change failed in the last 30 seconds."""
        return time.monotonic() - self._read_only_at > READ_ONLY_SECONDS


def route_of(scope: Scope) -> str:
    """Return the path template of the matched route, e.g. `/api/v1/tenants/{tenant_id}`."""
    return str(getattr(scope.get("route"), "path_format", UNROUTED))

"""Request metrics for `service/operator/monitoring.py`."""

import time
from bisect import bisect_left
from collections import Counter

from starlette.types import Scope

from service.http_server.rejections import Rejections

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds in seconds, without the last, unbounded bucket."""
READ_ONLY_SECONDS = 30
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
UNROUTED = "unrouted"


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

"""Counts requests by route, status and duration, for `service/operator/metrics.py`."""

import time
from bisect import bisect_left
from collections import Counter

from starlette.types import Scope

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds; the last count is of what took longer."""
REMEMBERED_SECONDS = 30
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
UNROUTED = "unrouted"


class RequestMetrics:
    """Counts of this process. Labels come from the route table, never from what a caller writes."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.seconds: dict[str, tuple[float, list[int]]] = {}
        self.audit_failures = 0
        self.refused: Counter[str] = Counter()
        """Refusals by the limit that was reached; `Admission` counts them."""
        self._refused_at = float("-inf")

    def note(self, method: str, route: str, status: int, seconds: float) -> None:
        """One request that was answered; status 0 when its caller left before."""
        self.requests[method if method in METHODS else "other", route, status] += 1
        total, counts = self.seconds.get(route) or (0.0, [0] * (len(BUCKETS) + 1))
        counts[bisect_left(BUCKETS, seconds)] += 1
        self.seconds[route] = (total + seconds, counts)

    def note_audit_failure(self) -> None:
        """A change that did not happen because its audit entry could not be written."""
        self.audit_failures += 1

    def note_no_changes(self) -> None:
        """A change that was refused because the database is full or read-only."""
        self._refused_at = time.monotonic()

    def takes_changes(self) -> bool:
        """Whether none was refused for that within the last half minute."""
        return time.monotonic() - self._refused_at > REMEMBERED_SECONDS


def route_of(scope: Scope) -> str:
    """The template of the route that answered, e.g. `/api/v1/tenants/{tenant_id}`."""
    return str(getattr(scope.get("route"), "path_format", UNROUTED))

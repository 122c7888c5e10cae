"""A rate limit in memory, by the generic cell rate algorithm (GCRA)."""

from collections.abc import Callable

from service.lru_cache import LruCache

MAX_KEYS = 10_000


class TokenBucket:
    """Rate limits in memory for at most `max_keys` keys. Not thread-safe.

    Args:
        burst: requests available at once.
        interval: seconds after which a request is restored.
        clock: a monotonic clock, in seconds.
    """

    def __init__(self, burst: int, interval: float, clock: Callable[[], float], *, max_keys: int = MAX_KEYS) -> None:
        self._allowance = (burst - 1) * interval
        self._interval = interval
        self._clock = clock
        self._full_at: LruCache[str, float] = LruCache(max_keys)

    def wait_seconds(self, key: str) -> float:
        """Return the seconds until another request fits."""
        return max(0.0, (self._full_at.get(key) or 0.0) - self._clock() - self._allowance)

    def take(self, key: str) -> float:
        """Count a request if it fits; otherwise return the seconds to wait."""
        wait = self.wait_seconds(key)
        if not wait:
            self._full_at[key] = max(self._full_at.get(key) or 0.0, self._clock()) + self._interval
        return wait

    def block(self, key: str, seconds: float) -> None:
        self._full_at[key] = max(self._full_at.get(key) or 0.0, self._clock() + self._allowance + seconds)

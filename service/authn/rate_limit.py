"""Rate limits by the generic cell rate algorithm (GCRA): in the database, or in the memory of one process.

A key has the requests of a minute at once, and each becomes available again after its share of a minute, so there is
no edge of a window at which twice as many pass. One instant is stored per key: when its allowance is whole again.

The algorithm exists twice because the counts of API keys and of replicas are shared in the database, where one SQL
statement must read, compare and write: it is exact for concurrent requests and uses the clock of the database.
`TokenBucket` counts without a database write, for failed logins and for SQLite.
"""

import time
from collections.abc import Callable
from hashlib import sha256

from sqlalchemy import Connection, text

from service.db import dialect
from service.errors import ApiError
from service.lru_cache import LruCache

MINUTE = 60_000_000  # microseconds
MAX_KEYS = 10_000

# An instant more than a minute ahead means that the clock was set back: it is ignored.
_CONSUME_SQL = """
INSERT INTO rate_limits (key_id, full_at) VALUES (:key, {now} + :step)
ON CONFLICT (key_id) DO UPDATE SET full_at = {step_from} + :step
WHERE {step_from} - {now} <= :minute - :step
RETURNING full_at
"""
_STEP_FROM = "CASE WHEN rate_limits.full_at BETWEEN {now} AND {now} + :minute THEN rate_limits.full_at ELSE {now} END"
_NOW_OR_PARAMETER = f"coalesce(CAST(:now AS bigint), {dialect.POSTGRESQL_NOW})"


def _statement(now: str) -> str:
    return _CONSUME_SQL.format(now=now, step_from=_STEP_FROM.format(now=now))


_CONSUME = {
    # The clock of SQLite has no microseconds; its file is on this machine.
    "sqlite": (text(_statement(":now")), text("SELECT full_at - :now FROM rate_limits WHERE key_id = :key")),
    "postgresql": (
        text(_statement(_NOW_OR_PARAMETER)),
        text(f"SELECT full_at - {_NOW_OR_PARAMETER} FROM rate_limits WHERE key_id = :key"),  # noqa: S608 - a constant
    ),
}

_FAILURE_PREFIX = "guess:"
_DELETE_EXPIRED = text(
    "DELETE FROM rate_limits WHERE key_id IN (SELECT key_id FROM rate_limits"  # noqa: S608 - a constant
    f" WHERE full_at < {dialect.POSTGRESQL_NOW} FOR UPDATE SKIP LOCKED)"
)


def consume(
    connection: Connection, key_id: str, per_minute: int, requests: int = 1, *, now: int | None = None
) -> int | None:
    """Count a request of a key; return None, or the seconds to wait if it exceeds the limit.

    Args:
        requests: how many requests it counts as; at most those of a whole minute.
        now: microseconds since 1970; by default the server's clock on PostgreSQL and this machine's on SQLite.
    """
    kind, step = connection.dialect.name, min(MINUTE, MINUTE // per_minute * requests)
    statement, remaining = _CONSUME[kind]
    values: dict[str, int | str | None] = {"key": key_id, "step": step, "minute": MINUTE}
    clock = {"now": time.time_ns() // 1_000 if now is None and kind == "sqlite" else now}
    if connection.execute(statement, values | clock).scalar() is not None:
        return None
    ahead = connection.execute(remaining, {"key": key_id} | clock).scalar() or 0
    return whole_seconds(int(ahead) - (MINUTE - step))


def throttle_key(name: str) -> str:
    """Return the key of a failure counter: `guess:` and a hash, 36 characters, never the id of an API key.

    Args:
        name: a network address or the prefix of an API key.
    """
    return f"{_FAILURE_PREFIX}{sha256(name.encode()).hexdigest()[: 36 - len(_FAILURE_PREFIX)]}"


def delete_expired(connection: Connection) -> None:
    """Delete the rows whose allowance is whole again (PostgreSQL only; skips locked rows)."""
    connection.execute(_DELETE_EXPIRED)


class TokenBucket:
    """Counts in memory, for each of at most `max_keys` keys. Not thread-safe.

    Args:
        burst: requests that a key has at once.
        interval: seconds after which one becomes available again.
        clock: a monotonic clock, in seconds.
    """

    def __init__(self, burst: int, interval: float, clock: Callable[[], float], *, max_keys: int = MAX_KEYS) -> None:
        self._allowance = (burst - 1) * interval
        self._interval = interval
        self._clock = clock
        self._full_at: LruCache[str, float] = LruCache(max_keys)

    def wait_seconds(self, key: str) -> float:
        """Return the seconds until another request of this key fits; 0 if it fits now."""
        return max(0.0, (self._full_at.get(key) or 0.0) - self._clock() - self._allowance)

    def take(self, key: str) -> float:
        """Count a request if it fits; return the seconds to wait otherwise."""
        wait = self.wait_seconds(key)
        if not wait:
            self._full_at[key] = max(self._full_at.get(key) or 0.0, self._clock()) + self._interval
        return wait

    def block(self, key: str, seconds: float) -> None:
        """Let no request of this key fit for so long."""
        self._full_at[key] = max(self._full_at.get(key) or 0.0, self._clock() + self._allowance + seconds)


def whole_seconds(microseconds: int) -> int:
    """Round up to whole seconds, at least one."""
    return max(1, -(-microseconds // 1_000_000))


class RateLimited(ApiError):
    """A 429 with the body of the API gateway, in which `error` is a string."""

    def __init__(self, wait: int) -> None:
        message = f"Too many requests. Please retry after {wait} seconds."
        super().__init__(429, "RATE_LIMITED", message, flat=True, headers={"Retry-After": str(wait)})
        self.body = {"error": "rate limit exceeded", "message": message, "retry_after": wait}


def rate_limited(wait: int) -> ApiError:
    """Return the error for a request that came `wait` seconds too early."""
    return RateLimited(wait)

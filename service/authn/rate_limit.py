"""Rate limits counted in the database: one statement of SQL a request, exact for requests at the same time.

The generic cell rate algorithm: a key has a minute's requests at once, and each comes back after its share of a
minute, so there is no edge of a window at which twice as many pass. What is stored per key, or per session or workload
identity, is the one instant at which its allowance will be whole again. All processes share it, on the database's own
clock.
"""

import time
from hashlib import sha256

from sqlalchemy import Connection, text

from service.db import dialect
from service.errors import ApiError

MINUTE = 60_000_000  # microseconds

# An instant further off than a minute can only be there because the clock was set back: it is as good as none.
_TAKE = """
INSERT INTO rate_limits (key_id, full_at) VALUES (:key, {now} + :step)
ON CONFLICT (key_id) DO UPDATE SET full_at = {step_from} + :step
WHERE {step_from} - {now} <= :minute - :step
RETURNING full_at
"""
_STEP_FROM = "CASE WHEN rate_limits.full_at BETWEEN {now} AND {now} + :minute THEN rate_limits.full_at ELSE {now} END"
_NOW_OR_GIVEN = f"coalesce(CAST(:now AS bigint), {dialect.POSTGRESQL_NOW})"


def _statement(now: str) -> str:
    return _TAKE.format(now=now, step_from=_STEP_FROM.format(now=now))


_TAKES = {
    # SQLite has no clock of its own finer than a millisecond; it runs on the machine that asks.
    "sqlite": (text(_statement(":now")), text("SELECT full_at - :now FROM rate_limits WHERE key_id = :key")),
    "postgresql": (
        text(_statement(_NOW_OR_GIVEN)),
        text(f"SELECT full_at - {_NOW_OR_GIVEN} FROM rate_limits WHERE key_id = :key"),  # noqa: S608 - a constant
    ),
}

_GUESS = "guess:"
_FORGET = text(
    "DELETE FROM rate_limits WHERE key_id IN (SELECT key_id FROM rate_limits"  # noqa: S608 - a constant
    f" WHERE full_at < {dialect.POSTGRESQL_NOW} FOR UPDATE SKIP LOCKED)"
)


def consume(
    connection: Connection, key_id: str, per_minute: int, requests: int = 1, *, now: int | None = None
) -> int | None:
    """Count one request of a key: None when it fits, else how many seconds later it would.

    Args:
        requests: a request that costs as much as several counts as so many, but never as more than a whole minute's.
        now: microseconds since 1970; by default the server's clock on PostgreSQL and this machine's on SQLite.
    """
    kind, step = connection.dialect.name, min(MINUTE, MINUTE // per_minute * requests)
    statement, left = _TAKES[kind]
    values: dict[str, int | str | None] = {"key": key_id, "step": step, "minute": MINUTE}
    clock = {"now": time.time_ns() // 1_000 if now is None and kind == "sqlite" else now}
    if connection.execute(statement, values | clock).scalar() is not None:
        return None
    ahead = connection.execute(left, {"key": key_id} | clock).scalar() or 0
    return whole_seconds(int(ahead) - (MINUTE - step))


def throttle_key(name: str) -> str:
    """What guesses of a name (an address, how a key begins) are counted under: 36 characters, no key's id."""
    return f"{_GUESS}{sha256(name.encode()).hexdigest()[: 36 - len(_GUESS)]}"


def forget(connection: Connection) -> None:
    """Remove the rows whose allowance is whole again. PostgreSQL only; rows in use are left for the next time."""
    connection.execute(_FORGET)


def whole_seconds(microseconds: int) -> int:
    """Whole seconds, rounded up, at least one."""
    return max(1, -(-microseconds // 1_000_000))


class RateLimited(ApiError):
    """429 as the gateway speaks it: here `error` is a string. contract: Rate limit"""

    def __init__(self, wait: int) -> None:
        message = f"Too many requests. Please retry after {wait} seconds."
        super().__init__(429, "RATE_LIMITED", message, flat=True, headers={"Retry-After": str(wait)})
        self.body = {"error": "rate limit exceeded", "message": message, "retry_after": wait}


def rate_limited(wait: int) -> ApiError:
    """The refusal of a request that comes `wait` seconds too early."""
    return RateLimited(wait)

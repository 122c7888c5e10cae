"""Rate limits of API keys, sessions and workload identities, counted in memory.

`take` neither waits nor uses the database, so the event loop can call it. If it returns False, call `renew` in a
thread.

On SQLite, the only process counts in memory and writes the state each second and at the stop. On PostgreSQL, processes
share an allowance in leases (`leased_limits.py`).
"""

import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping

from sqlalchemy import Connection, delete, select

from service.authn.rate_limit import MINUTE, interval_and_count, rate_limited, whole_seconds
from service.db.dialect import upsert_insert
from service.db.engine import Database
from service.db.tables import rate_limits

Microseconds = Callable[[], int]
EXAMINED_KEYS = 2
"""Keys that each new key examines, to remove those with a full allowance."""
SWEEP_MICROSECONDS = MINUTE


def monotonic() -> int:
    return time.monotonic_ns() // 1_000


def wall_time() -> int:
    return time.time_ns() // 1_000


class RequestLimits(ABC):
    """Admit a number of requests a minute for each key. Thread-safe."""

    def __init__(self, clock: Microseconds) -> None:
        self._clock = clock
        self._lock = threading.Lock()

    def take(self, key: str, per_minute: int, requests: int = 1) -> bool:
        """Count requests of a key without waiting; return False if they are not counted and `renew` must be called.

        Args:
            key: the id of an API key, a session or a workload identity.
            requests: the weight. At most a minute's allowance.

        Raises:
            ApiError: 429 with `Retry-After`.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            wait = self._count(key, *interval_and_count(per_minute, requests))
        finally:
            self._lock.release()
        if wait:
            raise rate_limited(whole_seconds(wait))
        return wait is not None

    @abstractmethod
    def renew(self, key: str, per_minute: int, requests: int = 1) -> None:
        """Count requests of a key. May wait for a lock and for the database.

        Raises:
            ApiError: 429 with `Retry-After`.
            DBAPIError: the query failed. With a read-only database nothing is counted.
        """

    @abstractmethod
    def _count(self, key: str, interval: int, requests: int) -> int | None:
        """Count requests with the lock held.

        Returns:
            0; the microseconds to wait beyond the limit; None if the database must be queried.
        """


class LocalLimits(RequestLimits):
    """Limits of the only process of a database.

    A key with a full allowance needs no memory and no row. While the process runs, steps of the wall clock have no
    effect.

    Args:
        clock: a monotonic clock in microseconds.
        wall_clock: microseconds since 1970, for the rows.
    """

    def __init__(
        self, database: Database, clock: Microseconds = monotonic, wall_clock: Microseconds = wall_time
    ) -> None:
        super().__init__(clock)
        self._wall_clock = wall_clock
        self._full_at: OrderedDict[str, int] = OrderedDict()
        self._changed: set[str] = set()
        self._swept_at = clock()
        self._load(database)

    def renew(self, key: str, per_minute: int, requests: int = 1) -> None:
        with self._lock:
            wait = self._count(key, *interval_and_count(per_minute, requests))
        if wait:
            raise rate_limited(whole_seconds(wait))

    def _count(self, key: str, interval: int, requests: int) -> int:
        now, cost = self._clock(), interval * requests
        full_at = self._full_at.get(key)
        if full_at is None:
            self._forget_full(now)
        start = now if full_at is None or full_at < now else full_at
        wait = start - now - (MINUTE - cost)
        if wait > 0:
            return wait
        self._full_at[key] = start + cost
        self._changed.add(key)
        return 0

    def _forget_full(self, now: int) -> None:
        for key, full_at in [self._full_at.popitem(last=False) for _ in range(min(EXAMINED_KEYS, len(self._full_at)))]:
            if full_at > now:
                self._full_at[key] = full_at

    def _load(self, database: Database) -> None:
        now, wall = self._clock(), self._wall_clock()
        with database.read() as connection:
            for row in connection.execute(select(rate_limits).where(rate_limits.c.full_at > wall)):
                # A row more than two minutes ahead is ignored: the clock was set back.
                if row.full_at - wall <= 2 * MINUTE:
                    self._full_at[row.key_id] = now + min(row.full_at - wall, MINUTE)

    def drain(self) -> Mapping[str, int]:
        """Return the instants at which the changed keys have a full allowance."""
        with self._lock:
            changed, self._changed = self._changed, set()
        now = self._clock()
        return {key: full_at for key in changed if (full_at := self._full_at.get(key, 0)) > now}

    def write(self, connection: Connection, batch: Mapping[str, int]) -> None:
        now, wall = self._clock(), self._wall_clock()
        statement = upsert_insert(connection, rate_limits)
        statement = statement.on_conflict_do_update(
            index_elements=["key_id"], set_={"full_at": statement.excluded.full_at}
        )
        connection.execute(
            statement, [{"key_id": key, "full_at": full_at - now + wall} for key, full_at in batch.items()]
        )
        if now - self._swept_at >= SWEEP_MICROSECONDS:
            self._swept_at = now
            connection.execute(delete(rate_limits).where(rate_limits.c.full_at < wall))

    def put_back(self, batch: Mapping[str, int]) -> None:
        with self._lock:
            self._changed.update(batch)

"""Rate limits of API keys, sessions and workload identities, counted in memory.

`take` neither waits nor uses the database, so the event loop can call it. If it returns False, call `renew` in a
thread.

On SQLite, the only process counts in memory and writes the state each second and at the stop. On PostgreSQL, several
processes share the limits: each takes leases of an allowance from its row in the database.

A lease adds its requests to the row at once, and lasts until the allowance would be full again after it. Towards this
end its unused requests expire as fast as the row restores them. So the unused requests of all processes never exceed
what the row counts as used: no burst exceeds the allowance, and an idle or dead process needs no clean-up.

While less than 1.5 % of the allowance is in use, a lease holds the rest of this part. Otherwise it holds the requests
of a quarter of a second at the recent rate of the process, and near the limit a single one.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, delete, select

from service.authn.rate_limit import (
    HELD_MICROSECONDS,
    MINUTE,
    Grant,
    delete_expired,
    interval_and_count,
    rate_limited,
    take_lease,
    whole_seconds,
)
from service.db.dialect import ignore_if_read_only, upsert_insert
from service.db.engine import Database
from service.db.tables import rate_limits

Microseconds = Callable[[], int]
EXAMINED_KEYS = 2
"""Keys that each new key examines, to remove those with a full allowance."""
SWEEP_MICROSECONDS = MINUTE
MAX_LEASES = 100_000
DEMAND_MICROSECONDS = 250_000
"""For how long a lease lasts at the recent rate of its key."""
DRIFT = 1_000
"""A lease ends earlier by this part of its time, because the clocks of processes and database differ in speed."""

TakeLease = Callable[[str, int, int, int], Grant]
"""Adds requests to the row of a key: the interval, the required number and the preferred number."""


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


def leases_of(database: Database) -> TakeLease:
    """Return the function that takes leases from the rows of a database."""

    def take(key: str, interval: int, needed: int, wanted: int) -> Grant:
        with database.autocommit() as connection:
            return take_lease(connection, key, interval, needed, wanted, HELD_MICROSECONDS)

    return take


@dataclass(slots=True, eq=False)
class _Lease:
    """The lease of a key. Instants are microseconds of the local clock.

    `unused` requests are valid until `ends_at`. `full_at`: the row has a full allowance then, or later.
    """

    interval: int
    unused: int = 0
    ends_at: int = 0
    full_at: int = 0
    used: int = 0
    taken_at: int = 0
    renewal: threading.Lock = field(default_factory=threading.Lock)

    def valid(self, now: int) -> int:
        """Return the number of unused requests that have not expired."""
        left = self.ends_at - now
        return max(0, min(self.unused, (left - left // DRIFT) // self.interval))

    def wanted(self, now: int) -> int:
        """Return the number of requests that are expected soon: at most twice as many as were used."""
        return min(2 * self.used, self.used * DEMAND_MICROSECONDS // max(1, now - self.taken_at))


class LeasedLimits(RequestLimits):
    """Limits of one of several processes. At most `max_leases` keys are in memory; a removed lease is lost.

    Args:
        take_lease: takes leases from the rows (`leases_of`).
        clock: a monotonic clock in microseconds.
    """

    def __init__(self, take_lease: TakeLease, clock: Microseconds = monotonic, *, max_leases: int = MAX_LEASES) -> None:
        super().__init__(clock)
        self._take_lease = take_lease
        self._max_leases = max_leases
        self._leases: OrderedDict[str, _Lease] = OrderedDict()
        self._is_row_written = False
        self._swept_at = clock()

    def renew(self, key: str, per_minute: int, requests: int = 1) -> None:
        interval, requests = interval_and_count(per_minute, requests)
        with self._lock:
            lease = self._lease(key, interval)
        # One at a time: the next request may find enough in the new lease.
        with lease.renewal:
            with self._lock:
                wait = self._count(key, interval, requests)
                if wait is None:
                    # Reserved while the database is queried for the rest.
                    now = self._clock()
                    held, wanted = lease.valid(now), lease.wanted(now)
                    lease.unused = 0
            if wait is None:
                wait = self._renew(key, lease, requests, held, wanted)
        if wait:
            raise rate_limited(whole_seconds(wait))

    def _renew(self, key: str, lease: _Lease, requests: int, held: int, wanted: int) -> int:
        """Take a lease for requests beyond the held ones; return the microseconds to wait beyond the limit."""
        needed, began, grant = requests - held, self._clock(), None
        try:
            with ignore_if_read_only("a request could not be counted"):
                grant = self._take_lease(key, lease.interval, needed, wanted)
        finally:
            with self._lock:
                if grant is None or not grant.requests:
                    lease.unused = held
                if grant is not None:
                    # The database has measured `ahead` after `began`, so the lease ends too early rather than too late.
                    lease.full_at = began + grant.ahead
                    self._is_row_written = True
                    if grant.requests:
                        lease.unused, lease.ends_at = grant.requests - needed, lease.full_at
                        lease.used, lease.taken_at = requests, began
        if grant is None or grant.requests:
            return 0
        return max(1, grant.ahead - (MINUTE - needed * lease.interval))

    def _count(self, key: str, interval: int, requests: int) -> int | None:
        lease = self._leases.get(key)
        if lease is None or lease.interval != interval:
            return None
        now = self._clock()
        valid = lease.valid(now)
        if valid >= requests:
            lease.unused = valid - requests
            lease.used += requests
            return 0
        wait = lease.full_at - now - (MINUTE - (requests - valid) * interval)
        return wait if wait > 0 else None

    def _lease(self, key: str, interval: int) -> _Lease:
        """Return the lease of a key, without requests if the limit has changed."""
        lease = self._leases.get(key)
        if lease is not None and lease.interval == interval:
            return lease
        now = self._clock()
        for _ in range(min(EXAMINED_KEYS, len(self._leases))):
            oldest, other = self._leases.popitem(last=False)
            if other.full_at > now and len(self._leases) < self._max_leases - 1:
                self._leases[oldest] = other
        lease = self._leases[key] = _Lease(interval, taken_at=now)
        return lease

    def drain(self) -> bool:
        """Return whether to remove rows with a full allowance: once a minute if leases were taken."""
        now = self._clock()
        if not self._is_row_written or now - self._swept_at < SWEEP_MICROSECONDS:
            return False
        self._is_row_written, self._swept_at = False, now
        return True

    def write(self, connection: Connection, batch: bool) -> None:
        delete_expired(connection)

    def put_back(self, batch: bool) -> None:
        self._is_row_written = True

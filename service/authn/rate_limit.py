"""Rate limits by the generic cell rate algorithm (GCRA), and the throttle of failed logins.

A key may use its requests of a minute at once; each is restored after its share of a minute, the interval. Only the
instant at which the allowance is fully restored is stored. The database of several processes gives requests in leases
(`take_lease`): a single statement, exact for concurrent processes.

Failed logins are throttled per client address, per network and per API-key prefix. An address or network with too many
failures is refused before any lookup, except with a recently accepted credential. A prefix only turns a 401 into a 429,
so it cannot lock out a key. Requests without a credential are throttled per network, and do not count as failures.
These limits are in memory (`TokenBucket`). With PostgreSQL, replicas also share the limits of an address and a prefix
for failures after a database lookup; other failures, such as a wrong checksum, are not worth a database write.
"""

import itertools
import threading
import time
from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple

from sqlalchemy import Connection, text

from service.db import dialect
from service.db.dialect import ignore_if_read_only
from service.db.engine import Database
from service.errors import ApiError
from service.http_server.client import network_of, wide_network_of
from service.lru_cache import LruCache
from service.token_bucket import TokenBucket

MINUTE = 60_000_000  # microseconds
LEASE_SHARE = 16
"""A lease for expected requests takes at most this part of the free allowance: near the limit, a single request."""
HELD_MICROSECONDS = MINUTE * 3 // 200
"""While less than this part of an allowance is in use, 1.5 %, a lease takes all of it in advance."""

_NOW = f"coalesce(CAST(:now AS bigint), {dialect.POSTGRESQL_NOW})"
_MINUTE, _INTERVAL, _NEEDED = (f"CAST(:{name} AS bigint)" for name in ("minute", "interval", "needed"))
# A row more than two minutes ahead is ignored: the server's clock was set back.
_IS_USED = f"rate_limits.full_at BETWEEN {_NOW} AND {_NOW} + 2 * {_MINUTE}"
_START = f"CASE WHEN {_IS_USED} THEN rate_limits.full_at ELSE {_NOW} END"
_AHEAD = f"CASE WHEN {_IS_USED} THEN rate_limits.full_at - {_NOW} ELSE 0 END"
# Failures are forgotten within a minute, the period of the database's limit.
MAX_FAILURES_PER_ADDRESS, ADDRESS_INTERVAL_SECONDS = 300, 0.2
# Of a network of IPv4 addresses; that of IPv6 addresses counts as an address.
MAX_FAILURES_PER_NETWORK, NETWORK_INTERVAL_SECONDS = 1200, 0.05
# Of a network without credentials, or of an address with credentials that are not checked.
MAX_UNAUTHENTICATED, UNAUTHENTICATED_INTERVAL_SECONDS = 300, 0.2
MAX_FAILURES_PER_PREFIX, PREFIX_INTERVAL_SECONDS = 30, 2.0
MAX_ACCEPTED_CREDENTIALS = 10_000
SWEEP_INTERVAL_FAILURES = 1_000


def _size(ahead: str) -> str:
    """Return SQL for the requests of a lease."""
    return (
        f"greatest({_NEEDED},"
        f" least(CAST(:wanted AS bigint), ({_MINUTE} - {ahead}) / {_INTERVAL} / {LEASE_SHARE}),"
        f" (CAST(:held AS bigint) - {ahead}) / {_INTERVAL})"
    )


_LEASE = text(f"""
    INSERT INTO rate_limits (key_id, full_at, leased)
    VALUES (:key, {_NOW} + {_size("0")} * {_INTERVAL}, {_size("0")})
    ON CONFLICT (key_id) DO UPDATE
    SET full_at = {_START} + {_size(_AHEAD)} * {_INTERVAL}, leased = {_size(_AHEAD)}
    WHERE {_AHEAD} <= {_MINUTE} - {_NEEDED} * {_INTERVAL}
    RETURNING leased, full_at - {_NOW}
""")  # noqa: S608 - constants
_AHEAD_OF_KEY = text(f"SELECT full_at - {_NOW} FROM rate_limits WHERE key_id = :key")  # noqa: S608 - a constant
_FAILURE_PREFIX = "guess:"
_DELETE_EXPIRED = text(
    "DELETE FROM rate_limits WHERE key_id IN (SELECT key_id FROM rate_limits"  # noqa: S608 - a constant
    f" WHERE full_at < {dialect.POSTGRESQL_NOW} FOR UPDATE SKIP LOCKED)"
)


class Grant(NamedTuple):
    """The result of a lease.

    `requests`: 0 if refused. `ahead`: microseconds until the allowance is full, if no other request is counted.
    """

    requests: int
    ahead: int


def interval_of(per_minute: int) -> int:
    """Return the microseconds after which a request is restored."""
    return max(1, MINUTE // per_minute)


def interval_and_count(per_minute: int, requests: int) -> tuple[int, int]:
    """Return the interval, and the number of requests to count: at most a minute's allowance."""
    interval = interval_of(per_minute)
    return interval, min(requests, MINUTE // interval)


def take_lease(
    connection: Connection,
    key: str,
    interval: int,
    needed: int,
    wanted: int = 0,
    held: int = 0,
    *,
    now: int | None = None,
) -> Grant:
    """Count requests of a key in advance (PostgreSQL only).

    Args:
        interval: microseconds after which a request is restored.
        needed: the least number of requests, at most those of a minute.
        wanted: the number of requests expected soon; a part is granted.
        held: grant all requests up to this number of microseconds of the allowance.
        now: microseconds since 1970; by default the server's clock.
    """
    row = {"key": key, "minute": MINUTE, "interval": interval, "needed": needed, "wanted": wanted, "held": held}
    granted = connection.execute(_LEASE, row | {"now": now}).one_or_none()
    if granted is not None:
        return Grant(*granted)
    ahead = connection.scalar(_AHEAD_OF_KEY, {"key": key, "now": now})
    # No row if it was deleted since.
    return Grant(0, ahead or 0)


def consume(connection: Connection, key: str, per_minute: int, *, now: int | None = None) -> int | None:
    """Count a single request of a key (PostgreSQL only); return None, or the seconds to wait beyond the limit."""
    interval = interval_of(per_minute)
    grant = take_lease(connection, key, interval, 1, now=now)
    return None if grant.requests else whole_seconds(grant.ahead - (MINUTE - interval))


def throttle_key(name: str) -> str:
    """Return the key of a failure counter: 36 characters, distinct from ids of API keys."""
    return f"{_FAILURE_PREFIX}{sha256(name.encode()).hexdigest()[: 36 - len(_FAILURE_PREFIX)]}"


def delete_expired(connection: Connection) -> None:
    """Delete rows with a full allowance (PostgreSQL only; skips locked rows)."""
    connection.execute(_DELETE_EXPIRED)


def whole_seconds(microseconds: int) -> int:
    """Round up to whole seconds, at least 1."""
    return max(1, -(-microseconds // 1_000_000))


class RateLimited(ApiError):
    """A 429 with the API gateway's body, in which `error` is a string."""

    def __init__(self, wait: int) -> None:
        message = f"Too many requests. Please retry after {wait} seconds."
        super().__init__(429, "RATE_LIMITED", message, flat=True, headers={"Retry-After": str(wait)})
        self.body = {"error": "rate limit exceeded", "message": message, "retry_after": wait}


def rate_limited(wait: int) -> ApiError:
    return RateLimited(wait)


class LoginThrottle:
    def __init__(self, clock: Callable[[], float] = time.monotonic, shared: Database | None = None) -> None:
        self._shared = shared if shared is not None and shared.kind == "postgresql" else None
        self._lock = threading.Lock()
        self._addresses = TokenBucket(MAX_FAILURES_PER_ADDRESS, ADDRESS_INTERVAL_SECONDS, clock)
        self._networks = TokenBucket(MAX_FAILURES_PER_NETWORK, NETWORK_INTERVAL_SECONDS, clock)
        self._prefixes = TokenBucket(MAX_FAILURES_PER_PREFIX, PREFIX_INTERVAL_SECONDS, clock)
        self._unauthenticated = TokenBucket(MAX_UNAUTHENTICATED, UNAUTHENTICATED_INTERVAL_SECONDS, clock)
        self._accepted: LruCache[bytes, bool] = LruCache(MAX_ACCEPTED_CREDENTIALS)
        self._failures = itertools.count()

    def check(self, address: str | None, digest: bytes) -> None:
        """Refuse an address with too many failures, except for a recently accepted credential.

        Args:
            digest: the SHA-256 of the credential.

        Raises:
            ApiError: 429 with `Retry-After`.
        """
        if address is None:
            return
        with self._lock:
            wait = max(
                self._addresses.wait_seconds(network_of(address)),
                self._networks.wait_seconds(wide_network_of(address)),
            )
        if wait and not self._accepted.get(digest):
            raise _too_many(wait)

    def refusal(self, address: str, digest: bytes | None) -> ApiError | None:
        """Return the 429 of a client with too many failures or unauthenticated requests; None if it may go on.

        Args:
            digest: as in `check`; None without a credential.
        """
        with self._lock:
            wait = self._unauthenticated.wait_seconds(_unauthenticated_key(address, digest))
        if digest is not None:
            if self._accepted.get(digest):
                return None
            try:
                self.check(address, digest)
            except RateLimited as refusal:
                return refusal
        return _too_many(wait) if wait else None

    def record_unauthenticated(self, address: str, digest: bytes | None) -> None:
        """Record a request whose credential was missing or not checked."""
        with self._lock:
            self._unauthenticated.take(_unauthenticated_key(address, digest))

    def record_failure(self, address: str | None, prefix: str | None = None, *, looked_up: bool = False) -> None:
        """Record a wrong credential.

        Args:
            address: None over the unix socket, which is not throttled.
            prefix: of an API key.
            looked_up: whether the database was queried.

        Raises:
            ApiError: 429 if the address or the prefix has too many failures.
        """
        limits = (
            (self._addresses, address and network_of(address), MAX_FAILURES_PER_ADDRESS),
            (self._prefixes, prefix, MAX_FAILURES_PER_PREFIX),
        )
        max_wait = 0.0
        counted: list[tuple[TokenBucket, str, int]] = []
        with self._lock:
            for bucket, key, per_minute in limits:
                if key:
                    wait = bucket.take(key)
                    if not wait:
                        counted.append((bucket, key, per_minute))
                    max_wait = max(max_wait, wait)
            # In memory only: a row of each network would be locked by the guesses of all its addresses.
            if address and not max_wait:
                max_wait = self._networks.take(wide_network_of(address))
        if looked_up and counted and self._shared is not None:
            max_wait = max(max_wait, self._count_in_database(self._shared, counted))
        if max_wait:
            raise _too_many(max_wait)

    def _count_in_database(self, database: Database, counted: list[tuple[TokenBucket, str, int]]) -> float:
        """Record failures for all replicas; return the seconds to wait."""
        max_wait = 0.0
        with (
            ignore_if_read_only("a failed login could not be counted"),
            database.write() as connection,
        ):
            for bucket, key, per_minute in counted:
                wait = consume(connection, throttle_key(key), per_minute)
                if wait is not None:
                    with self._lock:
                        bucket.block(key, wait)
                    max_wait = max(max_wait, wait)
            # Last: locking other rows before the rows of these keys could deadlock.
            if next(self._failures) % SWEEP_INTERVAL_FAILURES == 0:
                delete_expired(connection)
        return max_wait

    def record_success(self, address: str | None, digest: bytes) -> None:
        if address is not None and self._accepted.get(digest) is None:
            self._accepted[digest] = True

    def forget(self, digest: bytes) -> None:
        """Forget a credential that is no longer accepted."""
        self._accepted.discard(digest)


def _unauthenticated_key(address: str, digest: bytes | None) -> str:
    """Return the network, or the address of a client whose credential may turn out to be valid."""
    return wide_network_of(address) if digest is None else f"address {network_of(address)}"


def _too_many(wait: float) -> ApiError:
    return rate_limited(whole_seconds(int(wait * 1_000_000)))

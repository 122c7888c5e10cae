"""Throttles failed logins per client address and per API-key prefix.

An address with too many failures is refused before any lookup, except with a recently accepted credential. A prefix
only turns a 401 into a 429, so it cannot lock out a key.

Limits are in memory. With PostgreSQL, replicas also share the limit of failures after a database lookup; other
failures, such as a wrong checksum, are not worth a database write.
"""

import itertools
import threading
import time
from collections.abc import Callable
from hashlib import sha256

from service.authn import rate_limit
from service.authn.rate_limit import TokenBucket, rate_limited, whole_seconds
from service.db.dialect import ignore_if_read_only
from service.db.engine import Database
from service.http_server.client_address import network_of
from service.lru_cache import LruCache

# Failures are forgotten within a minute, the period of the database's limit.
MAX_FAILURES_PER_ADDRESS, ADDRESS_INTERVAL_SECONDS = 300, 0.2
MAX_FAILURES_PER_PREFIX, PREFIX_INTERVAL_SECONDS = 30, 2.0
MAX_ACCEPTED_CREDENTIALS = 10_000
SWEEP_INTERVAL_FAILURES = 1_000


class LoginThrottle:
    def __init__(self, clock: Callable[[], float] = time.monotonic, shared: Database | None = None) -> None:
        self._shared = shared if shared is not None and shared.kind == "postgresql" else None
        self._lock = threading.Lock()
        self._addresses = TokenBucket(MAX_FAILURES_PER_ADDRESS, ADDRESS_INTERVAL_SECONDS, clock)
        self._prefixes = TokenBucket(MAX_FAILURES_PER_PREFIX, PREFIX_INTERVAL_SECONDS, clock)
        self._accepted: LruCache[bytes, bool] = LruCache(MAX_ACCEPTED_CREDENTIALS)
        self._failures = itertools.count()

    def check(self, address: str | None, secret: str) -> None:
        """Refuse an address with too many failures.

        Raises:
            ApiError: 429 with `Retry-After`.
        """
        if address is None:
            return
        with self._lock:
            wait = self._addresses.wait_seconds(network_of(address))
        if wait and not self._accepted.get(_digest(secret)):
            raise _too_many(wait)

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
                wait = rate_limit.consume(connection, rate_limit.throttle_key(key), per_minute)
                if wait is not None:
                    with self._lock:
                        bucket.block(key, wait)
                    max_wait = max(max_wait, wait)
            # Last: locking other rows before the rows of these keys could deadlock.
            if next(self._failures) % SWEEP_INTERVAL_FAILURES == 0:
                rate_limit.delete_expired(connection)
        return max_wait

    def record_success(self, address: str | None, secret: str) -> None:
        if address is not None and self._accepted.get(digest := _digest(secret)) is None:
            self._accepted[digest] = True


def _too_many(wait: float) -> Exception:
    return rate_limited(whole_seconds(int(wait * 1_000_000)))


def _digest(secret: str) -> bytes:
    return sha256(secret.encode()).digest()

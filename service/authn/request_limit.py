"""The rate limit of sessions and workload identities: the same number of requests a minute for each.

Replicas that share a PostgreSQL database count there. A SQLite file has a single process, which counts in memory, so
that a request that only reads does not wait for the writer.
"""

import itertools
import threading
import time
from collections.abc import Callable

from sqlalchemy import Connection

from service.authn.rate_limit import TokenBucket, consume, delete_expired, rate_limited, whole_seconds
from service.db.engine import Database
from service.db.errors import ignore_if_read_only
from service.settings import DEFAULT_REQUESTS_PER_MINUTE

SWEEP_INTERVAL_REQUESTS = 10_000


class RequestLimit:
    """Counts the requests of sessions and workload identities by their ids."""

    def __init__(
        self,
        database: Database,
        per_minute: int = DEFAULT_REQUESTS_PER_MINUTE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._per_minute = per_minute
        self._lock = threading.Lock()
        self._bucket = TokenBucket(per_minute, 60 / per_minute, clock) if database.kind == "sqlite" else None
        self._requests = itertools.count(1)

    def require(self, connection: Connection, key: str, record_use: Callable[[Connection], None] | None = None) -> None:
        """Count a request and refuse it if it exceeds the limit.

        Args:
            connection: the connection on which the credential was looked up.
            key: the id of the session or workload identity.
            record_use: records the use of the credential, in the transaction of the count; None if it is not due.

        Raises:
            ApiError: 429 with `Retry-After`.
        """
        wait = self._count_in_memory(self._bucket, key) if self._bucket else None
        if wait is None and (record_use or not self._bucket):
            with (
                ignore_if_read_only("a request could not be counted"),
                self._database.write_on(connection) as writing,
            ):
                if not self._bucket:
                    wait = consume(writing, key, self._per_minute)
                if wait is None and record_use:
                    record_use(writing)
                if not self._bucket and next(self._requests) % SWEEP_INTERVAL_REQUESTS == 0:
                    delete_expired(writing)
        if wait is not None:
            raise rate_limited(wait)

    def _count_in_memory(self, bucket: TokenBucket, key: str) -> int | None:
        with self._lock:
            wait = bucket.take(key)
        return whole_seconds(int(wait * 1_000_000)) if wait else None

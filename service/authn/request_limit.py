"""The rate limit of sessions and workload identities: the same number of requests a minute for each.

Where several replicas share a PostgreSQL database they share the count there, by the statement that counts the
requests of API keys (`rate_limit`). A SQLite file belongs to one process: the count is kept in memory, so that a
request that only reads need not wait for the writer.
"""

import itertools
import threading
import time
from collections.abc import Callable

from sqlalchemy import Connection

from service.authn.login_throttle import TokenBucket
from service.authn.rate_limit import consume, forget, rate_limited, whole_seconds
from service.db.engine import Database
from service.db.errors import ignore_if_read_only
from service.settings import DEFAULT_REQUESTS_PER_MINUTE

# Requests between two removals of rows that limit nothing any more.
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
        self._memory = TokenBucket(per_minute, 60 / per_minute, clock) if database.kind == "sqlite" else None
        self._counted = itertools.count(1)

    def require(self, connection: Connection, name: str, note_use: Callable[[Connection], None] | None = None) -> None:
        """Count a request and refuse it if there were too many before it.

        Args:
            connection: a `read_committed` on which the credential was looked up.
            name: the id of the session or workload identity.
            note_use: writes that the credential was used, in the transaction of the count; None if it is not due.

        Raises:
            Refusal: 429 with `Retry-After`.
        """
        wait = self._count_in_memory(name) if self._memory else None
        if wait is None and (note_use or not self._memory):
            with (
                ignore_if_read_only("a request could not be counted"),
                self._database.write_on(connection) as writing,
            ):
                if not self._memory:
                    wait = consume(writing, name, self._per_minute)
                if wait is None and note_use:
                    note_use(writing)
                if not self._memory and next(self._counted) % SWEEP_INTERVAL_REQUESTS == 0:
                    forget(writing)
        if wait is not None:
            raise rate_limited(wait)

    def _count_in_memory(self, name: str) -> int | None:
        assert self._memory
        with self._lock:
            wait = self._memory.wait(name)
            if wait:
                return whole_seconds(int(wait * 1_000_000))
            self._memory.note(name)
            return None

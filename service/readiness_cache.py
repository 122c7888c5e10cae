"""Caches the result of the readiness checks.

`/readyz` needs no credential and its checks wait for the database. They run at most once a second, one at a time.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future

Checks = Mapping[str, str]
MAX_AGE_SECONDS = 1.0
# How long a response waits for running checks.
MAX_WAIT_SECONDS = 0.05
# How long an older result is returned while newer checks are still running.
MAX_STALE_SECONDS = 10.0


class ReadinessCache:
    """The latest result of this process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._refresh_lock = threading.Lock()
        self._latest: tuple[float, Checks] | None = None
        self._running: Future[Checks] | None = None

    def get(self, checks: Callable[[], Checks]) -> Checks:
        """Return the result of the last second, or run the checks."""
        with self._lock:
            if self._latest is None or self._clock() - self._latest[0] >= MAX_AGE_SECONDS:
                start = self._clock()
                self._latest = (start, checks())
            return self._latest[1]

    async def get_soon(self, checks: Callable[[], Checks]) -> Checks | None:
        """Return the result of the last second, or of checks that end within `MAX_WAIT_SECONDS`, or the latest one.

        Returns:
            None if there is no result, or only one older than ten seconds.
        """
        latest = self._latest
        if latest is not None and self._clock() - latest[0] < MAX_AGE_SECONDS:
            return latest[1]
        running = asyncio.wrap_future(self.refresh(checks))
        await asyncio.wait([running], timeout=MAX_WAIT_SECONDS)
        if running.done():
            return running.result()
        return latest[1] if latest is not None and self._clock() - latest[0] < MAX_STALE_SECONDS else None

    def refresh(self, checks: Callable[[], Checks]) -> Future[Checks]:
        """Return the running checks, or start them in a thread."""
        with self._refresh_lock:
            if self._running is None or self._running.done():
                running = self._running = Future()

                def run() -> None:
                    try:
                        running.set_result(self.get(checks))
                    except BaseException as error:
                        running.set_exception(error)

                threading.Thread(target=run, name="readiness", daemon=True).start()
            return self._running

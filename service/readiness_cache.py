"""Caches the result of the readiness checks.

`/readyz` is public, and its checks wait for the database. So they run sequentially and at most once a second. The
server repeats them while it is in use, so that an answer waits for no thread and no database.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future

Checks = Mapping[str, str]
MAX_AGE_SECONDS = 1.0
MAX_WAIT_SECONDS = 0.05
# Without a result that can be returned instead.
MAX_FIRST_WAIT_SECONDS = 1.0
# Of a result that is returned while newer checks run.
MAX_STALE_SECONDS = 10.0
# Checks are repeated each second for this time after an answer; more than the usual interval of a load balancer.
REPEAT_SECONDS = 60.0
# Between checks while the server is in use without readiness requests.
MAX_UNUSED_AGE_SECONDS = 5.0
# The repetition may be late by this time while the server is busy.
MAX_DELAY_SECONDS = 5.0


class ReadinessCache:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._refresh_lock = threading.Lock()
        self._latest: tuple[float, Checks] | None = None
        self._running: Future[Checks] | None = None
        self._asked_at = self._repeated_at = float("-inf")

    def get(self, checks: Callable[[], Checks]) -> Checks:
        """Return a result of the last second, or run the checks."""
        with self._lock:
            if self._latest is None or self._clock() - self._latest[0] >= MAX_AGE_SECONDS:
                start = self._clock()
                self._latest = (start, checks())
            return self._latest[1]

    async def get_soon(self, checks: Callable[[], Checks]) -> Checks | None:
        """Return a result of the last second; of the last ten seconds while the checks are repeated.

        Without one, wait for the checks, at most `MAX_WAIT_SECONDS` if there is a result of the last ten seconds, else
        `MAX_FIRST_WAIT_SECONDS`. Return None if they do not end and there is no such result.
        """
        now = self._asked_at = self._clock()
        latest = self._latest
        age = float("inf") if latest is None else now - latest[0]
        max_age = MAX_STALE_SECONDS if now - self._repeated_at < MAX_DELAY_SECONDS else MAX_AGE_SECONDS
        if latest is not None and age < max_age:
            return latest[1]
        running = asyncio.wrap_future(self.refresh(checks))
        is_usable = age < MAX_STALE_SECONDS
        await asyncio.wait([running], timeout=MAX_WAIT_SECONDS if is_usable else MAX_FIRST_WAIT_SECONDS)
        if running.done():
            return running.result()
        return latest[1] if latest is not None and is_usable else None

    def repeat(self, checks: Callable[[], Checks], *, is_in_use: bool = False) -> None:
        """Start the checks again if their result is old. Call several times a second.

        Args:
            is_in_use: the server had a request recently; otherwise, checks are repeated only after an answer.
        """
        now = self._clock()
        was_asked = now - self._asked_at < REPEAT_SECONDS
        if was_asked or is_in_use:
            self._repeated_at = now
            max_age = MAX_AGE_SECONDS if was_asked else MAX_UNUSED_AGE_SECONDS
            if self._latest is None or now - self._latest[0] >= max_age:
                self.refresh(checks)

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

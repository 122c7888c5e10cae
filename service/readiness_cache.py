"""The latest result of the readiness checks, kept for a moment.

Anyone may ask for readiness, and the checks wait for the database: however many ask, the checks run once a second, one
at a time.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future

Checks = Mapping[str, str]
KEPT_SECONDS = 1.0


# How long an answer waits for checks that are under way.
WAIT_SECONDS = 0.05


# A result is answered again for so long while newer checks do not end.
STALE_SECONDS = 10.0


class ReadinessCache:
    """The checks of this process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._last: tuple[float, Checks] | None = None
        self._running: Future[Checks] | None = None

    def newest(self, look: Callable[[], Checks]) -> Checks:
        """Return the result of the last second, or run the checks."""
        with self._lock:
            if self._last is None or self._clock() - self._last[0] >= KEPT_SECONDS:
                began = self._clock()
                self._last = (began, look())
            return self._last[1]

    async def soon(self, look: Callable[[], Checks]) -> Checks | None:
        """Return the result of the last second or of checks that end at once, else the last one.

        Returns:
            None if there is no result, or only one older than ten seconds.
        """
        last = self._last
        if last is not None and self._clock() - last[0] < KEPT_SECONDS:
            return last[1]
        waiting = asyncio.wrap_future(self.start(look))
        await asyncio.wait([waiting], timeout=WAIT_SECONDS)
        if waiting.done():
            return waiting.result()
        return last[1] if last is not None and self._clock() - last[0] < STALE_SECONDS else None

    def start(self, look: Callable[[], Checks]) -> Future[Checks]:
        """Return the checks under way, or start them in a thread."""
        with self._starting:
            if self._running is None or self._running.done():
                running = self._running = Future()

                def run() -> None:
                    try:
                        running.set_result(self.newest(look))
                    except BaseException as error:
                        running.set_exception(error)

                threading.Thread(target=run, name="readiness", daemon=True).start()
            return self._running

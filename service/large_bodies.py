"""Serializes the parsing of large bodies. Event loop only."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from service.http_server.request_metrics import Rejections
from service.http_server.work_queues import Bounds, WorkQueue

MAX_WAITING = 256
MAX_WAITING_PER_SENDER = 15


class LargeBodyLimiter:
    """Parses a large body at a time; the senders take turns.

    Parsing holds the interpreter lock. So it pauses for the same time after each body, to let other requests run.
    """

    def __init__(
        self,
        rejections: Rejections,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._queue = WorkQueue("large_bodies", Bounds(1, 1, MAX_WAITING, MAX_WAITING_PER_SENDER), rejections)
        self._clock, self._sleep = clock, sleep
        self._free_at = 0.0

    @asynccontextmanager
    async def slot(self, sender: str) -> AsyncIterator[None]:
        """Occupy the slot while the context is open, or raise 503 if the queue is full."""
        async with self._queue.slot(sender):
            await self._sleep(max(0.0, self._free_at - self._clock()))
            start = self._clock()
            try:
                yield
            finally:
                end = self._clock()
                self._free_at = end + (end - start)

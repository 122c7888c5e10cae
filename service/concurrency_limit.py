"""Limits the concurrent CPU-heavy requests of each credential. Further ones queue without a thread, then get 429."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from service.authn.rate_limit import rate_limited

MAX_CONCURRENT = 2
MAX_WAITING = 62
MAX_WAITING_BODIES = 15
RETRY_AFTER_SECONDS = 1


@dataclass(slots=True)
class _Queue:
    """The semaphore of one credential, and the number of its running and waiting requests."""

    semaphore: asyncio.Semaphore
    length: int = 0


class ConcurrencyLimiter:
    """The queues of all credentials of this process. A queue is dropped with its last request. Event loop only."""

    def __init__(self, max_concurrent: int = MAX_CONCURRENT, max_waiting: int = MAX_WAITING) -> None:
        self._max_concurrent = max_concurrent
        self._max_length = max_concurrent + max_waiting
        self._queues: dict[str, _Queue] = {}

    @asynccontextmanager
    async def slot(self, credential: str) -> AsyncIterator[None]:
        """Wait for a slot and occupy it while the context is open.

        Raises:
            ApiError: 429 if the queue is full.
        """
        queue = self._queues.get(credential)
        if queue is None:
            queue = self._queues[credential] = _Queue(asyncio.Semaphore(self._max_concurrent))
        if queue.length >= self._max_length:
            raise rate_limited(RETRY_AFTER_SECONDS)
        queue.length += 1
        try:
            async with queue.semaphore:
                yield
        finally:
            queue.length -= 1
            if queue.length == 0:
                del self._queues[credential]


class LargeBodyLimiter:
    """Parses one large body at a time in this process, alternating between credentials.

    After each, the next waits as long as that one took: parsing holds the interpreter lock, and half of the time stays
    free for other requests. Event loop only.
    """

    def __init__(self) -> None:
        self._limiter = ConcurrencyLimiter(max_concurrent=1, max_waiting=MAX_WAITING_BODIES)
        self._parser = asyncio.Semaphore(1)
        self._free_at = 0.0

    @asynccontextmanager
    async def slot(self, credential: str) -> AsyncIterator[None]:
        """Wait for the slot and occupy it while the context is open.

        Raises:
            ApiError: 429 if too many bodies of this credential wait.
        """
        async with self._limiter.slot(credential), self._parser:
            await asyncio.sleep(max(0.0, self._free_at - time.monotonic()))
            start = time.monotonic()
            try:
                yield
            finally:
                end = time.monotonic()
                self._free_at = end + (end - start)

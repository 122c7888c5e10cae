"""Limits the concurrent CPU-heavy requests of each credential. Further ones queue without a thread, then get 429."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from service.authn.rate_limit import rate_limited

MAX_CONCURRENT = 2
MAX_WAITING = 62
LARGE_BODIES_WAITING = 15
LATER_SECONDS = 1


@dataclass(slots=True)
class _Queue:
    """The semaphore of one credential, and the number of its running and waiting requests."""

    inside: asyncio.Semaphore
    length: int = 0


class ConcurrencyLimiter:
    """The queues of all credentials of this process. A queue is dropped with its last request. Event loop only."""

    def __init__(self, at_once: int = MAX_CONCURRENT, most_waiting: int = MAX_WAITING) -> None:
        self._at_once = at_once
        self._most = at_once + most_waiting
        self._lines: dict[str, _Queue] = {}

    @asynccontextmanager
    async def turn(self, credential: str) -> AsyncIterator[None]:
        """Wait for a turn and keep it while the context is open.

        Raises:
            Refusal: 429 if the queue is full.
        """
        line = self._lines.get(credential)
        if line is None:
            line = self._lines[credential] = _Queue(asyncio.Semaphore(self._at_once))
        if line.length >= self._most:
            raise rate_limited(LATER_SECONDS)
        line.length += 1
        try:
            async with line.inside:
                yield
        finally:
            line.length -= 1
            if line.length == 0:
                del self._lines[credential]


class LargeBodyLimiter:
    """Parses one large body at a time in this process, one of each credential in turn.

    After each, the next waits as long as that one took: parsing holds the interpreter lock, and half of the time stays
    free for other requests. Event loop only.
    """

    def __init__(self) -> None:
        self._turns = ConcurrencyLimiter(at_once=1, most_waiting=LARGE_BODIES_WAITING)
        self._parser = asyncio.Semaphore(1)
        self._free_at = 0.0

    @asynccontextmanager
    async def turn(self, credential: str) -> AsyncIterator[None]:
        """Wait for a turn and keep it while the context is open.

        Raises:
            Refusal: 429 if too many bodies of this credential wait.
        """
        async with self._turns.turn(credential), self._parser:
            await asyncio.sleep(max(0.0, self._free_at - time.monotonic()))
            began = time.monotonic()
            try:
                yield
            finally:
                ended = time.monotonic()
                self._free_at = ended + (ended - began)

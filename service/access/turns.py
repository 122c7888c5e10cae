"""Requests that compare whole documents take a processor for a while: of one caller few go on at a time. hostile D05

Whoever asks for more waits in line without holding a thread, and past the end of the line is told to come later, so
that the time of everybody else depends on how many callers there are and not on how much one of them asks.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from service.access.ratelimit import too_many

AT_ONCE = 2
MOST_WAITING = 62
LATER_SECONDS = 1


@dataclass(slots=True)
class _Line:
    """Who of one caller's requests is inside, and how many there are with those that wait."""

    inside: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    length: int = 0


class Turns:
    """The lines of all callers of this process; a line is gone with its last request. For the event loop only."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}

    @asynccontextmanager
    async def turn(self, caller: str) -> AsyncIterator[None]:
        """Wait for a turn and keep it while the context is open.

        Raises:
            Refusal: 429, the line is full.
        """
        line = self._lines.setdefault(caller, _Line())
        if line.length >= AT_ONCE + MOST_WAITING:
            raise too_many(LATER_SECONDS)
        line.length += 1
        try:
            async with line.inside:
                yield
        finally:
            line.length -= 1
            if line.length == 0:
                del self._lines[caller]

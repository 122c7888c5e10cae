"""A background read that runs one at a time.

A busy tenant sends signals faster than a long list can be read. A restart at each signal would never finish, so a
running read continues, and one more follows it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from tui.state.event_stream import Spawn

MAX_PAUSE_SECONDS = 5.0
"""The longest pause before a read that follows another."""


class SingleFlight:
    """Runs `work` in the background. Requests during a run cause one more run after it.

    The pause before that run is as long as the last run took: a slow platform spends at most half of its time on it.
    An urgent request skips the pause.

    Args:
        spawn: Starts the background task.
        name: Names the task.
        work: Reads once. A failure that it does not handle ends the run and what was requested during it.
        rest: Seconds to wait before the first read.
    """

    def __init__(self, spawn: Spawn, name: str, work: Callable[[], Awaitable[None]], *, rest: float = 0.0) -> None:
        self._spawn, self._name, self._work, self._rest = spawn, name, work, rest
        self._run: object | None = None
        self._requested = False
        self._urgent = asyncio.Event()

    @property
    def running(self) -> bool:
        """Whether a read runs or is scheduled."""
        return self._run is not None

    @property
    def urgent(self) -> bool:
        """Whether an urgent request arrived since the current read began."""
        return self._run is not None and self._urgent.is_set()

    def request(self, *, urgent: bool = False) -> None:
        """Read, or read once more after the current read."""
        if self._run is None:
            run = self._run = object()
            self._requested = False
            self._urgent.clear()
            self._spawn(self._name, partial(self._repeat, run))
            return
        self._requested = True
        if urgent:
            self._urgent.set()

    def stop(self) -> None:
        """Cancel the current read and pending requests."""
        self._run = None
        self._spawn(self._name, None)

    async def _repeat(self, run: object) -> None:
        loop = asyncio.get_running_loop()
        try:
            await self._pause(self._rest)
            while True:
                self._requested = False
                self._urgent.clear()
                began = loop.time()
                await self._work()
                if not self._requested:
                    return
                await self._pause(min(loop.time() - began, MAX_PAUSE_SECONDS))
        finally:
            if self._run is run:  # else another run has begun
                self._run = None

    async def _pause(self, seconds: float) -> None:
        if seconds > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._urgent.wait()

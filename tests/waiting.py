"""Waits for a condition, and calls that begin at the same moment."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from inspect import isawaitable
from typing import TypeVar

Result = TypeVar("Result")


def until(condition: Callable[[], bool], seconds: float = 60, pause: float = 0.02) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(pause)


async def async_until(condition: Callable[[], bool | Awaitable[bool]], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not (await holds if isawaitable(holds := condition()) else holds):
        assert time.monotonic() < end, "it did not happen in time"
        await asyncio.sleep(0.05)


def at_once(calls: Sequence[Callable[[], Result]]) -> list[Result]:
    """Make calls in threads that begin at the same moment; return their results in order."""
    start = threading.Barrier(len(calls))

    def begin(call: Callable[[], Result]) -> Result:
        start.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(begin, calls))

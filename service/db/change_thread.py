"""A thread that runs changes one after the other, without a switch of threads between them (SQLite).

Each call runs in a greenlet. While it waits for its turn or for the commit of its group, the thread runs the next call.
A call must not wait in any other way for another call, and must be short, because the others wait for it.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from greenlet import getcurrent, greenlet

T = TypeVar("T")
R = TypeVar("R")


class Call(greenlet):  # type: ignore[misc]
    """A call in the thread.

    Args:
        submitted_at: seconds of the monotonic clock.
        resume: makes the thread continue a call.
    """

    def __init__(
        self, function: Callable[[], None], context: Context, submitted_at: float, resume: "Callable[[Call], None]"
    ) -> None:
        super().__init__(function)
        self.gr_context = context
        self.submitted_at = submitted_at
        self._resume = resume

    def resume(self) -> None:
        """End a `wait`, also a later one."""
        self._resume(self)

    def wait(self) -> None:
        """Run other calls until `resume`."""
        assert self.parent is not None
        self.parent.switch()

    def start_others(self) -> None:
        """Run the calls that were submitted or resumed before, until they wait or end."""
        self.resume()
        self.wait()


def current_call() -> Call | None:
    """Return the call that runs in this thread."""
    current = getcurrent()
    return current if isinstance(current, Call) else None


class Signal:
    """Wakes the thread or the call that has created it. Each `set` ends one `wait`, also a later one."""

    def __init__(self) -> None:
        self._call = current_call()
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        if self._call is None:
            self._lock.release()
        else:
            self._call.resume()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait; return False if the signal is not set in time. A call does not wait for a limited time."""
        if self._call is None:
            return self._lock.acquire(timeout=-1 if seconds is None else seconds)
        if seconds is not None:
            return False
        self._call.wait()
        return True


class _Submitted(NamedTuple):
    function: Callable[[], None]
    context: Context
    at: float


class _Outcome(NamedTuple):
    future: "asyncio.Future[Any]"
    result: Any
    error: BaseException | None


class ChangeThread:
    """Starts with the first call, and ends with the process."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[_Submitted | Call] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._outcomes: dict[asyncio.AbstractEventLoop, list[_Outcome]] = {}
        """Those that are not delivered, by event loop of their callers."""

    async def run(self, function: Callable[[T], R], argument: T) -> R:
        """Call a function in the context of the caller. Does not end before the function, even if it is cancelled."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="frost-changes", daemon=True)
            self._thread.start()
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        call = partial(self._call, function, argument, future)
        self._queue.put(_Submitted(call, copy_context(), time.monotonic()))
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait([future])
            raise

    def _run(self) -> None:
        while True:
            item = self._queue.get()
            call = item if isinstance(item, Call) else Call(item.function, item.context, item.at, self._queue.put)
            call.switch()

    def _call(self, function: Callable[[T], R], argument: T, future: "asyncio.Future[R]") -> None:
        try:
            outcome = _Outcome(future, function(argument), None)
        except StopIteration as error:
            # A future does not take it.
            outcome = _Outcome(future, None, RuntimeError(f"the call raised {error!r}"))
        except BaseException as error:
            outcome = _Outcome(future, None, error)
        loop = future.get_loop()
        with self._lock:
            outcomes = self._outcomes.setdefault(loop, [])
            outcomes.append(outcome)
        if len(outcomes) == 1:
            # One wake-up of the event loop for the calls that end before it runs.
            try:
                loop.call_soon_threadsafe(self._deliver, loop)
            except RuntimeError:
                # The loop is closed, and its calls have no caller.
                self._outcomes.pop(loop, None)

    def _deliver(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            outcomes = self._outcomes.pop(loop, [])
        for future, result, error in outcomes:
            if future.cancelled():
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

"""The running and waiting requests, by class of work and credential. Event loop only.

| class | runs | of a credential | waits |
| --- | --- | --- | --- |
| health | without a limit | | never |
| event streams | `Limits.max_event_streams` | `jobs.event_stream.MAX_PER_PRINCIPAL` | never |
| reads, writes, CPU-intensive, sign-ins | `RUNNING` | `RUNNING_PER_CREDENTIAL` | `Limits.max_waiting_*` |

A request that must wait joins the queue of its credential. The credentials take turns. A credential has at most half of
the waiting places of a class; if all are taken, one with fewer waiting requests takes a place of the one with the most.
"""

import asyncio
import math
import random
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import Token, copy_context
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Protocol, TypeVar

from starlette.requests import ClientDisconnect

from service import errors
from service.http_server.client import CLIENT
from service.http_server.fair_threads import HAS_THREAD
from service.http_server.request_metrics import Rejections, spread
from service.principal import Principal
from service.settings import Limits

T = TypeVar("T")
R = TypeVar("R")

MAX_STARTS = 16
"""Of a class in an iteration of the event loop, because requests that need no thread run within it."""
MAX_RETRY_AFTER_SECONDS = 30
# Weight of the latest request in the mean time of a request.
MEAN_WEIGHT = 1 / 16


class Work(StrEnum):
    """A class of work. The values are labels of metrics and the words of messages."""

    HEALTH = "health"
    EVENT_STREAM = "event_streams"
    READ = "reads"
    WRITE = "writes"
    CPU_INTENSIVE = "cpu_intensive"
    SIGN_IN = "sign_ins"
    """Changes without a credential, which may wait for an identity provider."""


# Each may occupy a thread and a database connection (`db.engine.MAX_CONNECTIONS`).
RUNNING: Mapping[Work, int] = {Work.READ: 6, Work.WRITE: 8, Work.CPU_INTENSIVE: 3, Work.SIGN_IN: 2}
RUNNING_PER_CREDENTIAL: Mapping[Work, int] = {Work.READ: 4, Work.WRITE: 4, Work.CPU_INTENSIVE: 2, Work.SIGN_IN: 1}


@dataclass(frozen=True, slots=True)
class Bounds:
    running: int
    running_per_credential: int
    waiting: int
    waiting_per_credential: int
    wait_seconds: float = 10.0
    """A request that has waited for so long is refused."""


class HasWork(Protocol):
    @property
    def work(self) -> Work: ...


Waiter = asyncio.Future[Exception | None]
"""Its result is None for a slot, or the reason why there is none."""


class WorkQueue:
    """The requests of a class.

    Args:
        name: of the class, for messages and `rejections`.
        uniform: returns a random number between two bounds, for `Retry-After`.
    """

    def __init__(
        self,
        name: str,
        bounds: Bounds,
        rejections: Rejections,
        *,
        clock: Callable[[], float] = time.monotonic,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self.running = 0
        self.waiting = 0
        self._name = name.replace("_", " ")
        self._limit = name
        self._bounds = bounds
        self._rejections = rejections
        self._clock = clock
        self._uniform = uniform
        self._running: Counter[Hashable] = Counter()
        self._waiting: OrderedDict[Hashable, deque[Waiter]] = OrderedDict()
        """By credential, least recently served first."""
        self._starts = 0
        self._mean_seconds = 0.0
        self._closed = False

    def slot(self, credential: Hashable) -> "Slot":
        """Return a context manager that waits for a slot and occupies it.

        Raises:
            ApiError: 503 with `Retry-After` if too many requests wait, or after `wait_seconds`.
            ClientDisconnect: the client disconnected while the request waited.
        """
        return Slot(self, credential)

    def close(self) -> None:
        """Refuse the waiting requests, and later ones that would wait."""
        self._closed = True
        for queue in list(self._waiting.values()):
            for waiter in list(queue):
                self._refuse(waiter, "the platform is stopping")

    async def enter(self, credential: Hashable) -> float:
        """Wait for a slot; return the time at which it was taken."""
        if self._may_start(credential):
            self._start(credential)
            return self._clock()
        self._make_room(credential)
        loop = asyncio.get_running_loop()
        waiter: Waiter = loop.create_future()
        self._waiting.setdefault(credential, deque()).append(waiter)
        self.waiting += 1
        timer = loop.call_later(self._bounds.wait_seconds, self._refuse_late, waiter)
        scope = CLIENT.get().scope
        body = scope and scope.get("frost.body")
        if body:
            body.on_disconnect = partial(set_result, waiter, ClientDisconnect())
        try:
            refusal = await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.result() is None:
                self.leave(credential, self._clock())
            raise
        finally:
            timer.cancel()
            self._forget(credential, waiter)
            if body:
                body.on_disconnect = None
        if refusal is not None:
            if not isinstance(refusal, ClientDisconnect):
                self._reject_request()
            raise refusal
        return self._clock()

    def leave(self, credential: Hashable, started_at: float) -> None:
        """Release a slot."""
        self._mean_seconds += (self._clock() - started_at - self._mean_seconds) * MEAN_WEIGHT
        self.running -= 1
        self._running[credential] -= 1
        if not self._running[credential]:
            del self._running[credential]
        self._start_waiting()

    def _may_start(self, credential: Hashable) -> bool:
        return (
            self.running < self._bounds.running
            and self._starts < MAX_STARTS
            and self._running[credential] < self._bounds.running_per_credential
        )

    def _start(self, credential: Hashable) -> None:
        if not self._starts:
            asyncio.get_running_loop().call_soon(self._begin_iteration)
        self._starts += 1
        self.running += 1
        self._running[credential] += 1

    def _begin_iteration(self) -> None:
        self._starts = 0
        self._start_waiting()

    def _start_waiting(self) -> None:
        """Start requests within the bounds, one of each credential in turn."""
        while self.waiting and self.running < self._bounds.running and self._starts < MAX_STARTS:
            credential = next((name for name in self._waiting if self._may_start(name)), None)
            if credential is None:
                return
            waiter = self._waiting[credential][0]
            self._waiting.move_to_end(credential)
            self._forget(credential, waiter)
            if not waiter.done():
                self._start(credential)
                set_result(waiter, None)

    def _forget(self, credential: Hashable, waiter: Waiter) -> None:
        queue = self._waiting.get(credential)
        if queue is not None and waiter in queue:
            queue.remove(waiter)
            self.waiting -= 1
            if not queue:
                del self._waiting[credential]

    def _make_room(self, credential: Hashable) -> None:
        """Ensure a waiting place, or raise 503."""
        bounds, own = self._bounds, len(self._waiting.get(credential, ()))
        if self._closed:
            self._reject_request()
            raise errors.overloaded("the platform is stopping")
        if own >= bounds.waiting_per_credential:
            self._reject_request()
            seconds = self._retry_after(own, bounds.running_per_credential)
            raise errors.overloaded(f"too many of your requests are waiting ({self._name})", seconds)
        if self.waiting < bounds.waiting:
            return
        longest = max(self._waiting, key=lambda name: len(self._waiting[name]), default=None)
        message = f"too many requests are waiting ({self._name})"
        if longest is None or len(self._waiting[longest]) <= own + 1:
            self._reject_request()
            raise errors.overloaded(message, self._retry_after(self.waiting, bounds.running))
        waiter = self._waiting[longest][-1]
        self._refuse(waiter, message)
        self._forget(longest, waiter)

    def _refuse(self, waiter: Waiter, message: str) -> None:
        set_result(waiter, errors.overloaded(message, self._retry_after(self.waiting, self._bounds.running)))

    def _refuse_late(self, waiter: Waiter) -> None:
        self._refuse(waiter, f"the request waited for {self._bounds.wait_seconds:g} seconds ({self._name})")

    def _reject_request(self) -> None:
        reject_request(self._rejections, self._limit)

    def _retry_after(self, waiting: int, slots: int) -> int:
        """Return the seconds until the waiting requests have ended, spread."""
        seconds = min(max(1.0, waiting * self._mean_seconds / slots), MAX_RETRY_AFTER_SECONDS / 2)
        return round(spread(seconds, self._uniform))


def reject_request(rejections: Rejections, limit: str) -> None:
    """Count a rejection of the current request, which is then not logged as an error."""
    rejections.record(limit)
    if (scope := CLIENT.get().scope) is not None:
        scope["frost.shed"] = True


def set_result(waiter: Waiter, result: Exception | None) -> None:
    """End the waiting of a request, unless it has ended."""
    if not waiter.done():
        waiter.set_result(result)


async def run_in_slot(function: Callable[[T], R], argument: T) -> R:
    """Call a function in the thread of the slot that the caller occupies, in its context.

    Does not end before the function, even if it is cancelled: the thread belongs to the slot. `anyio.to_thread` takes
    twice as long.
    """
    loop = asyncio.get_running_loop()
    call = loop.run_in_executor(_THREADS, copy_context().run, _call, function, argument)
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        await asyncio.wait([call])
        raise


def _call(function: Callable[[T], R], argument: T) -> R:
    try:
        return function(argument)
    except StopIteration as error:
        # A future does not take it.
        raise RuntimeError(f"the call raised {error!r}") from error


_THREADS = ThreadPoolExecutor(sum(RUNNING.values()), thread_name_prefix="frost-request")


class Slot:
    """A slot of a queue, with a thread."""

    __slots__ = ("_credential", "_queue", "_started_at", "_token")

    def __init__(self, queue: WorkQueue, credential: Hashable) -> None:
        self._queue = queue
        self._credential = credential

    async def __aenter__(self) -> None:
        self._started_at = await self._queue.enter(self._credential)
        self._token: Token[bool] = HAS_THREAD.set(True)

    async def __aexit__(self, *error: object) -> None:
        HAS_THREAD.reset(self._token)
        self._queue.leave(self._credential, self._started_at)


class WorkQueues:
    """A queue for each class with a bound."""

    def __init__(self, limits: Limits, rejections: Rejections) -> None:
        waiting = {
            Work.READ: limits.max_waiting_reads,
            Work.WRITE: limits.max_waiting_writes,
            Work.CPU_INTENSIVE: limits.max_waiting_cpu_intensive,
            Work.SIGN_IN: limits.max_waiting_sign_ins,
        }
        self.queues: Mapping[Work, WorkQueue] = {
            work: WorkQueue(
                work.value,
                Bounds(
                    RUNNING[work],
                    RUNNING_PER_CREDENTIAL[work],
                    places,
                    math.ceil(places / 2),
                    limits.max_wait_seconds,
                ),
                rejections,
            )
            for work, places in waiting.items()
        }

    def slot(self, policy: HasWork, principal: Principal) -> AbstractAsyncContextManager[None]:
        """Occupy a slot of the class of a route while the context is open; see `WorkQueue.slot`."""
        queue = self.queues.get(policy.work)
        return nullcontext() if queue is None else queue.slot(queue_key(principal))

    def close(self) -> None:
        for queue in self.queues.values():
            queue.close()


def queue_key(principal: Principal) -> Hashable:
    """Return the key of a queue: the credential, or the address of a client without one."""
    if principal.kind == "anonymous":
        return CLIENT.get().key
    return principal.credential_id or principal.actor_id

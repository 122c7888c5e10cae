"""Worker threads for the work before the work queues, shared round-robin by the waiting clients. Event loop only."""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Hashable
from contextvars import ContextVar

from service.http_server.client import CLIENT

# The queues of `work_queues` have the other database connections.
MAX_THREADS = 4
MAX_THREADS_PER_CLIENT = 3
HAS_THREAD: ContextVar[bool] = ContextVar("frost_has_thread", default=False)
"""Whether a slot of a work queue reserves a thread for the code in this context."""


class FairThreads:
    """Replaces anyio's default thread limiter, which is first come, first served."""

    def __init__(self, threads: int = MAX_THREADS, per_client: int = MAX_THREADS_PER_CLIENT) -> None:
        self.total_tokens = threads
        self._per_client = per_client
        self._running: Counter[Hashable] = Counter()
        self._busy = 0
        self._waiting: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()

    def install(self) -> None:
        """Replace the limiter of `anyio.to_thread.run_sync` in the running event loop."""
        from anyio._backends import _asyncio

        _asyncio._default_thread_limiter.set(self)  # type: ignore[arg-type]

    async def __aenter__(self) -> None:
        if HAS_THREAD.get():
            return
        client = CLIENT.get().key
        if self._busy < self.total_tokens and self._may_start(client):
            self._start(client)
            return
        started = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(started)
        try:
            await started
        except asyncio.CancelledError:
            if started.done() and not started.cancelled():
                self._finish(client)
            raise

    async def __aexit__(self, *error: object) -> None:
        if not HAS_THREAD.get():
            self._finish(CLIENT.get().key)

    def _may_start(self, client: Hashable) -> bool:
        return self._running[client] < self._per_client

    def _start(self, client: Hashable) -> None:
        self._busy += 1
        self._running[client] += 1

    def _finish(self, client: Hashable) -> None:
        self._busy -= 1
        self._running[client] -= 1
        if not self._running[client]:
            del self._running[client]
        while self._busy < self.total_tokens and (started := self._next()) is not None:
            started.set_result(None)

    def _next(self) -> asyncio.Future[None] | None:
        """Start a task of the client below its limit that was served least recently."""
        for client, queue in list(self._waiting.items()):
            while queue and queue[0].cancelled():
                queue.popleft()
            if not queue:
                del self._waiting[client]
            elif self._may_start(client):
                started = queue.popleft()
                self._waiting.move_to_end(client)
                if not queue:
                    del self._waiting[client]
                self._start(client)
                return started
        return None

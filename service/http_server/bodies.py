"""Request bodies: their memory and time, and the parsing of large ones, one at a time. Event loop only."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from service import errors
from service.errors import ApiError
from service.http_server.connections import RESERVED_SHARE
from service.http_server.request_metrics import Rejections
from service.http_server.work_queues import Bounds, WorkQueue
from service.lru_cache import LruCache
from service.settings import MEBIBYTE, Limits

MAX_SMALL_BODY_BYTES = 16 * 1024
KNOWN_ADDRESS_SECONDS = 3600.0
REFRESH_SECONDS = 1.0
MAX_KNOWN_ADDRESSES = 10_000
MAX_WAITING_BODIES = 256
MAX_WAITING_BODIES_PER_SENDER = 15


class BodyMemory:
    """Bytes of request bodies in memory.

    Unknown addresses share half of the memory, and a quarter for bodies over 16 KiB, so that they block neither known
    addresses nor sign-ins.
    """

    def __init__(self, limits: Limits) -> None:
        self._max = limits.max_body_mebibytes * MEBIBYTE
        self._max_per_address = limits.max_body_mebibytes_per_address * MEBIBYTE
        self.total = 0
        self._unknown = 0
        self._large_unknown = 0
        self._by_address: Counter[str] = Counter()

    def take(self, body: "IncomingBody", size: int) -> bool:
        """Reserve memory; return False beyond a limit."""
        reserved = body.reserved + size
        if self.total + size > self._max - (self._max // RESERVED_SHARE if body.address else 0):
            return False
        if body.address and self._by_address[body.address] + size > self._max_per_address:
            return False
        if not body.known:
            large = large_body_bytes(reserved) - large_body_bytes(body.reserved)
            if self._unknown + size > self._max // 2 or self._large_unknown + large > self._max // 4:
                return False
        self._resize(body, reserved)
        return True

    def release(self, body: "IncomingBody") -> None:
        self._resize(body, 0)

    def _resize(self, body: "IncomingBody", reserved: int) -> None:
        size, large = reserved - body.reserved, large_body_bytes(reserved) - large_body_bytes(body.reserved)
        body.reserved = reserved
        self.total += size
        if not body.known:
            self._unknown += size
            self._large_unknown += large
        if body.address:
            self._by_address[body.address] += size
            if not self._by_address[body.address]:
                del self._by_address[body.address]


def large_body_bytes(size: int) -> int:
    return size if size > MAX_SMALL_BODY_BYTES else 0


@dataclass(slots=True, eq=False)
class IncomingBody:
    """A request body in transit, shared by the protocol and the middleware."""

    memory: BodyMemory
    address: str | None
    started: float
    known: bool = True
    """Over the unix socket, or in `KnownAddresses`."""
    received: int = 0
    reserved: int = 0
    rejection: ApiError | None = None
    on_disconnect: Callable[[], object] | None = None
    """Called if the client disconnects before its answer."""

    def take(self, size: int) -> bool:
        """Count received bytes; return False if the body is rejected."""
        self.received += size
        if self.rejection is None and not self.memory.take(self, size):
            self.rejection = errors.overloaded("too many request bodies are in memory")
        return self.rejection is None

    def reject_late(self, limits: Limits) -> None:
        self.rejection = errors.body_too_late(limits.body_seconds, limits.body_bytes_per_second)

    def release(self) -> None:
        self.memory.release(self)

    def abandon(self) -> None:
        """Release the memory of a request whose client has disconnected, and stop its waiting."""
        self.release()
        if self.on_disconnect is not None:
            self.on_disconnect()


class KnownAddresses:
    """Addresses from which a credential was accepted recently."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: LruCache[str, float] = LruCache(MAX_KNOWN_ADDRESSES)

    def add(self, address: str) -> None:
        now, until = self._clock(), self._until.peek(address)
        if until is None or until - now < KNOWN_ADDRESS_SECONDS - REFRESH_SECONDS:
            self._until[address] = now + KNOWN_ADDRESS_SECONDS

    def __contains__(self, address: str) -> bool:
        until = self._until.peek(address)
        return until is not None and until > self._clock()


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
        self._queue = WorkQueue(
            "large_bodies", Bounds(1, 1, MAX_WAITING_BODIES, MAX_WAITING_BODIES_PER_SENDER), rejections
        )
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

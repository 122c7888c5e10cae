"""Admission control of one process: connections, requests, memory for request bodies, and threads. Event loop only."""

import asyncio
import logging
import resource
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from service import errors
from service.errors import ApiError
from service.http_server.client_address import address_of, canonical_address, network_of
from service.lru_cache import LruCache
from service.settings import MEBIBYTE, Limits

logger = logging.getLogger(__name__)

# One in eight is reserved for the unix socket.
RESERVED_SHARE = 8
# Connections beyond the limits that may send health checks.
MAX_HEALTH_CONNECTIONS = 64
# For the database, files, and connections that wait for their rejection.
RESERVED_DESCRIPTORS = 1_000
# Before a new connection may be closed as idle.
GRACE_SECONDS = 1.0
# The limit of an address once half of all requests are in use.
MAX_REQUESTS_UNDER_LOAD = 32
# Fewer than the database connections, so that no thread waits for one.
MAX_THREADS = 16
# For the reads of one client, and as many for its changes. All changes together leave as many threads for reads.
MAX_THREADS_PER_CLIENT = 4
# Larger bodies count for the limits of large bodies.
MAX_SMALL_BODY_BYTES = 16 * 1024
KNOWN_ADDRESS_SECONDS = 3600.0
MAX_KNOWN_ADDRESSES = 10_000
LOG_INTERVAL_SECONDS = 1.0
REJECTION_REASONS = ("connections", "requests", "bodies", "late_bodies")
"""The limits by which `Admission` counts rejections."""


class Work(NamedTuple):
    """The budget that a thread counts for: a client, and whether its request may change data."""

    client: Hashable = None
    changes: bool = False


WORK: ContextVar[Work] = ContextVar("frost_work", default=Work())  # noqa: B039
"""The thread budget of the current request."""


@dataclass(frozen=True, slots=True)
class Source:
    """The unix socket, an address, or a trusted proxy (neither)."""

    address: str | None = None
    local: bool = False


LOCAL = Source(local=True)


class Connection(Protocol):
    """A connection that the registry can close."""

    def close_idle(self) -> None: ...


class Connections:
    """The open connections. At its limit, an address loses its own idle connections first."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.max_total = limits.max_connections
        self._clock = clock
        self._served: dict[Connection, Source] = {}
        self._remote = 0
        self._counts: Counter[Source] = Counter()
        self._only_health: set[Connection] = set()
        # The instant from which each may be closed; the longest idle one comes first.
        self._idle: OrderedDict[Connection, float] = OrderedDict()
        self._idle_by_source: dict[Source, OrderedDict[Connection, float]] = {}

    def __len__(self) -> int:
        return len(self._served) + len(self._only_health)

    def has_room_for(self, source: Source) -> bool:
        """Return whether one more connection is within the limits, closing an idle one if necessary."""
        own = self._idle_by_source.get(source, OrderedDict())
        if source.address is not None and self._counts[source] >= self.limits.max_connections_per_address:
            return self._close_oldest(own)
        full = len(self._served) >= self.max_total
        if not source.local:
            full = full or self._remote >= self.max_total - self.max_total // RESERVED_SHARE
        return not full or self._close_oldest(own) or self._close_oldest(self._idle)

    def has_room_for_health(self) -> bool:
        return len(self._only_health) < MAX_HEALTH_CONNECTIONS

    def add(self, connection: Connection, source: Source, *, only_health: bool = False) -> None:
        if only_health:
            self._only_health.add(connection)
            return
        self._served[connection] = source
        self._remote += not source.local
        self._counts[source] += 1
        self.set_idle(connection, GRACE_SECONDS)

    def remove(self, connection: Connection) -> None:
        self.set_busy(connection)
        self._only_health.discard(connection)
        if (source := self._served.pop(connection, None)) is not None:
            self._remote -= not source.local
            self._counts[source] -= 1
            if not self._counts[source]:
                del self._counts[source]

    def set_idle(self, connection: Connection, grace: float = 0.0) -> None:
        """Allow closing a connection after `grace` seconds."""
        if (source := self._served.get(connection)) is not None:
            at = self._clock() + grace
            self._idle_by_source.setdefault(source, OrderedDict())[connection] = at
            if not source.local:
                self._idle[connection] = at

    def set_busy(self, connection: Connection) -> None:
        self._idle.pop(connection, None)
        source = self._served.get(connection)
        if source is not None and (idle := self._idle_by_source.get(source)) is not None:
            idle.pop(connection, None)
            if not idle:
                del self._idle_by_source[source]

    def _close_oldest(self, idle: OrderedDict[Connection, float]) -> bool:
        now = self._clock()
        closable = next((connection for connection, at in idle.items() if at <= now), None)
        if closable is None:
            return False
        self.remove(closable)
        closable.close_idle()
        return True


class BodyMemory:
    """Bytes of request bodies in memory.

    Addresses without an accepted credential share half of the memory, and a quarter for their larger bodies, so that
    they do not delay known addresses or the sign-in from another new address.
    """

    def __init__(self, limits: Limits) -> None:
        self._max = limits.max_body_mebibytes * MEBIBYTE
        self._max_per_address = limits.max_body_mebibytes_per_address * MEBIBYTE
        self.total = 0
        self._unknown = 0
        self._large_unknown = 0
        self._by_address: Counter[str] = Counter()

    def take(self, body: "IncomingBody", size: int) -> bool:
        """Reserve memory for more bytes of a body; return False beyond a limit."""
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
    """A request body while it arrives, shared by the protocol and the middleware."""

    memory: BodyMemory
    address: str | None
    started: float
    known: bool = True
    """True over the unix socket and from an address with a recently accepted credential."""
    received: int = 0
    reserved: int = 0
    rejection: ApiError | None = None
    """The response that rejects the rest of the body."""

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


class KnownAddresses:
    """Addresses from which a credential was accepted recently."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: LruCache[str, float] = LruCache(MAX_KNOWN_ADDRESSES)

    def add(self, address: str) -> None:
        self._until[address] = self._clock() + KNOWN_ADDRESS_SECONDS

    def __contains__(self, address: str) -> bool:
        until = self._until.peek(address)
        return until is not None and until > self._clock()


class Requests:
    """The running and waiting requests. An eighth is reserved for the unix socket."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.total = 0
        self._by_address: Counter[str] = Counter()

    def enter(self, address: str | None) -> Callable[[], None]:
        """Count a request.

        Returns:
            A function that ends the count. Further calls have no effect.

        Raises:
            ApiError: 503 if there are too many requests.
        """
        own = self._by_address[address] if address else 0
        max_total, max_per_address = self.limits.max_requests, self.limits.max_requests_per_address
        if self.total >= max_total // 2:
            max_per_address = min(max_per_address, MAX_REQUESTS_UNDER_LOAD)
        if address:
            max_total -= max_total // RESERVED_SHARE
        if self.total >= max_total or (address and own >= max_per_address):
            raise errors.overloaded("too many requests are waiting")
        self.total += 1
        if address:
            self._by_address[address] += 1
        active = True

        def leave() -> None:
            nonlocal active
            if active:
                active = False
                self.total -= 1
                if address:
                    self._by_address[address] -= 1
                    if not self._by_address[address]:
                        del self._by_address[address]

        return leave


class FairThreads:
    """Limits worker threads fairly: waiting clients take turns, so that one with many requests delays only itself.

    Reads and changes have separate budgets, so that no read waits for a change that waits for a database lock.
    Replaces anyio's default thread limiter, which serves tasks in order of arrival.
    """

    def __init__(self, threads: int = MAX_THREADS, per_client: int = MAX_THREADS_PER_CLIENT) -> None:
        self.total_tokens = threads
        self._per_client = per_client
        self._max_changes = max(1, threads - per_client)
        self._running: Counter[Work] = Counter()
        self._busy = 0
        self._changes = 0
        self._waiting: OrderedDict[Work, deque[asyncio.Future[None]]] = OrderedDict()

    def install(self) -> None:
        """Use these threads for `anyio.to_thread.run_sync` in the running event loop."""
        from anyio._backends import _asyncio

        _asyncio._default_thread_limiter.set(self)  # type: ignore[arg-type]

    async def __aenter__(self) -> None:
        work = WORK.get()
        if self._busy < self.total_tokens and self._may_start(work):
            self._start(work)
            return
        started = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(work, deque()).append(started)
        try:
            await started
        except asyncio.CancelledError:
            if started.done() and not started.cancelled():
                self._finish(work)
            raise

    async def __aexit__(self, *error: object) -> None:
        self._finish(WORK.get())

    def _may_start(self, work: Work) -> bool:
        return self._running[work] < self._per_client and not (work.changes and self._changes >= self._max_changes)

    def _start(self, work: Work) -> None:
        self._busy += 1
        self._changes += work.changes
        self._running[work] += 1

    def _finish(self, work: Work) -> None:
        self._busy -= 1
        self._changes -= work.changes
        self._running[work] -= 1
        if not self._running[work]:
            del self._running[work]
        while self._busy < self.total_tokens and (started := self._next()) is not None:
            started.set_result(None)

    def _next(self) -> asyncio.Future[None] | None:
        """Start the next waiting task: of the clients below their limit, the one served longest ago comes first."""
        for work, queue in list(self._waiting.items()):
            while queue and queue[0].cancelled():
                queue.popleft()
            if not queue:
                del self._waiting[work]
            elif self._may_start(work):
                started = queue.popleft()
                self._waiting.move_to_end(work)
                if not queue:
                    del self._waiting[work]
                self._start(work)
                return started
        return None


@dataclass
class Admission:
    """All limits of one process, and the number of rejections by each."""

    limits: Limits
    proxies: Collection[str] = frozenset()
    rejections: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.connections = Connections(self.limits)
        self.bodies = BodyMemory(self.limits)
        self.requests = Requests(self.limits)
        self.known = KnownAddresses()
        self._logged_at = float("-inf")

    def source_of(self, client: tuple[Any, ...]) -> Source:
        address = canonical_address(client[0]) or client[0]
        return Source() if address in self.proxies else Source(network_of(address))

    def address_of(self, scope: Mapping[str, Any]) -> str | None:
        """Return the address or network that a request counts for; None over the unix socket."""
        address = address_of(scope, self.proxies)
        return address and network_of(address)

    def expect_body(self, scope: dict[str, Any], now: float) -> IncomingBody:
        """Start to count the body of a request, and put it into the scope for the middleware."""
        address = self.address_of(scope)
        body = scope["frost.body"] = IncomingBody(
            self.bodies, address, now, known=address is None or address in self.known
        )
        return body

    def record_accepted_credential(self, scope: Mapping[str, Any]) -> None:
        if (address := self.address_of(scope)) is not None:
            self.known.add(address)

    def record_rejection(self, reason: str) -> None:
        """Count a rejection. At most one a second is logged, so that a flood does not fill the log."""
        self.rejections[reason] += 1
        now = time.monotonic()
        if now - self._logged_at >= LOG_INTERVAL_SECONDS:
            self._logged_at = now
            counts = ", ".join(f"{name} {count}" for name, count in sorted(self.rejections.items()))
            logger.warning("overloaded; refused since the start: %s", counts)

    def fit_descriptors(self) -> None:
        """Raise the limit of open files as far as needed, and lower the limit of connections to what fits."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        needed = self.limits.max_connections + RESERVED_DESCRIPTORS
        if soft != resource.RLIM_INFINITY and soft < needed:
            limit = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
                soft = limit
            except (OSError, ValueError):
                logger.info("the limit of open files stays %s", soft)
        if soft != resource.RLIM_INFINITY and soft < needed:
            self.connections.max_total = max(soft - RESERVED_DESCRIPTORS, soft // 4)
            logger.warning(
                "at most %s connections instead of %s: the limit of open files is %s (ulimit -n)",
                self.connections.max_total,
                self.limits.max_connections,
                soft,
            )


@contextmanager
def thread_budget_of(client: Hashable, *, changes: bool = False) -> Iterator[None]:
    """Count threads used in this context for the reads or the changes of a client."""
    token = WORK.set(Work(client, changes))
    try:
        yield
    finally:
        WORK.reset(token)

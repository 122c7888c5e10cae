"""Admission control of one process: connections, requests, memory for request bodies, and fair use of threads.

Everything here belongs to the event loop; nothing is shared with other threads.
"""

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
from service.http_server.client_address import address_of, network_of, plain_address
from service.settings import MEBIBYTE, Limits

logger = logging.getLogger(__name__)

# Kept for the unix socket, so that its owner is always answered.
RESERVED_SHARE = 8
# Connections beyond a limit that ask for health and are answered.
MAX_ONLY_HEALTH = 64
# Descriptors for the database and files, and for connections that wait for their refusal.
OTHER_DESCRIPTORS = 1_000
# A new connection is not closed as idle before its first request had time to arrive.
GRACE_SECONDS = 1.0
# Once half of the requests are taken, an address that has this many gets no more.
SMALL_SHARE = 32
# Fewer than the database has connections: no request waits for one while it holds a thread.
THREADS = 16
# Threads for the reads of one client, and as many for its changes: more would not be faster under the interpreter
# lock, but delay all others. So many are also kept from all changes together.
THREADS_PER_CLIENT = 4
# Larger bodies of addresses without an accepted credential share a quarter of the memory.
SMALL_BODY_BYTES = 16 * 1024
# How long an address counts as known after a credential was accepted from it.
KNOWN_SECONDS = 3600.0
MAX_KNOWN_ADDRESSES = 10_000
LOG_SECONDS = 1.0
REASONS = ("connections", "requests", "bodies", "late_bodies")
"""What `Admission` counts refusals by."""


class Work(NamedTuple):
    """By what threads are shared: a client, and whether its request may change something."""

    client: Hashable = None
    changes: bool = False


WORK: ContextVar[Work] = ContextVar("frost_work", default=Work())  # noqa: B039
"""The client and kind of the current request."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a connection comes from: the unix socket, an address, or a trusted proxy (neither)."""

    address: str | None = None
    local: bool = False


LOCAL = Source(local=True)


class Connection(Protocol):
    """A connection that the registry can close."""

    def close_idle(self) -> None: ...


class Connections:
    """The open connections. Idle ones of an address are closed first when it needs more than it may have."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.max_total = limits.max_connections
        self._clock = clock
        self._served: dict[Connection, Source] = {}
        self._remote = 0
        self._counts: Counter[Source] = Counter()
        self._only_health: set[Connection] = set()
        # By the instant from which each may be closed; the first one is idle for longest.
        self._idle: OrderedDict[Connection, float] = OrderedDict()
        self._idle_of: dict[Source, OrderedDict[Connection, float]] = {}

    def __len__(self) -> int:
        return len(self._served) + len(self._only_health)

    def has_room_for(self, source: Source) -> bool:
        """Return whether one more connection is within the limits; an idle one is closed for it if need be."""
        own = self._idle_of.get(source, OrderedDict())
        if source.address is not None and self._counts[source] >= self.limits.max_connections_per_address:
            return self._close_oldest(own)
        full = len(self._served) >= self.max_total
        if not source.local:
            full = full or self._remote >= self.max_total - self.max_total // RESERVED_SHARE
        return not full or self._close_oldest(own) or self._close_oldest(self._idle)

    def has_room_for_health(self) -> bool:
        """Return whether one more connection beyond the limits may ask for health."""
        return len(self._only_health) < MAX_ONLY_HEALTH

    def add(self, connection: Connection, source: Source, *, only_health: bool = False) -> None:
        """Register a connection, for which there is room."""
        if only_health:
            self._only_health.add(connection)
            return
        self._served[connection] = source
        self._remote += not source.local
        self._counts[source] += 1
        self.set_idle(connection, GRACE_SECONDS)

    def remove(self, connection: Connection) -> None:
        """Forget a closed connection."""
        self.set_busy(connection)
        self._only_health.discard(connection)
        if (source := self._served.pop(connection, None)) is not None:
            self._remote -= not source.local
            self._counts[source] -= 1
            if not self._counts[source]:
                del self._counts[source]

    def set_idle(self, connection: Connection, grace: float = 0.0) -> None:
        """Note that a connection has no request under way; it may be closed after a grace."""
        if (source := self._served.get(connection)) is not None:
            at = self._clock() + grace
            self._idle_of.setdefault(source, OrderedDict())[connection] = at
            if not source.local:
                self._idle[connection] = at

    def set_busy(self, connection: Connection) -> None:
        """Note that a request has begun to arrive on a connection."""
        self._idle.pop(connection, None)
        source = self._served.get(connection)
        if source is not None and (idle := self._idle_of.get(source)) is not None:
            idle.pop(connection, None)
            if not idle:
                del self._idle_of[source]

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

    An eighth is kept for the unix socket. Addresses without an accepted credential share half of the memory, and a
    quarter for their larger bodies: they can delay neither known addresses nor the sign-in of another new address.
    """

    def __init__(self, limits: Limits) -> None:
        self._most = limits.max_body_mebibytes * MEBIBYTE
        self._most_of_address = limits.max_body_mebibytes_per_address * MEBIBYTE
        self.total = 0
        self._of_unknown = 0
        self._of_large_unknown = 0
        self._of: Counter[str] = Counter()

    def take(self, body: "IncomingBody", size: int) -> bool:
        """Reserve memory for more bytes of a body; False if a limit does not allow it."""
        held = body.held + size
        if self.total + size > self._most - (self._most // RESERVED_SHARE if body.address else 0):
            return False
        if body.address and self._of[body.address] + size > self._most_of_address:
            return False
        if not body.known:
            large = large_part(held) - large_part(body.held)
            if self._of_unknown + size > self._most // 2 or self._of_large_unknown + large > self._most // 4:
                return False
        self._add(body, held)
        return True

    def release(self, body: "IncomingBody") -> None:
        """Give back the memory of a body."""
        self._add(body, 0)

    def _add(self, body: "IncomingBody", held: int) -> None:
        """Set the bytes that a body holds."""
        size, large = held - body.held, large_part(held) - large_part(body.held)
        body.held = held
        self.total += size
        if not body.known:
            self._of_unknown += size
            self._of_large_unknown += large
        if body.address:
            self._of[body.address] += size
            if not self._of[body.address]:
                del self._of[body.address]


def large_part(size: int) -> int:
    """Return how many bytes of a body count as those of a large one: all, or none of a small one."""
    return size if size > SMALL_BODY_BYTES else 0


@dataclass(slots=True, eq=False)
class IncomingBody:
    """The body of one request as it arrives, shared by the protocol that receives it and the application's edge."""

    memory: BodyMemory
    address: str | None
    began: float
    known: bool = True
    """Over the unix socket, or from an address with a recently accepted credential."""
    received: int = 0
    held: int = 0
    refusal: ApiError | None = None
    """Why the rest of the body is not taken."""

    def take(self, size: int) -> bool:
        """Count bytes that arrived; False if they are not to be kept."""
        self.received += size
        if self.refusal is None and not self.memory.take(self, size):
            self.refusal = errors.overloaded("too many request bodies are in memory")
        return self.refusal is None

    def refuse_late(self, limits: Limits) -> None:
        """Refuse the rest of a body that did not arrive in time."""
        self.refusal = errors.body_too_late(limits.body_seconds, limits.body_bytes_per_second)

    def release(self) -> None:
        """Give the memory back, once the request is answered or its connection is lost."""
        self.memory.release(self)


class KnownAddresses:
    """Addresses from which a credential was accepted recently; the oldest are dropped beyond a bound."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: OrderedDict[str, float] = OrderedDict()

    def note(self, address: str) -> None:
        """Note that a credential was accepted from an address."""
        self._until[address] = self._clock() + KNOWN_SECONDS
        self._until.move_to_end(address)
        if len(self._until) > MAX_KNOWN_ADDRESSES:
            self._until.popitem(last=False)

    def __contains__(self, address: str) -> bool:
        return self._until.get(address, float("-inf")) > self._clock()


class Requests:
    """The requests that run or wait to run. An eighth of the places is kept for the unix socket."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.total = 0
        self._of: Counter[str] = Counter()

    def enter(self, address: str | None) -> Callable[[], None]:
        """Count a request; the result counts it out, once.

        Raises:
            Refusal: 503, too many are under way.
        """
        own = self._of[address] if address else 0
        most, most_of_address = self.limits.max_requests, self.limits.max_requests_per_address
        if self.total >= most // 2:
            most_of_address = min(most_of_address, SMALL_SHARE)
        if address:
            most -= most // RESERVED_SHARE
        if self.total >= most or (address and own >= most_of_address):
            raise errors.overloaded("too many requests are waiting")
        self.total += 1
        if address:
            self._of[address] += 1
        inside = True

        def leave() -> None:
            nonlocal inside
            if inside:
                inside = False
                self.total -= 1
                if address:
                    self._of[address] -= 1
                    if not self._of[address]:
                        del self._of[address]

        return leave


class FairThreads:
    """The threads of requests. Clients that wait take turns, so that one with many requests delays only itself.

    Reads and changes of a client have separate budgets, and all changes together leave threads for reads: a change may
    wait for the database's writer, or for the lock of a tenant, and a read never waits for such a change.
    It replaces the default limiter of anyio's worker threads, which serves waiting tasks in order of arrival.
    """

    def __init__(self, threads: int = THREADS, per_client: int = THREADS_PER_CLIENT) -> None:
        self.total_tokens = threads
        self._per_client = per_client
        self._most_changes = max(1, threads - per_client)
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
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(work, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._finish(work)
            raise

    async def __aexit__(self, *error: object) -> None:
        self._finish(WORK.get())

    def _may_start(self, work: Work) -> bool:
        return self._running[work] < self._per_client and not (work.changes and self._changes >= self._most_changes)

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
        while self._busy < self.total_tokens and (turn := self._next()) is not None:
            turn.set_result(None)

    def _next(self) -> asyncio.Future[None] | None:
        """Start the next waiting task; of the clients below their share, the one served longest ago comes first."""
        for work, turns in list(self._waiting.items()):
            while turns and turns[0].cancelled():
                turns.popleft()
            if not turns:
                del self._waiting[work]
            elif self._may_start(work):
                turn = turns.popleft()
                self._waiting.move_to_end(work)
                if not turns:
                    del self._waiting[work]
                self._start(work)
                return turn
        return None


@dataclass
class Admission:
    """All limits of one process, and how often each refused something."""

    limits: Limits
    proxies: Collection[str] = frozenset()
    refused: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.connections = Connections(self.limits)
        self.bodies = BodyMemory(self.limits)
        self.requests = Requests(self.limits)
        self.known = KnownAddresses()
        self._logged_at = float("-inf")

    def source_of(self, client: tuple[Any, ...]) -> Source:
        """Return where a connection over TCP comes from, by the address of the socket."""
        address = plain_address(client[0]) or client[0]
        return Source() if address in self.proxies else Source(network_of(address))

    def address_of(self, scope: Mapping[str, Any]) -> str | None:
        """Return the address by which a request is limited; None over the unix socket."""
        address = address_of(scope, self.proxies)
        return address and network_of(address)

    def expect_body(self, scope: dict[str, Any], now: float) -> IncomingBody:
        """Begin to count the body of a request, also for the application's edge."""
        address = self.address_of(scope)
        known = address is None or address in self.known
        body = scope["frost.body"] = IncomingBody(self.bodies, address, now, known)
        return body

    def note_accepted(self, scope: Mapping[str, Any]) -> None:
        """Note that the credential of a request was accepted."""
        if (address := self.address_of(scope)) is not None:
            self.known.note(address)

    def note_refusal(self, reason: str) -> None:
        """Count a refusal, and log at most one a second: a flood must not fill the log."""
        self.refused[reason] += 1
        now = time.monotonic()
        if now - self._logged_at >= LOG_SECONDS:
            self._logged_at = now
            counts = ", ".join(f"{name} {count}" for name, count in sorted(self.refused.items()))
            logger.warning("overloaded; refused since the start: %s", counts)

    def fit_descriptors(self) -> None:
        """Raise the process's limit of open files as far as needed, and allow only the connections that fit."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        needed = self.limits.max_connections + OTHER_DESCRIPTORS
        if soft != resource.RLIM_INFINITY and soft < needed:
            wanted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
                soft = wanted
            except (OSError, ValueError):
                logger.info("the limit of open files stays %s", soft)
        if soft != resource.RLIM_INFINITY and soft < needed:
            self.connections.max_total = max(soft - OTHER_DESCRIPTORS, soft // 4)
            logger.warning(
                "at most %s connections instead of %s: the limit of open files is %s (ulimit -n)",
                self.connections.max_total,
                self.limits.max_connections,
                soft,
            )


@contextmanager
def on_behalf_of(client: Hashable, *, changes: bool = False) -> Iterator[None]:
    """Let the threads that are taken in this context count for the reads or the changes of a client."""
    token = WORK.set(Work(client, changes))
    try:
        yield
    finally:
        WORK.reset(token)

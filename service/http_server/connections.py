"""The open connections of the server: their limits, and a transport that sends head and body of a response together.

uvicorn writes head and body one after the other. Each write is a system call, which takes longer than most of the work
on a read, and wakes the client. Event loop only.
"""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from service.settings import Limits

# An eighth is reserved for the unix socket.
RESERVED_SHARE = 8
# Connections beyond the limits that may send health checks.
MAX_HEALTH_CONNECTIONS = 64
# Minimum age of a connection that may be closed as idle.
GRACE_SECONDS = 1.0
MAX_PENDING_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Source:
    """The unix socket, an address, or a trusted proxy (neither)."""

    address: str | None = None
    local: bool = False


LOCAL = Source(local=True)


class Connection(Protocol):
    def close_idle(self) -> None: ...


class Connections:
    """The open connections. An address at its limit loses an idle connection of its own."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.max_total = limits.max_connections
        self._clock = clock
        self._served: dict[Connection, Source] = {}
        self._remote = 0
        self._counts: Counter[Source] = Counter()
        self._only_health: set[Connection] = set()
        # When each may be closed, longest idle first.
        self._idle: OrderedDict[Connection, float] = OrderedDict()
        self._idle_by_source: dict[Source, OrderedDict[Connection, float]] = {}

    def __len__(self) -> int:
        return len(self._served) + len(self._only_health)

    def has_room_for(self, source: Source) -> bool:
        """Check the limits for a new connection, closing an idle connection if necessary."""
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


class JoinedWrites:
    """Delays a write until the next one, at most to the next iteration of the event loop.

    Args:
        transport: sends the data, and has all other methods.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._pending = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._pending:
            pending, self._pending = self._pending, b""
            self._transport.write(pending + data)
        elif len(data) > MAX_PENDING_BYTES:
            self._transport.write(data)
        else:
            self._pending = data
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send pending data."""
        pending, self._pending = self._pending, b""
        if pending and not self._transport.is_closing():
            self._transport.write(pending)

    def close(self) -> None:
        """Send pending data, then close."""
        self.flush()
        self._transport.close()

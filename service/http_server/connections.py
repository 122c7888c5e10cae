"""The open connections of the server, and which of them are closed in favour of new ones. Event loop only.

Beyond a limit, a new connection replaces another one, in this order:

1. the one whose request's head has been in transit for longest, at least for `GRACE_SECONDS`
2. the one that has been idle for longest
3. the one whose head has been in transit for longest

Protected connections and those with a request in progress are never replaced. A source replaces its own connections
first, by 1 and 2, and beyond the limit of an address only these. A network replaces few connections a second, because
accepting costs more than rejecting.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from service.http_server.client import wide_network_of
from service.http_server.protected_connections import ProtectedConnections
from service.principal import Principal
from service.settings import Limits
from service.token_bucket import TokenBucket

# An eighth is reserved for the unix socket.
RESERVED_SHARE = 8
# Connections beyond the limits that may send requests for health, discovery and sign-in.
MAX_RESERVED = 64
MAX_RESERVED_OF_NETWORK = 16
# In which the head of a new connection arrives.
GRACE_SECONDS = 1.0
# Connections that a network may replace at once, and the seconds until it may replace another one.
MAX_REPLACED, REPLACE_SECONDS = 128, 1 / 64


@dataclass(frozen=True, slots=True)
class Source:
    """The unix socket, an address, or a trusted proxy (neither)."""

    address: str | None = None
    local: bool = False

    @property
    def network(self) -> str:
        return "" if self.address is None else wide_network_of(self.address)


LOCAL = Source(local=True)


class Connection(Protocol):
    def close_early(self) -> None:
        """Close a connection that is idle, or whose request's head is in transit."""


class State(Enum):
    HEAD = "head"
    """The head of a request is in transit or expected."""
    BUSY = "busy"
    IDLE = "idle"


@dataclass(slots=True)
class _Entry:
    source: Source
    state: State = State.BUSY


class _Queue:
    """Connections that may be closed, with the time at which each was added, oldest first."""

    def __init__(self) -> None:
        self._remote: OrderedDict[Connection, float] = OrderedDict()
        self._by_source: dict[Source, OrderedDict[Connection, float]] = {}

    def add(self, connection: Connection, source: Source, now: float) -> None:
        self._by_source.setdefault(source, OrderedDict())[connection] = now
        if not source.local:
            self._remote[connection] = now

    def discard(self, connection: Connection, source: Source) -> None:
        self._remote.pop(connection, None)
        if (own := self._by_source.get(source)) is not None and own.pop(connection, None) is not None and not own:
            del self._by_source[source]

    def oldest(self, until: float, source: Source | None = None) -> Connection | None:
        """Return the oldest one that was added before a time: of a source, or of all but the unix socket."""
        queue = self._remote if source is None else self._by_source.get(source)
        if not queue:
            return None
        connection, added_at = next(iter(queue.items()))
        return connection if added_at <= until else None


class Connections:
    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._clock = clock
        self._served: dict[Connection, _Entry] = {}
        self._remote = 0
        self._counts: Counter[Source] = Counter()
        self._reserved: dict[Connection, _Entry] = {}
        """Connections for health, discovery and sign-in beyond the limits, oldest first."""
        self._closable = {State.HEAD: _Queue(), State.IDLE: _Queue()}
        self._replaced = TokenBucket(MAX_REPLACED, REPLACE_SECONDS, clock)
        self.protected: ProtectedConnections[Connection] = ProtectedConnections(0)
        self.resize(limits.max_connections)

    def resize(self, max_total: int) -> None:
        self.max_total = max_total
        self._max_remote = max_total - max_total // RESERVED_SHARE
        self.protected.resize(self._max_remote)

    def __len__(self) -> int:
        return len(self._served) + len(self._reserved)

    @property
    def is_crowded(self) -> bool:
        """Return whether connections may soon be replaced."""
        return self._remote > self._max_remote // 2

    def has_room_for(self, source: Source) -> bool:
        """Check the limits for a new connection, closing another one if necessary."""
        if source.address is not None and self._counts[source] >= self.limits.max_connections_per_address:
            return self._may_replace(source) and self._close(self._replaceable_of(source))
        full = len(self._served) >= self.max_total
        if not source.local:
            full = full or self._remote >= self._max_remote
        if not full:
            return True
        return self._may_replace(source) and self._close(self._replaceable_of(source) or self._replaceable())

    def has_reserved_room_for(self, source: Source) -> bool:
        """Check the limits for a connection beyond all others, closing one without a request if necessary."""
        own = [each for each, entry in self._reserved.items() if entry.source.network == source.network]
        if len(own) >= MAX_RESERVED_OF_NETWORK:
            return self._close(self._reserved_head(own))
        return len(self._reserved) < MAX_RESERVED or self._close(self._reserved_head(self._reserved))

    def add(self, connection: Connection, source: Source, *, only_reserved: bool = False) -> None:
        if only_reserved:
            self._reserved[connection] = _Entry(source, State.HEAD)
            return
        self._served[connection] = _Entry(source)
        self._remote += not source.local
        self._counts[source] += 1
        self.set_state(connection, State.HEAD)

    def remove(self, connection: Connection) -> None:
        self.set_state(connection, State.BUSY)
        self.protected.remove(connection)
        self._reserved.pop(connection, None)
        if (entry := self._served.pop(connection, None)) is not None:
            self._remote -= not entry.source.local
            self._counts[entry.source] -= 1
            if not self._counts[entry.source]:
                del self._counts[entry.source]

    def set_state(self, connection: Connection, state: State) -> None:
        entry = self._served.get(connection)
        if entry is None and (reserved := self._reserved.get(connection)) is not None:
            reserved.state = state
        if entry is None or entry.state is state:
            return
        if (queue := self._closable.get(entry.state)) is not None:
            queue.discard(connection, entry.source)
        entry.state = state
        self._enqueue(connection, entry)

    def protect(self, connection: Connection, principal: Principal) -> None:
        """Protect a connection whose request has an accepted credential, within the share of the principal."""
        entry = self._served.get(connection)
        if entry is not None and not entry.source.local:
            self.protected.add(connection, principal)
            if entry.state is not State.BUSY and connection in self.protected:
                self._closable[entry.state].discard(connection, entry.source)

    def revoke(self, credential: str) -> None:
        """End the protection by a credential that is no longer accepted."""
        for connection in self.protected.revoke(credential):
            self._enqueue(connection, self._served[connection])

    def _enqueue(self, connection: Connection, entry: _Entry) -> None:
        queue = self._closable.get(entry.state)
        if queue is not None and connection not in self.protected:
            queue.add(connection, entry.source, self._clock())

    def _may_replace(self, source: Source) -> bool:
        return source.address is None or not self._replaced.take(source.network)

    def _replaceable_of(self, source: Source) -> Connection | None:
        now, heads, idle = self._clock(), self._closable[State.HEAD], self._closable[State.IDLE]
        return heads.oldest(now - GRACE_SECONDS, source) or idle.oldest(now, source)

    def _replaceable(self) -> Connection | None:
        now, heads, idle = self._clock(), self._closable[State.HEAD], self._closable[State.IDLE]
        return heads.oldest(now - GRACE_SECONDS) or idle.oldest(now) or heads.oldest(now)

    def _reserved_head(self, connections: Iterable[Connection]) -> Connection | None:
        return next((each for each in connections if self._reserved[each].state is State.HEAD), None)

    def _close(self, connection: Connection | None) -> bool:
        if connection is None:
            return False
        self.remove(connection)
        connection.close_early()
        return True

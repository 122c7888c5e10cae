"""Event streams: signals, without data, that something in a tenant has changed.

A signal may be redundant but must not be missing: a stream starts with `resync` after its first poll, and a reader
that falls behind gets `resync` in place of missed signals.

While streams are open, a task per process polls the database for changes by any process, ended sessions, revoked keys
and lost memberships.
"""

import asyncio
import json
import logging
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import uuid4

from sqlalchemy import RowMapping

from service.clock import Clock, wire_time
from service.db.engine import Database
from service.jobs import queries
from service.principal import Principal
from service.principals import live_credentials
from service.principals.grants import still_entitled

logger = logging.getLogger(__name__)

MAX_STREAMS = 200
MAX_PER_PRINCIPAL = 40
POLL_SECONDS = 0.25
# While an operation is open: progress must reach a screen in 300 ms; the reader uses 100 ms of that.
BUSY_POLL_SECONDS = 0.1
MAX_PENDING = 100
RESYNC = "event: resync\ndata: {}\n\n"


class TooManyStreams(Exception):
    """This process has the maximum of open streams."""


class TooManyOfPrincipal(Exception):
    """This person (with their API keys) or workload has the maximum of open streams."""


@dataclass(frozen=True)
class TenantState:
    """State of a tenant at a poll."""

    state: tuple[str, str, datetime] | None
    movement: tuple[int, int, datetime] | None
    operations: Mapping[str, RowMapping]


@dataclass(frozen=True)
class Poll:
    """Result of a poll."""

    credentials: frozenset[str]
    entitled: frozenset[tuple[str, str]]
    states: dict[str, TenantState]
    changes: queries.Changes

    def is_authorized(self, stream: "Stream") -> bool:
        """Return whether the credential is live and, unless it is a workload, its person may enter the tenant."""
        entered = stream.workload_id is not None or (stream.user_id, stream.tenant_id) in self.entitled
        return entered and stream.credential_id in self.credentials


@dataclass(eq=False)
class Stream:
    """Pending signals of a reader, as text in the event stream format.

    `synced` is set after the first `resync`, `ended` when the connection must be closed.
    """

    tenant_id: str
    user_id: str
    session_id: str | None
    key_id: str | None
    workload_id: str | None = None
    ended: bool = False
    synced: bool = False
    _pending: deque[str] = field(default_factory=deque)
    _ready: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def credential_id(self) -> str | None:
        return self.session_id or self.key_id or self.workload_id

    async def next(self, seconds: float) -> str | None:
        """Return the pending signals, after at most `seconds`; None without signals."""
        try:
            async with asyncio.timeout(seconds):
                await self._ready.wait()
        except TimeoutError:
            return None
        self._ready.clear()
        text = "".join(self._pending)
        self._pending.clear()
        return text

    def put(self, text: str) -> None:
        if len(self._pending) >= MAX_PENDING:
            self._pending.clear()
            text = RESYNC
        self._pending.append(text)
        self._ready.set()

    def end(self) -> None:
        self.ended = True
        self._ready.set()


class EventHub:
    """The open event streams of this process."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        max_streams: int = MAX_STREAMS,
        *,
        poll_seconds: float = POLL_SECONDS,
        busy_poll_seconds: float = BUSY_POLL_SECONDS,
    ) -> None:
        """`poll_seconds` is the pause between two polls, `busy_poll_seconds` the pause while an operation runs."""
        self._database = database
        self._clock = clock
        self._max_streams = max_streams
        self._poll_seconds, self._busy_poll_seconds = poll_seconds, busy_poll_seconds
        self._streams: dict[Stream, None] = {}
        """Oldest first."""
        self._states: dict[str, TenantState] = {}
        self._last_entry: int | None = None
        """Newest audit entry at the last poll."""
        self._opened = asyncio.Event()
        self._poller: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def open_streams(self) -> int:
        return len(self._streams)

    def open(self, principal: Principal, tenant_id: str) -> Stream:
        """Open a stream. Call on the event loop, and `leave` the stream at the end.

        If all streams are open, a principal with fewer streams ends the oldest stream of the one with the most.

        Raises:
            TooManyStreams: The process has no stream left, or is stopping.
            TooManyOfPrincipal: The principal has no stream left.
        """
        user_id = str(principal.user_id or principal.workload_id)
        counts = Counter(stream.user_id for stream in self._streams)
        if counts[user_id] >= MAX_PER_PRINCIPAL:
            raise TooManyOfPrincipal
        if self._closed or (len(self._streams) >= self._max_streams and not self._end_one_for(user_id, counts)):
            raise TooManyStreams
        stream = Stream(tenant_id, user_id, principal.session_id, principal.key_id, principal.workload_id)
        self._streams[stream] = None
        self._opened.set()
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll_loop(), name="event-streams")
        return stream

    def _end_one_for(self, user_id: str, counts: Counter[str]) -> bool:
        """End a stream of the principal with the most, if the other has fewer even with another one."""
        largest = max(counts, key=lambda name: counts[name], default=user_id)
        if counts[largest] <= counts[user_id] + 1:
            return False
        stream = next(stream for stream in self._streams if stream.user_id == largest)
        self.leave(stream)
        stream.end()
        return True

    def leave(self, stream: Stream) -> None:
        self._streams.pop(stream, None)

    def close(self) -> None:
        """End every stream at the next poll and refuse new streams. Thread-safe."""
        self._closed = True

    async def _poll_loop(self) -> None:
        while self._streams:
            self._opened.clear()
            streams = list(self._streams)
            try:
                await self._serve(streams)
            except Exception:
                logger.exception("event streams: a poll failed; it is repeated")
            try:
                async with asyncio.timeout(self._busy_poll_seconds if self._busy() else self._poll_seconds):
                    await self._opened.wait()
            except TimeoutError:
                pass
        self._states.clear()
        self._last_entry = None

    def _busy(self) -> bool:
        rows = (row for view in self._states.values() for row in view.operations.values())
        return any(row["status"] in queries.OPEN for row in rows)

    async def _serve(self, streams: list[Stream]) -> None:
        if self._closed:
            for stream in streams:
                stream.end()
            return
        poll = await asyncio.to_thread(self._poll, streams)
        now = self._clock.now()
        signals: dict[str, list[str]] = {
            tenant_id: signals_between(self._states[tenant_id], view, tenant_id, now)
            for tenant_id, view in poll.states.items()
            if tenant_id in self._states
        }
        for tenant_id, kinds in poll.changes.kinds.items():
            if tenant_id in signals:
                # Without the id: readers may lack the permission to list policies or keys.
                signals[tenant_id] += [_signal(f"{kind}.updated", kind, None, "", now) for kind in sorted(kinds)]
        if poll.changes.truncated:
            signals = {tenant_id: [RESYNC] for tenant_id in signals}
        self._states = poll.states
        self._last_entry = poll.changes.last
        for stream in streams:
            if not poll.is_authorized(stream):
                stream.end()
            elif not stream.synced:
                stream.synced = True
                stream.put(RESYNC)
            else:
                for text in signals.get(stream.tenant_id, ()):
                    stream.put(text)

    def _poll(self, streams: list[Stream]) -> Poll:
        tenant_ids = {stream.tenant_id for stream in streams}
        credentials = live_credentials.CredentialIds(
            frozenset(stream.session_id for stream in streams if stream.session_id),
            frozenset(stream.key_id for stream in streams if stream.key_id),
            frozenset(stream.workload_id for stream in streams if stream.workload_id),
        )
        with self._database.read() as connection:
            live = live_credentials.select_live(connection, credentials, self._clock.now())
            entitled = still_entitled(connection, {stream.user_id for stream in streams}, tenant_ids)
            tenants = queries.tenant_states(connection, tenant_ids)
            movement = queries.movement(connection, tenant_ids)
            changes = queries.changes_since(connection, self._last_entry, tenant_ids)
            states = {}
            for tenant_id in tenant_ids:
                before = self._states.get(tenant_id)
                moved = movement.get(tenant_id)
                if before is not None and before.movement == moved:
                    operations = before.operations
                else:
                    operations = {row["run_id"]: row for row in queries.latest(connection, tenant_id)}
                states[tenant_id] = TenantState(tenants.get(tenant_id), moved, operations)
            return Poll(live.sessions | live.keys | live.workloads, entitled, states, changes)


def signals_between(before: TenantState, after: TenantState, tenant_id: str, now: datetime) -> list[str]:
    signals = []
    for run_id, row in after.operations.items():
        earlier = before.operations.get(run_id)
        if earlier is None or earlier["seq"] != row["seq"]:
            open_still = row["status"] in queries.OPEN
            kind = "progress" if earlier and open_still else "started" if open_still else row["status"]
            signals.append(_signal(f"operation.{kind}", row["resource_type"], row["resource_id"], row["status"], now))
    if after.state != before.state and after.state is not None:
        signals.append(_signal("tenant.updated", "tenant", tenant_id, after.state[0], now))
    return signals


def _signal(kind: str, resource_type: str, resource_id: str | None, status: str, now: datetime) -> str:
    data = {
        "id": str(uuid4()),
        "type": kind,
        "resourceType": resource_type,
        "resourceId": resource_id or "",
        "status": status,
        "timestamp": wire_time(now),
    }
    return f"event: resource\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"

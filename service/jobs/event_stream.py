"""What event streams wait on: signals that something of a tenant moved.

A signal carries no news itself, whoever gets one reads again. So it may be sent too often, never too rarely: a
stream's first signal is `resync`, sent only after the first look at its tenant, and a reader that falls behind gets
a `resync` instead of what it missed.

One task a process looks at the database while streams are open, four times a second, for all of them together:
what moved, and who may still hear of it. That way changes, sign-outs and memberships that other processes ended are
seen alike.
contract: event stream; design: Durable operations
"""

import asyncio
import json
import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import uuid4

from sqlalchemy import RowMapping

from service.authz.entitlement import still_entitled
from service.clock import Clock, wire_time
from service.db.engine import Database
from service.jobs import queries
from service.principal import Principal

logger = logging.getLogger(__name__)

MAX_STREAMS = 200
MAX_PER_PRINCIPAL = 40
POLL_SECONDS = 0.25
# While an operation of a watched tenant is open: progress is to be on a screen within 300 ms, of which the reader waits
# a hundred so that what comes close together is read once.
BUSY_POLL_SECONDS = 0.1
MAX_PENDING = 100
RESYNC = "event: resync\ndata: {}\n\n"


class TooManyStreams(Exception):
    """This process has as many open streams as it will carry."""


class TooManyOfPrincipal(Exception):
    """This person, with their API keys, has as many open streams here as one may: the others are for everybody else."""


@dataclass(frozen=True)
class TenantState:
    """A tenant's state as last seen; two states differ when there is something to signal."""

    state: tuple[str, str, datetime] | None
    movement: tuple[int, int] | None
    operations: Mapping[str, RowMapping]


@dataclass(frozen=True)
class Poll:
    """What one look at the database found for every open stream."""

    credentials: frozenset[str]
    entitled: frozenset[tuple[str, str]]
    states: dict[str, TenantState]
    changes: queries.Changes

    def is_authorized(self, stream: "Stream") -> bool:
        """Whether its credential is still good and its person may still enter its tenant; a workload is of its own."""
        entered = stream.workload_id is not None or (stream.user_id, stream.tenant_id) in self.entitled
        return entered and stream.credential_id in self.credentials


@dataclass(eq=False)
class Stream:
    """One reader's signals, as text of the event stream format. `ended` is set when it must hang up."""

    tenant_id: str
    user_id: str
    session_id: str | None
    key_id: str | None
    workload_id: str | None = None
    ended: bool = False
    synced: bool = False
    _waiting: deque[str] = field(default_factory=deque)
    _ready: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def credential_id(self) -> str | None:
        return self.session_id or self.key_id or self.workload_id

    async def next(self, seconds: float) -> str | None:
        """What has come in, waiting at most so long; None when nothing did."""
        try:
            async with asyncio.timeout(seconds):
                await self._ready.wait()
        except TimeoutError:
            return None
        self._ready.clear()
        text = "".join(self._waiting)
        self._waiting.clear()
        return text

    def put(self, text: str) -> None:
        if len(self._waiting) >= MAX_PENDING:
            self._waiting.clear()
            text = RESYNC
        self._waiting.append(text)
        self._ready.set()

    def end(self) -> None:
        self.ended = True
        self._ready.set()


class EventHub:
    """The open event streams of this process, and the task that looks on their behalf."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._streams: set[Stream] = set()
        self._states: dict[str, TenantState] = {}
        self._last_entry: int | None = None
        """The newest audit entry at the last look; None before the first look."""
        self._joined = asyncio.Event()
        self._poller: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def open_streams(self) -> int:
        return len(self._streams)

    def open(self, caller: Principal, tenant_id: str) -> Stream:
        """A stream of the tenant's signals for this credential. Call it on the event loop; give it back with `leave`.

        Raises TooManyStreams, TooManyOfOne.
        """
        user_id = str(caller.user_id or caller.workload_id)
        if sum(stream.user_id == user_id for stream in self._streams) >= MAX_PER_PRINCIPAL:
            raise TooManyOfPrincipal
        if self._closed or len(self._streams) >= MAX_STREAMS:
            raise TooManyStreams
        stream = Stream(tenant_id, user_id, caller.session_id, caller.key_id, caller.workload_id)
        self._streams.add(stream)
        self._joined.set()
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll_loop(), name="event-streams")
        return stream

    def leave(self, stream: Stream) -> None:
        self._streams.discard(stream)

    def close(self) -> None:
        """Has every stream hang up at the next look, and refuses new ones. From any thread."""
        self._closed = True

    async def _poll_loop(self) -> None:
        while self._streams:
            self._joined.clear()
            streams = list(self._streams)
            try:
                await self._serve(streams)
            except Exception:
                logger.exception("event streams: the database could not be read")
            try:
                async with asyncio.timeout(BUSY_POLL_SECONDS if self._busy() else POLL_SECONDS):
                    await self._joined.wait()
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
        for tenant_id, things in poll.changes.things.items():
            if tenant_id in signals:
                # Without the id: a stream is open to callers who may not list policies or keys.
                signals[tenant_id] += [_signal(f"{thing}.updated", thing, None, "", now) for thing in sorted(things)]
        if poll.changes.cut:
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
        credentials = queries.Credentials(
            frozenset(stream.session_id for stream in streams if stream.session_id),
            frozenset(stream.key_id for stream in streams if stream.key_id),
            frozenset(stream.workload_id for stream in streams if stream.workload_id),
        )
        with self._database.read() as connection:
            live = queries.live_credentials(connection, credentials, self._clock.now())
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
    """The signals that lead from one view of a tenant to the next."""
    told = []
    for run_id, row in after.operations.items():
        earlier = before.operations.get(run_id)
        if earlier is None or earlier["seq"] != row["seq"]:
            open_still = row["status"] in queries.OPEN
            kind = "progress" if earlier and open_still else "started" if open_still else row["status"]
            told.append(_signal(f"operation.{kind}", row["resource_type"], row["resource_id"], row["status"], now))
    if after.state != before.state and after.state is not None:
        told.append(_signal("tenant.updated", "tenant", tenant_id, after.state[0], now))
    return told


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

"""Read the shown data again, one read at a time: at the signals of the tenant in use, at intervals, and after failures.

A busy tenant sends signals faster than a long list can be read. A restart at each signal would never finish, so a
running read continues, and one more follows it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any

from client.operations import COALESCE_SECONDS, REREAD_SECONDS
from tui.state.event_stream import EventStreams, Spawn, Subscription
from tui.state.jobs import RUNS
from tui.state.list_store import SingleFlight

if TYPE_CHECKING:
    from client.transport.events import Signal


class Topic(Enum):
    """A part of the workspace that changed."""

    LINK = auto()
    """The connection to the platform."""
    SESSION_ENDED = auto()
    """The platform refused the credential: requests need another sign-in."""
    CONTEXT = auto()
    """The context in use, or its principal. All data of the former one was dropped."""
    PRINCIPAL = auto()
    """Another principal, context or endpoint is in use. Questions about the former one are outdated."""
    CONTEXTS = auto()
    """The contexts of the configuration."""
    IDENTITY = auto()
    TENANTS = auto()
    TENANT = auto()
    """The tenant in use."""
    OPERATIONS = auto()
    """A tenant that is being provisioned."""
    APPLIES = auto()
    """A running apply of default tags."""


@dataclass(frozen=True, slots=True)
class ListChanged:
    """Records or state of a list changed. Lists are named in tui/state/loaders.py."""

    name: str


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """A list must be read again if it is shown; without a name, all lists."""

    name: str = ""


Update = Topic | ListChanged | ReadAgain
"""What the workspace reports to the screens."""

TENANT = "tenant"
"""The resource type of a tenant and of its provisioning."""
APPLY = "tenant_default_tags"
"""The resource type of an apply of default tags."""
_AUDITED = ("activity", "activity of", "organization activity")
_ACCESS = ("access", "who", *_AUDITED)
_PRINCIPALS = ("principals", "groups of", "policies of", "members", "attachments", *_ACCESS)
_COUNTING = ("groups", "policies")
"""Lists that count members and attachments."""
_USAGE = ("quotas", "organization quotas")
LISTS_OF: Mapping[str, frozenset[str]] = {
    "policy": frozenset((*_COUNTING, "policies of", "attachments", "versions", *_ACCESS)),
    "group": frozenset((*_COUNTING, "groups of", "members", "policies of", "attachments", *_ACCESS)),
    "api_key": frozenset(("own keys", *_COUNTING, *_PRINCIPALS)),
    "workload_identity": frozenset((*_COUNTING, *_PRINCIPALS)),
    "default_tags": frozenset(("default tags", "tag versions", "apply preview", *_AUDITED)),
    APPLY: frozenset((RUNS, "operation", "apply preview", *_AUDITED)),
    "quota_request": frozenset((*_USAGE, "quota requests", *_AUDITED)),
    TENANT: frozenset((*_USAGE, "grantable", *_AUDITED)),
}
"""Lists to read after a signal for a resource type."""
LISTS_OF_RESOURCES = frozenset(("apply preview", *_USAGE, *_AUDITED))
"""Lists to read after a signal for another type: a resource, with its tags and its share of a quota."""


def lists_of(resource_type: str) -> frozenset[str]:
    """Return the lists that a signal for a resource type affects."""
    return LISTS_OF.get(resource_type, LISTS_OF_RESOURCES)


RESYNC_SECONDS = 0.5
"""Time from the opening of a stream to the read of all data. The platform sends its own `resync` within it."""
PROGRESS = "operation.progress"
"""The signal for progress of an operation. Its watcher reads the operation; no list changes."""


class Refresh:
    """Requests reads of the lists, and of identity and tenants.

    Args:
        streams: The event streams.
        spawn: Runs background tasks.
        load: Reads identity and tenants.
        changed: Called with `ReadAgain`; screens read their data.
        has_connection: Returns whether the platform responds. Without it, nothing is read at intervals.
        pause: Sleeps for a number of seconds.
        seconds: Interval between reads of all shown data.
    """

    def __init__(
        self,
        streams: EventStreams,
        spawn: Spawn,
        load: Callable[[], Coroutine[Any, Any, None]],
        changed: Callable[[Update], None],
        has_connection: Callable[[], bool],
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        *,
        seconds: float = REREAD_SECONDS,
    ) -> None:
        self._seconds = seconds
        self._streams, self._spawn, self._changed = streams, spawn, changed
        self._has_connection, self._pause = has_connection, pause
        self._loading = SingleFlight(spawn, "load", load)
        self._subscription: Subscription | None = None
        self._is_open = False
        self._types: set[str] = set()
        """Resource types of signals since the last read."""
        self._is_resync = False

    def read_all(self, *, urgent: bool = True) -> None:
        """Read all shown data, even if the connection is lost."""
        self._changed(ReadAgain())
        self._loading.request(urgent=urgent)

    def poll(self) -> None:
        """Read all shown data at intervals."""
        self._spawn("poll", self._poll)

    async def _poll(self) -> None:
        while True:
            await self._pause(self._seconds)
            if self._has_connection():
                self.read_all(urgent=False)

    def retry(self, seconds: float) -> None:
        """Read all shown data after a pause."""
        self._spawn("retry", partial(self._retry, seconds))

    async def _retry(self, seconds: float) -> None:
        await self._pause(seconds)
        self.read_all()

    def cancel_load(self) -> None:
        """Cancel a running read of identity and tenants, which may hang."""
        self._loading.stop()

    def stop(self) -> None:
        """Cancel all reads, and ignore further signals."""
        self.unfollow()
        self._loading.stop()
        for task in ("poll", "retry"):
            self._spawn(task, None)

    # Signals

    def follow(self, tenant_id: str) -> None:
        """Read at the signals of this tenant, no longer of the former one."""
        if self._subscription is not None and self._subscription.tenant_id == tenant_id:
            self._streams.resume()
            return
        former, self._subscription = self._subscription, None
        self._clear()
        self._subscription = self._streams.subscribe(tenant_id, self._note, self._set_open)
        if former is not None:
            self._streams.unsubscribe(former)

    def unfollow(self) -> None:
        """Ignore further signals."""
        if self._subscription is not None:
            self._streams.unsubscribe(self._subscription)
            self._subscription = None
        self._clear()

    def _clear(self) -> None:
        self._is_open, self._is_resync = False, False
        self._types.clear()
        self._spawn("reload", None)

    def _set_open(self, is_open: bool) -> None:
        self._is_open = is_open

    def _note(self, signal: "Signal") -> None:
        if signal.type == PROGRESS:
            return
        if signal.kind == "resync" and not self._is_open:
            # The stream was lost. This read shows whether the platform responds; the lists are read at the next stream.
            self._loading.request()
            return
        is_scheduled = self._is_resync or bool(self._types)
        if signal.resource_type:
            self._types.add(signal.resource_type)
        else:
            self._is_resync = True
        if not is_scheduled:
            self._spawn("reload", self._reload)

    async def _reload(self) -> None:
        await self._pause(RESYNC_SECONDS if self._is_resync else COALESCE_SECONDS)
        types, is_resync = frozenset(self._types), self._is_resync
        self._types.clear()
        self._is_resync = False
        if is_resync:
            self.read_all(urgent=False)
            return
        for name in sorted(frozenset[str]().union(*map(lists_of, types))):
            self._changed(ReadAgain(name))
        if TENANT in types:
            self._loading.request()

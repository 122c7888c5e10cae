"""The event stream of the tenant in use: its signals, coalesced, cause the lists they are about to be read again."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from client.errors import FrostError
from client.waiting import COALESCE_SECONDS

if TYPE_CHECKING:
    from client.api.client import Client
    from client.events import Signal


Work = Callable[[], Coroutine[Any, Any, None]]
"""What makes a coroutine when its turn comes: one that is ended before would be a coroutine nobody ever awaited."""


ANYTHING = ""
"""In place of a resource type: the signal does not say what has changed, so anything may have."""
PROGRESS = "operation.progress"
"""The signal of an operation that moved: who watches that one reads it, and nothing else is another by it."""


class Spawn(Protocol):
    """Runs work in the background in place of the one of the same name; None only ends that one."""

    def __call__(self, name: str, work: Work | None) -> None: ...


Ask = Callable[[Callable[["Client"], Awaitable[Any]]], Awaitable[Any]]
"""Asks the platform one question (`Workspace.ask`)."""


class Following:
    """One event stream at a time. `refresh` is called with the resource types of the signals that came together."""

    def __init__(
        self,
        client: Callable[[], Awaitable["Client"]],
        spawn: Spawn,
        refresh: Callable[[frozenset[str]], None],
        failed: Callable[[FrostError], None],
    ) -> None:
        self._client, self._spawn, self._refresh, self._failed = client, spawn, refresh, failed
        self._tenant_id = ""
        self._types: set[str] = set()

    def begin(self, tenant_id: str) -> None:
        """Listen to a tenant; listening to it already, go on with that."""
        if self._tenant_id != tenant_id:
            self._tenant_id = tenant_id
            self._spawn("follow", partial(self._follow, tenant_id))

    def stop(self) -> None:
        """Close the stream and forget its last signals: they were about another tenant."""
        self._tenant_id = ""
        self._types.clear()
        self._spawn("follow", None)
        self._spawn("reload", None)

    async def _follow(self, tenant_id: str) -> None:
        client = await self._client()
        try:
            async for signal in client.events(tenant_id):
                if signal.type != PROGRESS:
                    self._note(signal)
        except FrostError as error:
            self._tenant_id = ""
            self._failed(error)

    def _note(self, signal: "Signal") -> None:
        due = bool(self._types)
        # An operation may change more than the resource that it is about.
        about_operation = signal.type.startswith("operation.")
        self._types.add(ANYTHING if about_operation else signal.resource_type)
        if not due:
            self._spawn("reload", self._reload)

    async def _reload(self) -> None:
        await asyncio.sleep(COALESCE_SECONDS)
        types = frozenset(self._types)
        self._types.clear()
        self._refresh(types)

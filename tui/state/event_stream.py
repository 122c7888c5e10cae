"""The event stream of the tenant in use, and watchers of an operation and of the configuration file."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from client.api import operations
from client.errors import FrostError
from client.operations import COALESCE_SECONDS, is_final, readings

if TYPE_CHECKING:
    from client.transport.events import Signal
    from tui.state.requests import Requests

Work = Callable[[], Coroutine[Any, Any, None]]
"""Creates a coroutine when the task starts. A coroutine of a cancelled task would never be awaited."""


ANYTHING = ""
"""Instead of a resource type: the signal does not name one, so any list may have changed."""
PROGRESS = "operation.progress"
"""The signal for progress of an operation. Its watcher reads the operation; no list changes."""


class Spawn(Protocol):
    """Runs work in the background in place of the task of the same name. None only cancels that task."""

    def __call__(self, name: str, work: Work | None) -> None: ...


class Following:
    """One event stream at a time. `refresh` is called with the resource types of coalesced signals."""

    def __init__(
        self,
        requests: "Requests",
        spawn: Spawn,
        refresh: Callable[[frozenset[str]], None],
        failed: Callable[[FrostError], None],
    ) -> None:
        self._requests, self._spawn, self._refresh, self._failed = requests, spawn, refresh, failed
        self._tenant_id = ""
        self._types: set[str] = set()

    def begin(self, tenant_id: str) -> None:
        """Open the stream of a tenant, unless it is open."""
        if self._tenant_id != tenant_id:
            self._tenant_id = tenant_id
            self._spawn("follow", partial(self._follow, tenant_id))

    def stop(self) -> None:
        """Close the stream and drop its pending signals."""
        self._tenant_id = ""
        self._types.clear()
        self._spawn("follow", None)
        self._spawn("reload", None)

    async def _follow(self, tenant_id: str) -> None:
        try:
            async for signal in self._requests.events(tenant_id, lambda _: None):
                if signal.type != PROGRESS:
                    self._note(signal)
        except FrostError as error:
            self._tenant_id = ""
            self._failed(error)

    def _note(self, signal: "Signal") -> None:
        due = bool(self._types)
        # An operation may change other resources besides its target.
        about_operation = signal.type.startswith("operation.")
        self._types.add(ANYTHING if about_operation else signal.resource_type)
        if not due:
            self._spawn("reload", self._reload)

    async def _reload(self) -> None:
        await asyncio.sleep(COALESCE_SECONDS)
        types = frozenset(self._types)
        self._types.clear()
        self._refresh(types)


LOOK_SECONDS = 2.0
"""Interval between two `stat` calls on the configuration file."""


def watched(requests: "Requests", tenant_id: str, operation_id: str) -> AsyncIterator[dict[str, Any]]:
    """Yield an operation after each read, until its end.

    Raises:
        FrostError: it cannot be read.
    """

    async def read() -> dict[str, Any]:
        return (await requests.ask(operations.get(tenant_id, operation_id))).wire()

    return readings(read, partial(requests.events, tenant_id), is_final)


async def changes(path: str) -> AsyncIterator[None]:
    """Yield after each change of a file: written, replaced, created or deleted."""
    before = await asyncio.to_thread(_stamp, path)
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        now = await asyncio.to_thread(_stamp, path)
        if now != before:
            before = now
            yield


def _stamp(path: str) -> tuple[int, ...]:
    try:
        status = os.stat(path)  # noqa: PTH116  (paths in the config are strings)
    except OSError:
        return ()
    return status.st_ino, status.st_mtime_ns, status.st_size

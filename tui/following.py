"""Listening to the tenant worked in: its signals, gathered, cause everything shown to be read again."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from client.errors import FrostError
from client.waiting import COALESCE_SECONDS

if TYPE_CHECKING:
    from client.api.client import Client


Work = Callable[[], Coroutine[Any, Any, None]]
"""What makes a coroutine when its turn comes: one that is ended before would be a coroutine nobody ever awaited."""


PROGRESS = "operation.progress"
"""The signal of an operation that moved: who watches that one reads it, and nothing else is another by it."""


class Spawn(Protocol):
    """Runs work in the background in place of the one of the same name; None only ends that one."""

    def __call__(self, name: str, work: Work | None) -> None: ...


Ask = Callable[[Callable[["Client"], Awaitable[Any]]], Awaitable[Any]]
"""Asks the platform one question (`Workspace.ask`)."""


class Following:
    """One stream of signals at a time."""

    def __init__(
        self,
        client: Callable[[], Awaitable["Client"]],
        spawn: Spawn,
        refresh: Callable[[], None],
        failed: Callable[[FrostError], None],
    ) -> None:
        self._client, self._spawn, self._refresh, self._failed = client, spawn, refresh, failed
        self._tenant_id = ""
        self._due = False

    def begin(self, tenant_id: str) -> None:
        """Listen to a tenant; listening to it already, go on with that."""
        if self._tenant_id != tenant_id:
            self._tenant_id = tenant_id
            self._spawn("follow", partial(self._follow, tenant_id))

    def stop(self) -> None:
        """Listen to nothing, and forget what was heard last: it was about somewhere else."""
        self._tenant_id, self._due = "", False
        self._spawn("follow", None)
        self._spawn("reload", None)

    async def _follow(self, tenant_id: str) -> None:
        client = await self._client()
        try:
            async for signal in client.events(tenant_id):
                if signal.type != PROGRESS and not self._due:
                    self._due = True
                    self._spawn("reload", self._reload)
        except FrostError as error:
            self._tenant_id = ""
            self._failed(error)

    async def _reload(self) -> None:
        await asyncio.sleep(COALESCE_SECONDS)
        self._due = False
        self._refresh()

"""Watching what others do: an operation, read again at its signals and now and then; the configuration file."""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from client.waiting import readings

if TYPE_CHECKING:
    from client.api.client import Client
    from tui.following import Ask

LOOK_SECONDS = 2.0
"""How often the configuration file is looked at: one `stat` each time."""


def watched(
    client: "Client",
    ask: "Ask",
    tenant_id: str,
    operation_id: str,
) -> AsyncIterator[dict[str, Any]]:
    """An operation each time it was read, until it is over.

    Raises:
        FrostError: It could not be read.
    """

    async def read() -> dict[str, Any]:
        operation: dict[str, Any] = (await ask(lambda client: client.operations.get(tenant_id, operation_id))).wire()
        return operation

    return readings(read, lambda listening: client.events(tenant_id, listening))


async def changes(path: str) -> AsyncIterator[None]:
    """Gives a turn each time the file at a path was written, replaced, made or taken away."""
    before = await asyncio.to_thread(_stamp, path)
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        now = await asyncio.to_thread(_stamp, path)
        if now != before:
            before = now
            yield


def _stamp(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)  # noqa: PTH116  (a path in the config is text)
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_size

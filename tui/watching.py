"""Watching what others do: an operation, read again at its signals and now and then; the configuration file."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from client.errors import FrostError

if TYPE_CHECKING:
    from client.api.client import Client

REREAD_SECONDS = 30.0
"""Everything shown is read again at least this often (design: Durable operations)."""
COALESCE_SECONDS = 0.1
"""Signals that come closer together than this cause one reading (10 Hz)."""
LOOK_SECONDS = 2.0
"""How often the configuration file is looked at: one `stat` each time."""
FINAL = ("completed", "failed", "cancelled", "succeeded")


async def watched(
    client: "Client",
    ask: Callable[[Callable[["Client"], Awaitable[Any]]], Awaitable[Any]],
    tenant_id: str,
    operation_id: str,
) -> AsyncIterator[dict[str, Any]]:
    """An operation each time it was read, until it is over.

    Raises:
        FrostError: It could not be read.
    """
    signal = asyncio.Event()
    listening = asyncio.create_task(_listen(client, tenant_id, signal))
    try:
        while True:
            read = await ask(lambda client: client.operations.get(tenant_id, operation_id))
            operation: dict[str, Any] = read.wire()
            yield operation
            if operation.get("status") in FINAL:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(REREAD_SECONDS):
                    await signal.wait()
            await asyncio.sleep(COALESCE_SECONDS)
            signal.clear()
    finally:
        listening.cancel()


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


async def _listen(client: "Client", tenant_id: str, signal: asyncio.Event) -> None:
    with suppress(FrostError):  # reading now and then goes on without signals
        async for _ in client.events(tenant_id):
            signal.set()

"""Read the event stream of a tenant. A signal only causes a read; the operation is the record."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, NamedTuple

from client.errors import Exit, FrostError
from client.transport.call import Request, path

if TYPE_CHECKING:
    from client.transport.async_client import AsyncClient


def events(tenant_id: str) -> Request:
    """Return the request for the event stream of a tenant."""
    headers = {"Accept": "text/event-stream", "Cache-Control": "no-cache"}
    return Request("GET", path("/v1/tenants/{}/events", tenant_id), headers=headers)


REOPEN_SECONDS = 2.0
LONGEST_PAUSE = 60.0
EVENT_BYTES = 64 * 1024
"""A longer event is invalid and ends the stream."""

_FATAL = frozenset({Exit.NOT_SIGNED_IN, Exit.NOT_ALLOWED, Exit.USAGE})
_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")


class Signal(NamedTuple):
    """A signal to read the tenant's data again.

    `kind` is `resource` (a named resource changed) or `resync` (anything may have changed, as sent by the
    platform or after an interruption). The other fields are as sent, empty for a resync.
    """

    kind: str
    type: str = ""
    resource_type: str = ""
    resource_id: str = ""
    status: str = ""
    timestamp: str = ""


Listening = Callable[[bool], None]
"""Called with True when a stream opens and with False when it ends."""


async def signals(
    http: AsyncClient,
    tenant_id: str,
    listening: Listening = lambda _: None,
    *,
    reopen_seconds: float = REOPEN_SECONDS,
    longest_pause: float = LONGEST_PAUSE,
) -> AsyncIterator[Signal]:
    """Yield signals of a tenant without end.

    When a stream ends, yield a `resync`, reopen the stream after `reopen_seconds`, and yield another `resync` for
    changes in between. Retry a stream that cannot be opened after the same time, doubling up to `longest_pause`.

    Raises:
        FrostError: The session has ended (exit 3), access is denied (exit 4), or the request is invalid (exit 2).
    """
    pause = reopen_seconds
    missed = False
    while True:
        connected = False
        try:
            async with http.stream(events(tenant_id)) as stream:
                if stream.content_type.partition(";")[0].strip().lower() == "text/event-stream":
                    connected, pause = True, reopen_seconds
                    listening(True)
                    if missed:
                        yield Signal("resync")
                    async for signal in read(stream.pieces):
                        yield signal
        except FrostError as error:
            if error.exit_code in _FATAL:
                raise
        missed = True
        listening(False)
        if connected:
            yield Signal("resync")
        await asyncio.sleep(pause)
        if not connected:
            pause = min(pause * 2, longest_pause)


async def read(pieces: AsyncIterator[bytes]) -> AsyncIterator[Signal]:
    """Yield the signals in an event stream. Ignore comments and other events; invalid data means a resync."""
    rest = b""
    name, data = "", b""
    async for piece in pieces:
        *lines, rest = _LINE_END.split(rest + piece)
        if len(rest) + len(data) > EVENT_BYTES:
            return
        for line in lines:
            if not line:
                if name in ("resource", "resync"):
                    yield _signal(name, data)
                name, data = "", b""
                continue
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"event":
                name = value.decode("utf-8", "replace")
            elif field == b"data":
                data = data + b"\n" + value if data else value


def _signal(name: str, data: bytes) -> Signal:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        document = None
    if name == "resync" or not isinstance(document, dict):
        return Signal("resync")
    members = (document.get(member) for member in ("type", "resourceType", "resourceId", "status", "timestamp"))
    return Signal("resource", *(value if isinstance(value, str) else "" for value in members))

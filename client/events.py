"""The event stream of a tenant as signals to read again. A signal is never the truth: the operation is.

Source: facts 2.10; design: Durable operations.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, NamedTuple

from client.api.operations import events
from client.errors import Exit, FrostError

if TYPE_CHECKING:
    from client.http import Http

REOPEN_SECONDS = 2.0
LONGEST_PAUSE = 60.0
EVENT_BYTES = 64 * 1024
"""An event longer than this is no signal of the platform's; the stream is dropped."""

_FATAL = frozenset({Exit.NOT_SIGNED_IN, Exit.NOT_ALLOWED, Exit.USAGE})
_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")


class Signal(NamedTuple):
    """Something may have changed: read again what is shown of the tenant.

    `kind` is `resource` (the platform names what changed) or `resync` (anything may have changed: the platform says so,
    or the stream was interrupted). The other fields are as sent, empty for a resync.
    """

    kind: str
    type: str = ""
    resource_type: str = ""
    resource_id: str = ""
    status: str = ""
    timestamp: str = ""


Listening = Callable[[bool], None]
"""Is told when a stream is open, and when none is: then nobody says that something has changed."""


async def signals(http: Http, tenant_id: str, listening: Listening = lambda _: None) -> AsyncIterator[Signal]:
    """Signals of a tenant, for ever.

    A stream that ends gives one `resync` at once, is opened again after 2 s, and gives another one then: what happened
    in between was told to nobody. A stream that cannot be opened is tried again after 2 s, doubling up to 60 s.

    Raises:
        FrostError: The session has ended, or the tenant may no longer be seen (exit 3 or 4): nothing else ends this.
    """
    pause = REOPEN_SECONDS
    missed = False
    while True:
        connected = False
        try:
            async with http.stream(events(tenant_id)) as stream:
                if stream.content_type.partition(";")[0].strip().lower() == "text/event-stream":
                    connected, pause = True, REOPEN_SECONDS
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
            pause = min(pause * 2, LONGEST_PAUSE)


async def read(pieces: AsyncIterator[bytes]) -> AsyncIterator[Signal]:
    """The signals in the bytes of a stream; comments, other events and what is not understood are passed over."""
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
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if name == "resync" or not isinstance(found, dict):
        return Signal("resync")
    members = (found.get(member) for member in ("type", "resourceType", "resourceId", "status", "timestamp"))
    return Signal("resource", *(value if isinstance(value, str) else "" for value in members))

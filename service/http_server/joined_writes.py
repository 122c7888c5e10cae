"""A transport that sends head and body of a response together. Event loop only.

uvicorn writes head and body one after the other. Each write is a system call, which takes longer than most of the work
on a read, and wakes the client.
"""

import asyncio
from typing import Any

MAX_PENDING_BYTES = 64 * 1024


class JoinedWrites:
    """Delays a write until the next one, at most to the next iteration of the event loop.

    Args:
        transport: sends the data, and has all other methods.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._pending = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._pending:
            pending, self._pending = self._pending, b""
            self._transport.write(pending + data)
        elif len(data) > MAX_PENDING_BYTES:
            self._transport.write(data)
        else:
            self._pending = data
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send pending data."""
        pending, self._pending = self._pending, b""
        if pending and not self._transport.is_closing():
            self._transport.write(pending)

    def close(self) -> None:
        """Send pending data, then close."""
        self.flush()
        self._transport.close()

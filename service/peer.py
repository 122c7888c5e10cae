"""Who is at the other end of the unix socket: the HTTP protocol of the server, taught to ask the kernel.

`scope["client"]` becomes `("uid:<user id>", process id)` on the unix socket; over TCP it stays the address. Also here,
because only the protocol sees it: bounds on the size of a request's head and on the time it may take to arrive, and an
envelope for what is not HTTP.
"""

import asyncio
import json
import socket
import struct
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from service.version import VERSION

MAX_HEAD = 64 * 1024
# From the connection, or from the first byte of a later request on it. A head is one packet; whoever sends it letter
# by letter, or connects and says nothing, holds a connection for nothing.
HEAD_SECONDS = 10.0
_UCRED = struct.Struct("3i")  # struct ucred: pid, uid, gid


class PeerProtocol(HttpToolsProtocol):
    """HTTP/1.1 with the peer's identity."""

    _head_size = 0
    _in_head = True
    _head_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        connection: socket.socket | None = transport.get_extra_info("socket")
        if connection is not None and connection.family == socket.AF_UNIX:
            pid, uid, _ = _UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
            self.client = (f"uid:{uid}", pid)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._head_size = 0
        if self._head_due is None:
            self._expect_head()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_came()
        super().on_headers_complete()

    def _expect_head(self) -> None:
        self._head_due = self.loop.call_later(HEAD_SECONDS, self._head_is_late)

    def _head_came(self) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
            self._head_due = None

    def _head_is_late(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            # The answer before it is still being written: nothing may be said in between, and it ends some time.
            self._expect_head()
        elif not self.transport.is_closing():
            self.refuse(408, "REQUEST_TIMEOUT", f"the request's head did not arrive within {HEAD_SECONDS:g} seconds")

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            self._head_size += len(data)
            if self._head_size > MAX_HEAD:
                self.refuse(431, "HEAD_TOO_LARGE", f"the request's head is larger than {MAX_HEAD} bytes")

    def send_400_response(self, msg: str) -> None:
        self.refuse(400, "INVALID_REQUEST", "the request is not valid HTTP")

    def refuse(self, status: int, code: str, message: str) -> None:
        """Answer what never became a request, and close."""
        # The same headers as every reply, though the edge never saw this one.
        body = json.dumps({"error": {"code": code, "message": message}}).encode()
        headers = [
            *self.server_state.default_headers,
            (b"content-type", b"application/json"),
            (b"x-request-id", str(uuid4()).encode()),
            (b"x-frost-version", VERSION.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        head = b"".join(b"%s: %s\r\n" % header for header in headers)
        self.transport.write(STATUS_LINE[status] + head + b"\r\n" + body)
        self.transport.close()


def peer_uid(scope: Mapping[str, Any]) -> int | None:
    """The user id at the other end of the unix socket; None over TCP."""
    host, _ = scope.get("client") or ("", 0)
    return int(host.removeprefix("uid:")) if host.startswith("uid:") else None

"""Who is at the other end of the unix socket: the HTTP protocol of the server, taught to ask the kernel.

`scope["client"]` becomes `("uid:<user id>", process id)` on the unix socket; over TCP it stays the address. Also here,
because only the protocol sees it: a bound on the size of a request's head, and an envelope for what is not HTTP.
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
_UCRED = struct.Struct("3i")  # struct ucred: pid, uid, gid


class PeerProtocol(HttpToolsProtocol):
    """HTTP/1.1 with the peer's identity."""

    _head_size = 0
    _in_head = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        connection: socket.socket | None = transport.get_extra_info("socket")
        if connection is not None and connection.family == socket.AF_UNIX:
            pid, uid, _ = _UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
            self.client = (f"uid:{uid}", pid)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._head_size = 0

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

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

"""The server's HTTP/1.1 protocol: bounds what a connection may send, and identifies the peer of the unix socket.

`scope["client"]` becomes `("uid:<user id>", process id)` on the unix socket; over TCP it stays the address. The bounds
are here because only the protocol sees every byte: the size and time of a request's head, its body's time and memory,
trailers, pipelined requests, and the number of connections.
"""

import asyncio
import json
import socket
import struct
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn, cast
from uuid import uuid4

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from service.settings import VERSION

if TYPE_CHECKING:
    from service.http_server.admission import Admission, IncomingBody, Source

MAX_HEAD = 64 * 1024
# From the connection, or from the first byte of a later request on it. A head is one packet; whoever sends it letter
# by letter, or connects and says nothing, holds a connection for nothing.
HEAD_SECONDS = 10.0
# What may come between two bytes of a body: chunk sizes with their extensions, and trailers, which are dropped.
MAX_TRAILERS = 8 * 1024
MAX_PIPELINED = 32
# The parser keeps an unfinished line in memory: it gets no more at a time than is checked at once.
PIECE = 16 * 1024
READY = "/readyz"
HEALTH = ("/healthz", READY)
"""Paths that are answered beyond every limit."""
TOO_MANY_CONNECTIONS = (503, "SERVICE_UNAVAILABLE", "too many connections")
RETRY_SECONDS = 1
_UCRED = struct.Struct("3i")  # Linux, struct ucred: pid, uid, gid
_XUCRED = struct.Struct("=IIh2x16I")  # macOS, struct xucred: version, uid, number of groups, groups
# From macOS's <sys/un.h>; Python does not export them.
_SOL_LOCAL, _LOCAL_PEERCRED = 0, 1


class HttpProtocol(HttpToolsProtocol):
    """HTTP/1.1 with the peer's identity, within the limits of `Admission`; without one, sizes and times are bounded."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.admission: Admission | None = None
        self._head_size = 0
        self._in_head = True
        self._head_due: asyncio.TimerHandle | None = None
        self._in_body = False
        self._body_due: asyncio.TimerHandle | None = None
        self._bodies: deque[IncomingBody] = deque()
        """Of the requests that are not answered yet; the last one is the one that arrives."""
        self._trailers = 0
        self._only_health = False
        self._fault: tuple[int, str, str] | None = None
        self._late_refusal: tuple[int, str, str] | None = None
        """Of a request that waits behind others: sent after their answers. Nothing more is read then."""
        self._closed_early = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        connection: socket.socket | None = transport.get_extra_info("socket")
        if connection is not None and connection.family == socket.AF_UNIX:
            uid, pid = peer_credentials(connection)
            self.client = (f"uid:{uid}", pid)
        if self._closed_early:
            transport.close()
        else:
            self._expect_head()

    def register(self, source: "Source", *, only_health: bool) -> None:
        """Count this connection, before it is used; `only_health`: it is beyond a limit."""
        assert self.admission is not None
        self._only_health = only_health
        self.admission.connections.add(self, source, only_health=only_health)

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        self._body_came()
        if self.admission is not None:
            self.admission.connections.remove(self)
        for body in self._bodies:
            body.release()
        self._bodies.clear()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._head_size = 0
        if len(self.pipeline) >= MAX_PIPELINED:
            self._reject(400, "INVALID_REQUEST", f"more than {MAX_PIPELINED} requests wait on this connection")
        if self._head_due is None:
            self._expect_head()
        if self.admission is not None:
            self.admission.connections.set_busy(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        # After the head these are trailers: nothing reads them, and they must not look like headers.
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_came()
        self._require_sound_head()
        super().on_headers_complete()
        self._in_body = True
        self._trailers = 0
        if self._only_health:
            self.cycle.keep_alive = False
        if self.admission is not None:
            body = self.admission.expect_body(cast("dict[str, Any]", self.scope), self.loop.time())
            self._bodies.append(body)

    def _require_sound_head(self) -> None:
        if self.parser.get_http_version() not in ("1.0", "1.1"):
            self._reject(400, "INVALID_REQUEST", "the request line must end with HTTP/1.1 or HTTP/1.0")
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() == "1.1"):
            self._reject(400, "INVALID_REQUEST", "the request must have exactly one Host header")
        if self._only_health and httptools.parse_url(self.url).path.decode("latin-1") not in HEALTH:
            self._reject(*TOO_MANY_CONNECTIONS)

    def _reject(self, status: int, code: str, message: str) -> NoReturn:
        """Answer with a refusal and stop parsing, from within a callback of the parser."""
        self._fault = (status, code, message)
        raise ValueError(message)

    def on_body(self, body: bytes) -> None:
        self._trailers = 0
        if not self._bodies or self.cycle.response_complete or self._bodies[-1].take(len(body)):
            super().on_body(body)
        else:
            self._end_body()

    def on_message_complete(self) -> None:
        self._in_body = False
        self._body_came()
        super().on_message_complete()
        if self.cycle.response_complete and not self.transport.is_closing():
            # It was answered before its body ended: only now does the connection wait for the next request.
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
            self._note_idle()

    def on_response_complete(self) -> None:
        if self._bodies:
            self._bodies.popleft().release()
        if self._late_refusal is not None and not self.pipeline:
            if not self.transport.is_closing():
                self._send_refusal(*self._late_refusal)
            return
        super().on_response_complete()
        self._note_idle()

    def _note_idle(self) -> None:
        """Register this connection as idle if its requests are answered and no byte of another one has arrived."""
        under_way = self._in_head or self._in_body or self.pipeline or not self.cycle.response_complete
        if self.admission is not None and not under_way:
            self.admission.connections.set_idle(self)

    # Time

    def _expect_head(self) -> None:
        self._head_due = self.loop.call_later(HEAD_SECONDS, self._head_is_late)

    def _head_came(self) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
            self._head_due = None

    def _head_is_late(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            # The previous answer is still being written: nothing may come in between, and it ends in time.
            self._expect_head()
        elif not self.transport.is_closing():
            self.refuse(408, "REQUEST_TIMEOUT", f"the request's head did not arrive within {HEAD_SECONDS:g} seconds")

    def _expect_body(self) -> None:
        limits = self.admission.limits if self.admission is not None else None
        if limits is not None and self._bodies:
            body = self._bodies[-1]
            due = body.began + limits.body_seconds + body.received / limits.body_bytes_per_second
            self._body_due = self.loop.call_at(due, self._check_body, due)

    def _body_came(self) -> None:
        if self._body_due is not None:
            self._body_due.cancel()
            self._body_due = None

    def _check_body(self, due: float) -> None:
        self._body_due = None
        if not self._bodies:
            # Answered already; the rest of its body would be thrown away.
            self.transport.close()
            return
        assert self.admission is not None
        limits, body = self.admission.limits, self._bodies[-1]
        if self.flow.read_paused:
            # The server does not read at the moment: this time is not the sender's.
            body.began += 1.0
        if due < body.began + limits.body_seconds + body.received / limits.body_bytes_per_second:
            self._expect_body()
        elif self.cycle.response_complete:
            self.transport.close()
        elif body.refusal is None:
            body.refuse_late(limits)
            self._end_body()

    def _end_body(self) -> None:
        """Wake the application, which answers with the refusal of the body; the connection ends with this answer."""
        self.cycle.keep_alive = False
        self.cycle.message_event.set()

    # Bytes

    def data_received(self, data: bytes) -> None:
        for start in range(0, len(data), PIECE):
            if self.transport.is_closing() or self._late_refusal is not None:
                return
            self._receive(data[start : start + PIECE])

    def _receive(self, piece: bytes) -> None:
        trailers, self._trailers = self._trailers, -1
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            pass  # Nothing here speaks another protocol: the request is answered as it is.
        except httptools.HttpParserError:
            self.refuse(*(self._fault or (400, "INVALID_REQUEST", "the request is not valid HTTP")))
        if self._trailers < 0:
            # No byte of a body and no head came with it.
            self._trailers = trailers + len(piece)
        if self.transport.is_closing() or self._late_refusal is not None:
            return
        if self._in_head:
            self._head_size += len(piece)
            if self._head_size > MAX_HEAD:
                self.refuse(431, "HEAD_TOO_LARGE", f"the request's head is larger than {MAX_HEAD} bytes")
        elif self._in_body:
            if self._trailers > MAX_TRAILERS:
                self.refuse(431, "TRAILERS_TOO_LARGE", f"trailers are larger than {MAX_TRAILERS} bytes")
            elif self._body_due is None:
                self._expect_body()
        elif (
            self._head_due is None
            and self.timeout_keep_alive_task is None
            and (self.cycle is None or self.cycle.response_complete)
        ):
            # Line ends before a request: they must not keep a connection open for ever.
            self._expect_head()

    # Refusals without the application

    def close_idle(self) -> None:
        """Close this connection, on which no request is under way, in favour of another one."""
        self._closed_early = True
        if (transport := cast("asyncio.Transport | None", self.transport)) is not None:
            transport.close()

    def refuse(self, status: int, code: str, message: str) -> None:
        """Answer what does not become a request of the application, after the requests before it, and close."""
        if self._in_body and not (self.pipeline and self.pipeline[0][0] is self.cycle):
            if self.cycle.response_started:
                # It is being answered already.
                self.transport.close()
            else:
                self._send_refusal(status, code, message)
        elif self.cycle is None or self.cycle.response_complete:
            self._send_refusal(status, code, message)
        else:
            self._head_came()
            self._body_came()
            if self._in_body:
                self.pipeline.popleft()
                if self._bodies:
                    self._bodies.pop().release()
            self._late_refusal = (status, code, message)

    def _send_refusal(self, status: int, code: str, message: str) -> None:
        if status == 503 and self.admission is not None:
            self.admission.note_refusal("connections")
        self.transport.write(refusal_bytes(status, code, message, self.server_state.default_headers))
        self.transport.close()


def refusal_bytes(status: int, code: str, message: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> bytes:
    """Return an answer that does not come from the application, with the headers of every answer."""
    body = json.dumps({"error": {"code": code, "message": message}}).encode()
    lines = [
        *headers,
        (b"content-type", b"application/json"),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        (b"x-request-id", str(uuid4()).encode()),
        (b"x-frost-version", VERSION.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    if status == 503:
        lines.append((b"retry-after", b"%d" % RETRY_SECONDS))
    return STATUS_LINE[status] + b"".join(b"%s: %s\r\n" % line for line in lines) + b"\r\n" + body


def peer_credentials(connection: socket.socket) -> tuple[int, int]:
    """Ask the kernel for the user id and the process id of the peer of a unix socket.

    The process id is 0 on macOS, whose `LOCAL_PEERCRED` does not give it.
    """
    if hasattr(socket, "SO_PEERCRED"):
        pid, uid, _ = _UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
        return uid, pid
    _, uid, *_ = _XUCRED.unpack(connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED.size))
    return uid, 0

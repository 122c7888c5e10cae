"""The HTTP/1.1 protocol of the server. `scope["client"]` is `("uid:<user id>", process id)` over the unix socket.

Only the protocol sees every byte, so it applies these limits:

- header section: 64 KiB (431), 10 seconds and a minimum rate (408)
- pipelined requests: 32 (400)
- trailers and chunk extensions: 8 KiB between two bytes of a body (431)
- body: memory in total and per address (503), and time (408); see `settings.Limits`
- connections beyond the limits of `Admission`: health, discovery and sign-in only (503)
- during a flood of rejections: no data for one to two seconds after a request was rejected, except from a trusted proxy

Requests start in turn (`Turns`).
"""

import asyncio
import json
import socket
import struct
from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, cast
from uuid import uuid4

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from service.http_server.admission import RESERVED_PATHS
from service.http_server.connections import State
from service.http_server.joined_writes import JoinedWrites
from service.http_server.request_metrics import spread
from service.http_server.response_cycle import ResponseCycle
from service.http_server.turns import Turn
from service.settings import VERSION, Limits

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

    from service.http_server.admission import Admission
    from service.http_server.bodies import IncomingBody
    from service.http_server.connections import Source

MAX_HEADER_BYTES = 64 * 1024
MAX_TRAILER_BYTES = 8 * 1024
# Part of the time of a head after which it must arrive at the minimum rate.
HEAD_GRACE = 0.4
MAX_PIPELINED = 32
# The parser buffers incomplete lines, so the limits are checked after each piece.
MAX_READ_BYTES = 16 * 1024
# The shortest `Retry-After`.
FLOOD_PAUSE_SECONDS = 1.0
HEAD_TOO_SLOW = (408, "REQUEST_TIMEOUT", "the request's head arrives too slowly while many connections wait")
TOO_MANY_CONNECTIONS = (503, "SERVICE_UNAVAILABLE", "too many connections")
RETRY_AFTER_SECONDS = 1
_UCRED = struct.Struct("3i")  # Linux, struct ucred: pid, uid, gid
_XUCRED = struct.Struct("=IIh2x16I")  # macOS, struct xucred: version, uid, number of groups, groups
# <sys/un.h> of macOS; not in the socket module.
_SOL_LOCAL, _LOCAL_PEERCRED = 0, 1


class HttpProtocol(HttpToolsProtocol):
    """HTTP/1.1 with limits. Without `admission`, only headers, trailers and pipelining are limited."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.admission: Admission | None = None
        self._header_bytes = 0
        self._in_headers = True
        self._header_timer: asyncio.TimerHandle | None = None
        self._in_body = False
        self._body_timer: asyncio.TimerHandle | None = None
        self._bodies: deque[IncomingBody] = deque()
        """Bodies of unanswered requests; the last is in transit."""
        self._trailers = 0
        self._only_reserved = False
        self._is_shared = False
        """Whether a trusted proxy sends requests of several clients."""
        self._is_pipelined = False
        """Whether a request starts that waited for the response to an earlier one."""
        self._running: RequestResponseCycle | None = None
        self._turn: Turn | None = None
        """Of the latest request."""
        self._head_began = self._first_byte_at = 0.0
        self._parse_error: tuple[int, str, str] | None = None
        self._queued_rejection: tuple[int, str, str] | None = None
        """Sent after the responses to earlier requests; reading has ended."""
        self._closed_early = False
        self._flood_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._writes = JoinedWrites(transport, self.loop)
        super().connection_made(cast("asyncio.Transport", self._writes))
        connection: socket.socket | None = transport.get_extra_info("socket")
        if connection is not None and connection.family == socket.AF_UNIX:
            uid, pid = peer_credentials(connection)
            self.client = (f"uid:{uid}", pid)
        if self._closed_early:
            transport.close()
        else:
            self._start_header_timer()

    def register(self, source: "Source", *, only_reserved: bool) -> None:
        assert self.admission is not None
        self._only_reserved = only_reserved
        self._is_shared = source.address is None and not source.local
        self.admission.connections.add(self, source, only_reserved=only_reserved)

    def eof_received(self) -> None:
        self._writes.flush()  # the transport closes itself afterwards

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_header_timer()
        self._cancel_body_timer()
        if self._flood_timer is not None:
            self._flood_timer.cancel()
        if self.admission is not None:
            self.admission.connections.remove(self)
        if self._turn is not None:
            self._turn.withdraw()
        for body in self._bodies:
            body.abandon()
        self._bodies.clear()
        if self._running is not None:
            # Later requests may wait behind it; uvicorn marks only the last one.
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_headers = True
        self._header_bytes = 0
        if len(self.pipeline) >= MAX_PIPELINED:
            self._reject(400, "INVALID_REQUEST", f"more than {MAX_PIPELINED} requests wait on this connection")

    def on_header(self, name: bytes, value: bytes) -> None:
        # Later fields are trailers, not headers.
        if self._in_headers:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_headers = False
        self._cancel_header_timer()
        self._check_headers()
        if self.admission is not None:
            self.admission.connections.set_state(self, State.BUSY)
        super().on_headers_complete()
        # uvicorn has no setting for the class. The application starts in the next iteration of the event loop.
        self.cycle.__class__ = ResponseCycle
        self._in_body = True
        self._trailers = 0
        if self._only_reserved:
            self.cycle.keep_alive = False
        if self.admission is not None:
            body = self.admission.expect_body(cast("dict[str, Any]", self.scope), self.loop.time())
            self._bodies.append(body)

    def _start_asgi_task(self, cycle: "RequestResponseCycle", app: "ASGI3Application") -> None:
        """Start a request in its turn."""
        if self.admission is None:
            super()._start_asgi_task(cycle, app)
            return
        scope = cast("dict[str, Any]", cycle.scope)
        scope["frost.connection"] = self
        lane = scope["frost.lane"] = self.admission.lane_of(scope, pipelined=self._is_pipelined)
        turn = Turn(self.admission.turns, lane, partial(self._start, cycle, app), self._fail_start)
        scope["frost.turn"] = self._turn = turn
        self.admission.turns.add(turn)

    def _start(self, cycle: "RequestResponseCycle", app: "ASGI3Application") -> None:
        if self.transport.is_closing():
            # The client did not wait.
            cast("dict[str, Any]", cycle.scope)["frost.turn"].end()
        else:
            self._running = cycle
            super()._start_asgi_task(cycle, app)

    def _fail_start(self) -> None:
        if not self.transport.is_closing():
            self._send_rejection(500, "INTERNAL_ERROR", "the request could not be started")

    def _check_headers(self) -> None:
        if self.parser.get_http_version() not in ("1.0", "1.1"):
            self._reject(400, "INVALID_REQUEST", "the request line must end with HTTP/1.1 or HTTP/1.0")
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() == "1.1"):
            self._reject(400, "INVALID_REQUEST", "the request must have exactly one Host header")
        if self._only_reserved and httptools.parse_url(self.url).path.decode("latin-1") not in RESERVED_PATHS:
            self._reject(*TOO_MANY_CONNECTIONS)

    def _reject(self, status: int, code: str, message: str) -> NoReturn:
        """Reject the request from a callback of the parser."""
        self._parse_error = (status, code, message)
        raise ValueError(message)

    def on_body(self, body: bytes) -> None:
        self._trailers = 0
        if not self._bodies or self.cycle.response_complete or self._bodies[-1].take(len(body)):
            super().on_body(body)
        else:
            self._wake_application()

    def on_message_complete(self) -> None:
        self._in_body = False
        self._cancel_body_timer()
        super().on_message_complete()
        if self.cycle.response_complete and not self.transport.is_closing():
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
            self._update_state()

    def on_response_complete(self) -> None:
        if self._bodies:
            self._bodies.popleft().release()
        if self._queued_rejection is not None and not self.pipeline:
            if not self.transport.is_closing():
                self._send_rejection(*self._queued_rejection)
            return
        self._is_pipelined = True
        super().on_response_complete()
        self._is_pipelined = False
        self._update_state()
        self._pause_in_flood()

    def _pause_in_flood(self) -> None:
        """Stop reading for a while after a rejected request.

        Otherwise, clients that repeat it at once would cost more than the requests that are served.
        """
        if self.admission is None or self._is_shared or not self.admission.rejections.is_flood():
            return
        if self.cycle.scope.get("frost.shed") and not self.pipeline and not self.transport.is_closing():
            self.flow.pause_reading()
            self._flood_timer = self.loop.call_later(spread(FLOOD_PAUSE_SECONDS), self._resume_after_flood)

    def _resume_after_flood(self) -> None:
        self._flood_timer = None
        if not self.transport.is_closing():
            self.flow.resume_reading()

    def _update_state(self) -> None:
        """Let the connection be closed in favour of others unless a request is in progress."""
        is_complete = self.cycle is None or self.cycle.response_complete
        if self.admission is not None and is_complete and not self._in_body and not self.pipeline:
            self.admission.connections.set_state(self, State.HEAD if self._in_headers else State.IDLE)

    # Timeouts

    @property
    def _limits(self) -> Limits:
        return self.admission.limits if self.admission is not None else Limits()

    def _start_header_timer(self) -> None:
        self._head_began = self._first_byte_at = self.loop.time()
        self._set_header_timer()

    def _set_header_timer(self) -> None:
        """Let the head be complete in time: earlier if it arrives slower than the minimum rate."""
        limits, due = self._limits, self._head_began + self._limits.header_seconds
        if self._header_bytes:
            seconds = limits.header_seconds * HEAD_GRACE + self._header_bytes / limits.header_bytes_per_second
            due = min(due, self._first_byte_at + seconds)
        self._cancel_header_timer()
        self._header_timer = self.loop.call_at(due, self._header_timeout, self._header_bytes)

    def _cancel_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _header_timeout(self, header_bytes: int) -> None:
        limits = self._limits
        if self.cycle is not None and not self.cycle.response_complete:
            # Do not interrupt the previous response.
            self._start_header_timer()
        elif self._header_bytes > header_bytes and self.loop.time() < self._head_began + limits.header_seconds:
            self._set_header_timer()
        elif not self.transport.is_closing():
            seconds = limits.header_seconds
            self.send_error(
                408, "REQUEST_TIMEOUT", f"the request's head did not arrive within {seconds:g} seconds, or too slowly"
            )

    def _start_body_timer(self) -> None:
        limits = self.admission.limits if self.admission is not None else None
        if limits is not None and self._bodies:
            body = self._bodies[-1]
            due = body.started + limits.body_seconds + body.received / limits.body_bytes_per_second
            self._body_timer = self.loop.call_at(due, self._body_timeout, due)

    def _cancel_body_timer(self) -> None:
        if self._body_timer is not None:
            self._body_timer.cancel()
            self._body_timer = None

    def _body_timeout(self, due: float) -> None:
        self._body_timer = None
        if not self._bodies:
            self.transport.close()
            return
        assert self.admission is not None
        limits, body = self.admission.limits, self._bodies[-1]
        if self.flow.read_paused:
            # Do not charge the client for time in which the server does not read.
            body.started += 1.0
        if due < body.started + limits.body_seconds + body.received / limits.body_bytes_per_second:
            self._start_body_timer()
        elif self.cycle.response_complete:
            self.transport.close()
        elif body.rejection is None:
            body.reject_late(limits)
            self._wake_application()

    def _wake_application(self) -> None:
        """Let the application reject the body and close the connection."""
        self.cycle.keep_alive = False
        self.cycle.message_event.set()

    # Received data

    def data_received(self, data: bytes) -> None:
        for start in range(0, len(data), MAX_READ_BYTES):
            if self.transport.is_closing() or self._queued_rejection is not None:
                return
            self._receive(data[start : start + MAX_READ_BYTES])

    def _receive(self, piece: bytes) -> None:
        trailers, self._trailers = self._trailers, -1
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            pass  # Handle the request as HTTP/1.1.
        except httptools.HttpParserError:
            self.send_error(*(self._parse_error or (400, "INVALID_REQUEST", "the request is not valid HTTP")))
        if self._trailers < 0:
            # Neither body nor header section.
            self._trailers = trailers + len(piece)
        if self.transport.is_closing() or self._queued_rejection is not None:
            return
        if self._in_headers:
            self._header_bytes += len(piece)
            if self._header_bytes > MAX_HEADER_BYTES:
                self.send_error(431, "HEAD_TOO_LARGE", f"the request's head is larger than {MAX_HEADER_BYTES} bytes")
                return
            if self._header_timer is None:
                self._start_header_timer()
            elif self._header_bytes == len(piece):
                self._first_byte_at = self.loop.time()
                self._set_header_timer()
            self._update_state()
        elif self._in_body:
            if self._trailers > MAX_TRAILER_BYTES:
                self.send_error(431, "TRAILERS_TOO_LARGE", f"trailers are larger than {MAX_TRAILER_BYTES} bytes")
            elif self._body_timer is None:
                self._start_body_timer()
        elif (
            self._header_timer is None
            and self.timeout_keep_alive_task is None
            and (self.cycle is None or self.cycle.response_complete)
        ):
            # Limit the time for empty lines before a request.
            self._start_header_timer()

    # Rejections without the application

    def close_early(self) -> None:
        """Close a connection in favour of another one."""
        self._closed_early = True
        if (transport := cast("asyncio.Transport | None", self.transport)) is None:
            return
        if self._in_headers and self._header_bytes:
            self._send_rejection(*HEAD_TOO_SLOW)
        else:
            transport.close()

    def send_error(self, status: int, code: str, message: str) -> None:
        """Send an error after pending responses and close, bypassing the application."""
        if self._in_body and not (self.pipeline and self.pipeline[0][0] is self.cycle):
            if self.cycle.response_started:
                self.transport.close()
            else:
                self._send_rejection(status, code, message)
        elif self.cycle is None or self.cycle.response_complete:
            self._send_rejection(status, code, message)
        else:
            self._cancel_header_timer()
            self._cancel_body_timer()
            if self._in_body:
                self.pipeline.popleft()
                if self._bodies:
                    self._bodies.pop().release()
            self._queued_rejection = (status, code, message)

    def _send_rejection(self, status: int, code: str, message: str) -> None:
        if status == 503 and self.admission is not None:
            self.admission.rejections.record("connections")
        self.transport.write(error_response_bytes(status, code, message, self.server_state.default_headers))
        self.transport.close()


def error_response_bytes(status: int, code: str, message: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> bytes:
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
        lines.append((b"retry-after", b"%d" % RETRY_AFTER_SECONDS))
    return STATUS_LINE[status] + b"".join(b"%s: %s\r\n" % line for line in lines) + b"\r\n" + body


def peer_credentials(connection: socket.socket) -> tuple[int, int]:
    """Return user id and process id of the peer of a unix socket; macOS has no process id (0)."""
    if hasattr(socket, "SO_PEERCRED"):
        pid, uid, _ = _UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
        return uid, pid
    _, uid, *_ = _XUCRED.unpack(connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED.size))
    return uid, 0

"""Blocking driver for commands, on the standard library, without asyncio, httpx or models.

Limits: 10 s to connect, 60 s in total, 64 MiB. No compression, no redirects.
"""

from __future__ import annotations

import http.client
import io
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from client.errors import FrostError
from client.text import safe
from client.transport.call import (
    NOT_LISTENING,
    Call,
    Change,
    NoResponse,
    Reply,
    Request,
    Versioned,
    read_json,
)
from client.transport.endpoint import (
    ANSWER_BYTES,
    CONNECT_SECONDS,
    PIECE_BYTES,
    Endpoint,
    authorities,
    check_socket_owner,
)
from client.transport.exchange import (
    USER_AGENT,
    Driver,
    NeedCredential,
    NeedRefresh,
    RequestLogEntry,
    Send,
    Timing,
    Wait,
    log_entry,
)
from client.transport.pages import PageTrail
from client.transport.responses import connection_error

if TYPE_CHECKING:
    from client.transport.proxy import Proxy

T = TypeVar("T")


class BlockingClient(Driver):
    """Sends the calls of client/api and waits for the responses. Each request has its own connection."""

    def ask(self, call: Call[T]) -> T:
        """Send a call and return its result.

        Raises:
            FrostError: No response, or one that does not match the API.
        """
        return call.parse(self.ask_json(call))

    def ask_json(self, call: Call[object]) -> Any:
        """Send a call and return the JSON object of the response; None without content."""
        return read_json(call, self.send(call.request))

    def pages(self, call: Call[list[T]]) -> Iterator[list[T]]:
        """Yield the pages of a list, from that of the call on.

        Raises:
            FrostError: A request fails, or the list does not end (`PageTrail.advance`).
        """
        trail = PageTrail(call.cursor, self._timing.pages)
        while trail.cursor is not None:
            document = self.ask_json(call.page(trail.cursor))
            yield call.parse(document)
            trail.advance(document, call.member)

    def change(self, call: Call[T]) -> Change[T]:
        """Send a write. Return its result, and whether the resource changed."""
        document, changed = self.change_json(call)
        return Change(call.parse(document), changed)

    def change_json(self, call: Call[object]) -> Change[Any]:
        """Send a write. Return its JSON object, and whether the resource changed."""
        reply = self.send(call.request)
        return Change(read_json(call, reply), reply.changed)

    def versioned(self, call: Call[T]) -> Versioned[T]:
        """Return a record, with the version for a later write."""
        document, version = self.versioned_json(call)
        return Versioned(call.parse(document), version)

    def versioned_json(self, call: Call[object]) -> Versioned[Any]:
        """Return a record as a JSON object, with the version for a later write."""
        reply = self.send(call.request)
        return Versioned(read_json(call, reply), reply.version)

    def send(self, request: Request) -> Reply:
        """Return the successful response without decoding it."""
        link = self._connection
        steps = self._steps(request)
        answer: Any = None
        try:
            effect = next(steps)
            while True:
                try:
                    match effect:
                        case Send():
                            answer = self._send(effect)
                        case Wait(seconds, reason):
                            self._log(RequestLogEntry("wait", request.path, 0, seconds, note=reason))
                            time.sleep(seconds)
                            answer = None
                        case NeedCredential():
                            answer = link.credential()
                        case NeedRefresh(used):
                            answer = link.refresh(used)
                except FrostError as error:
                    effect = steps.throw(error)
                else:
                    effect = steps.send(answer)
        except StopIteration as done:
            return cast(Reply, done.value)

    def _send(self, wire: Send) -> Reply | NoResponse:
        link = self._connection
        answer = send(link.endpoint, wire, link.environ, self._timing)
        if isinstance(answer, NoResponse) and answer.code == NOT_LISTENING:
            self._log(log_entry(wire, answer))
            if not link.start():
                return answer
            answer = send(link.endpoint, wire, link.environ, self._timing)
        self._log(log_entry(wire, answer))
        return answer


def fetch(
    endpoint: Endpoint,
    environ: Mapping[str, str],
    method: str,
    target: str,
    *,
    headers: Mapping[str, str] = MappingProxyType({}),
    body: bytes = b"",
    hint: str = "",
) -> Reply:
    """Send a request with the same limits, but without signing, retries or redirects; for the identity provider.

    Returns responses of any status. `hint` is that of `connection_error`.

    Raises:
        FrostError: No response (exit 7).
    """
    plain = {"User-Agent": USER_AGENT, "Accept": "application/json", "Accept-Encoding": "identity", **headers}
    answer = send(endpoint, Send(method, target, plain, body), environ)
    if isinstance(answer, NoResponse):
        raise connection_error(endpoint, answer, hint)
    return answer


def send(endpoint: Endpoint, wire: Send, environ: Mapping[str, str], timing: Timing = Timing()) -> Reply | NoResponse:
    """Send a request on a new connection.

    Raises:
        FrostError: The endpoint or the proxy is not allowed.
    """
    start = time.monotonic()
    end = start + timing.total
    plain: socket.socket | None = None
    try:
        plain = _connect(endpoint, environ)
        connection = http.client.HTTPConnection(endpoint.host, endpoint.port)
        connection.sock = cast(socket.socket, _DeadlineSocket(plain, end))
        headers = {"Host": endpoint.authority, **wire.headers, "Connection": "close"}
        # A service may respond and close before it has read the body; its response can still be read.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.request(wire.method, wire.target, wire.body or None, headers)
        response = connection.getresponse()
        body = _read_body(response)
    except (OSError, http.client.HTTPException) as error:
        return _no_response(error, endpoint, environ, time.monotonic() - start)
    finally:
        if plain is not None:
            plain.close()
    received = {name.lower(): value for name, value in response.getheaders()}
    return wire.reply(response.status, received, body, time.monotonic() - start)


class _ResponseTooLong(http.client.HTTPException):
    pass


def _read_body(response: http.client.HTTPResponse) -> bytes:
    if response.length is not None and response.length > ANSWER_BYTES:
        raise _ResponseTooLong
    pieces: list[bytes] = []
    room = ANSWER_BYTES
    while piece := response.read(PIECE_BYTES):
        room -= len(piece)
        if room < 0:
            raise _ResponseTooLong
        pieces.append(piece)
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)
    return b"".join(pieces)


class _ProxyFailed(OSError):
    """An error before the proxy has opened the tunnel."""

    def __init__(self, proxy: Proxy, reason: str) -> None:
        super().__init__(reason)
        self.proxy = proxy
        self.reason = reason


def _no_response(error: Exception, endpoint: Endpoint, environ: Mapping[str, str], seconds: float) -> NoResponse:
    """Convert an error of the standard library, and name the hop that failed."""
    if endpoint.kind != "https":
        return _plain_failure(error, endpoint, seconds)
    from client.transport import failures
    from client.transport.proxy import proxy_for

    if isinstance(error, _ProxyFailed):
        return failures.at_proxy(error.proxy, endpoint, error.reason, seconds)
    if isinstance(error, socket.gaierror):
        return failures.unresolved(endpoint, error.strerror or "", seconds)
    proxy = proxy_for(endpoint, environ)
    if type(error).__name__ in ("SSLCertVerificationError", "CertificateError"):
        return failures.untrusted(environ, getattr(error, "verify_message", "") or str(error), seconds, proxy)
    return failures.through(proxy, _plain_failure(error, endpoint, seconds))


def _plain_failure(error: Exception, endpoint: Endpoint, seconds: float) -> NoResponse:
    if isinstance(error, _ResponseTooLong):
        return NoResponse(f"the response is longer than {ANSWER_BYTES // 2**20} MiB", seconds, retryable=False)
    if isinstance(error, (FileNotFoundError, ConnectionRefusedError)) and endpoint.kind == "unix":
        return NoResponse("the platform is not running", seconds, code=NOT_LISTENING)
    if isinstance(error, TimeoutError):
        return NoResponse(f"no response within {seconds:.0f} s", seconds)
    if isinstance(error, http.client.HTTPException):
        # An over-long header or an incomplete response; the texts of these errors repeat received data.
        return NoResponse(f"the response is invalid ({type(error).__name__})", seconds)
    return NoResponse(safe(getattr(error, "strerror", None) or error, 200), seconds)


def _connect(endpoint: Endpoint, environ: Mapping[str, str]) -> socket.socket:
    if endpoint.kind == "unix":
        check_socket_owner(endpoint.path)
        plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            plain.settimeout(CONNECT_SECONDS)
            plain.connect(endpoint.path)
        except BaseException:
            plain.close()
            raise
        return plain
    if endpoint.kind == "http":
        return _dial(endpoint.host, endpoint.port)
    from client.transport.proxy import proxy_for

    context = authorities(environ)
    proxy = proxy_for(endpoint, environ)
    plain = _open_tunnel(proxy, endpoint) if proxy else _dial(endpoint.host, endpoint.port)
    try:
        plain.settimeout(CONNECT_SECONDS)
        return context.wrap_socket(plain, server_hostname=endpoint.host)
    except BaseException:
        plain.close()
        raise


def _dial(host: str, port: int) -> socket.socket:
    """Connect to the first address that accepts, within the connect timeout for all addresses together."""
    end = time.monotonic() + CONNECT_SECONDS
    failure: OSError = OSError("the host name has no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        plain = socket.socket(family, kind, protocol)
        try:
            plain.settimeout(max(end - time.monotonic(), 0.01))
            plain.connect(address)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            plain.close()
            failure = error
        else:
            return plain
    raise failure


def _open_tunnel(proxy: Proxy, endpoint: Endpoint) -> socket.socket:
    """Open a tunnel through the proxy, which gets only the host and its own authorization.

    Raises:
        _ProxyFailed: The proxy is unreachable or refuses the tunnel.
    """
    through = http.client.HTTPConnection(proxy.host, proxy.port, timeout=CONNECT_SECONDS)
    headers = {"Proxy-Authorization": proxy.authorization} if proxy.authorization else {}
    through.set_tunnel(endpoint.host, endpoint.port, headers)
    try:
        through.connect()
    except TimeoutError as error:
        raise _ProxyFailed(proxy, f"no response within {CONNECT_SECONDS:.0f} s") from error
    except http.client.HTTPException as error:
        raise _ProxyFailed(proxy, f"the response is invalid ({type(error).__name__})") from error
    except OSError as error:
        raise _ProxyFailed(proxy, error.strerror or str(error)) from error
    tunnel = through.sock
    through.sock = None  # keeps the socket open when the object is deleted
    return cast(socket.socket, tunnel)


class _DeadlineSocket:
    """A socket with a deadline that slow senders cannot extend; has the methods that http.client calls."""

    def __init__(self, plain: socket.socket, end: float) -> None:
        self._plain = plain
        self._end = end

    def sendall(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            self.hurry()
            rest = rest[self._plain.send(rest) :]

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_DeadlineReader(self, self._plain))

    def hurry(self) -> None:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._plain.settimeout(left)

    def close(self) -> None:
        """Do nothing: http.client closes its side before the body is read; `send` closes the socket."""


class _DeadlineReader(io.RawIOBase):
    """A raw reader of a bounded socket."""

    def __init__(self, bounds: _DeadlineSocket, plain: socket.socket) -> None:
        self._bounds = bounds
        self._plain = plain

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._bounds.hurry()
        return self._plain.recv_into(buffer)

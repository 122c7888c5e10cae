"""Asynchronous driver for the screens, the library and waits. The only module that imports httpx.

It has the rules (exchange.py) and limits of blocking_client.py, and reuses connections.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, NamedTuple, Self, TypeVar, cast

import httpx

from client.errors import Exit, FrostError
from client.text import safe
from client.transport import failures
from client.transport.call import (
    NOT_LISTENING,
    Call,
    Change,
    ConnectionProtocol,
    Credential,
    NoResponse,
    Reply,
    Request,
    Versioned,
    read_json,
)
from client.transport.endpoint import (
    ANSWER_BYTES,
    CONNECT_SECONDS,
    authorities,
    check_socket_owner,
)
from client.transport.exchange import (
    Driver,
    NeedCredential,
    NeedRefresh,
    OnReply,
    RequestLogEntry,
    Send,
    Steps,
    Timing,
    Wait,
    log_entry,
)
from client.transport.pages import PageTrail
from client.transport.proxy import proxy_for

T = TypeVar("T")


class Stream(NamedTuple):
    """A response that is being read. `pieces` ends with the connection, even if it breaks."""

    content_type: str
    pieces: AsyncIterator[bytes]


class AsyncClient(Driver):
    """Sends the calls of client/api on the event loop, for the screens and the library."""

    def __init__(
        self, connection: ConnectionProtocol, *, on_reply: OnReply | None = None, timing: Timing = Timing()
    ) -> None:
        super().__init__(connection, on_reply=on_reply, timing=timing)
        self._client: httpx.AsyncClient | None = None
        self._opening = asyncio.Lock()
        self._tasks: set[asyncio.Future[Any]] = set()
        self.latency_ms: float | None = None

    async def ask(self, call: Call[T]) -> T:
        """Send a call and return its result.

        Raises:
            FrostError: No response, or one that does not match the API.
        """
        return call.parse(await self.ask_json(call))

    async def ask_json(self, call: Call[object]) -> Any:
        """Send a call and return the JSON object of the response; None without content."""
        return read_json(call, await self._reply(call))

    async def pages(self, call: Call[list[T]], *, size: int | None = None) -> AsyncIterator[list[T]]:
        """Yield the pages of a list, from that of the call on. `size` is the page size, None the maximum.

        Raises:
            FrostError: A request fails, or the list does not end (`PageTrail.advance`).
        """
        trail = PageTrail(call.cursor, self._timing.pages)
        while trail.cursor is not None:
            document = await self.ask_json(call.page(trail.cursor, size))
            yield call.parse(document)
            trail.advance(document, call.member)

    async def change(self, call: Call[T]) -> Change[T]:
        """Send a write. Return its result, and whether the resource changed."""
        reply = await self._reply(call)
        return Change(call.parse(read_json(call, reply)), reply.changed)

    async def versioned(self, call: Call[T]) -> Versioned[T]:
        """Return a record, with the version for a later write."""
        reply = await self.send(call.request)
        return Versioned(call.parse(read_json(call, reply)), reply.version)

    async def _reply(self, call: Call[object]) -> Reply:
        try:
            return await self.send(call.request)
        except asyncio.CancelledError:
            if call.changes and not _is_cancelled():  # interrupted by `aclose`
                raise _interrupted() from None
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def send(self, request: Request) -> Reply:
        """Return the successful response without decoding it."""
        return await self._drive(self._steps(request), request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """Stream a response. Total time and size are not limited; the time without data is.

        Raises:
            FrostError: Refused, or no response. A later connection error only ends the pieces.
        """
        responses: list[httpx.Response] = []
        try:
            reply = await self._drive(self._steps(request), request, responses)
            yield Stream(reply.headers.get("content-type", ""), _read_pieces(responses[-1] if responses else None))
        finally:
            for response in responses:
                await response.aclose()

    async def aclose(self) -> None:
        """Close all connections, which ends streams and interrupts requests; a write raises FrostError (exit 7)."""
        for task in self._tasks:
            task.cancel()
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _drive(self, steps: Steps, request: Request, responses: list[httpx.Response] | None = None) -> Reply:
        answer: Any = None
        try:
            effect = next(steps)
            while True:
                try:
                    match effect:
                        case Send():
                            answer = await self._send(effect, responses)
                        case Wait(seconds, reason):
                            self._log(RequestLogEntry("wait", request.path, 0, seconds, note=reason))
                            await asyncio.sleep(seconds)
                            answer = None
                        case NeedCredential():
                            answer = await self._credential()
                        case NeedRefresh(used):
                            answer = await asyncio.to_thread(self._connection.refresh, used)
                except FrostError as error:
                    effect = steps.throw(error)
                else:
                    effect = steps.send(answer)
        except StopIteration as done:
            return cast(Reply, done.value)

    async def _credential(self) -> Credential:
        return await asyncio.to_thread(self._connection.credential)

    async def _send(self, wire: Send, responses: list[httpx.Response] | None) -> Reply | NoResponse:
        answer = await self._exchange(wire, responses)
        if isinstance(answer, NoResponse) and answer.code == NOT_LISTENING:
            self._log(log_entry(wire, answer))
            if not await asyncio.to_thread(self._connection.start):
                return answer
            answer = await self._exchange(wire, responses)
        if isinstance(answer, Reply):
            self.latency_ms = answer.seconds * 1000
        self._log(log_entry(wire, answer))
        return answer

    async def _exchange(self, wire: Send, responses: list[httpx.Response] | None) -> Reply | NoResponse:
        """Send a request. If cancelled, still read the response to its end, or a stream to its first byte.

        httpcore neither reuses nor releases a connection that was cancelled before its first byte. Twenty of them block
        all requests; an editor cancels that many within seconds.
        """
        task = self._start(self._request(wire, responses))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if responses is not None:
                self._start(_close_stream(task, responses))
            raise

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        """Run work in a task that `aclose` cancels."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _request(self, wire: Send, responses: list[httpx.Response] | None) -> Reply | NoResponse:
        start = time.monotonic()
        client = await self._load_client()
        if self._connection.endpoint.kind == "unix":
            try:
                check_socket_owner(self._connection.endpoint.path)
            except OSError:
                return NoResponse("the platform is not running", 0.0, code=NOT_LISTENING)
        url = self._connection.endpoint.origin + wire.target
        request = client.build_request(wire.method, url, headers=dict(wire.headers), content=wire.body or None)
        if responses is not None:
            request.extensions["timeout"] = _timeout(self._timing, self._timing.silence)
        try:
            async with asyncio.timeout(self._timing.total):
                response = await client.send(request, stream=True)
                seconds = time.monotonic() - start
                headers = {name.lower(): value for name, value in response.headers.items()}
                if responses is not None and response.status_code == 200:
                    responses.append(response)
                    return wire.reply(200, headers, b"", seconds)
                try:
                    body = await _read_body(response)
                finally:
                    await response.aclose()
        except (TimeoutError, httpx.TransportError, _ResponseTooLong) as error:
            return _no_response(error, self._connection, time.monotonic() - start)
        return wire.reply(response.status_code, headers, body, time.monotonic() - start)

    async def _load_client(self) -> httpx.AsyncClient:
        async with self._opening:
            if self._client is None:
                # Loading certificate authorities takes tens of milliseconds, so it must not block the event loop.
                self._client = await asyncio.to_thread(_client, self._connection, self._timing)
            return self._client


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _interrupted() -> FrostError:
    return FrostError(
        "the request was interrupted and its result is unknown",
        code="REQUEST_INTERRUPTED",
        hint="check the current state before you repeat the change",
        exit_code=Exit.UNREACHABLE,
    )


class _ResponseTooLong(Exception):
    pass


def _client(link: ConnectionProtocol, timing: Timing) -> httpx.AsyncClient:
    """Return a connection pool for the endpoint. httpx itself reads nothing from the environment."""
    endpoint = link.endpoint
    limits = httpx.Limits(max_connections=20, max_keepalive_connections=10, keepalive_expiry=30)
    # verify=False, only where TLS is not used, avoids building an SSL context; redirects are off.
    if endpoint.kind == "unix":
        transport = httpx.AsyncHTTPTransport(uds=endpoint.path, trust_env=False, limits=limits, verify=False)
    elif endpoint.kind == "http":
        transport = httpx.AsyncHTTPTransport(trust_env=False, limits=limits, verify=False)
    else:
        proxy = proxy_for(endpoint, link.environ)
        through = None
        if proxy is not None:
            headers = {"Proxy-Authorization": proxy.authorization} if proxy.authorization else {}
            through = httpx.Proxy(f"http://{proxy.authority}", headers=headers)
        transport = httpx.AsyncHTTPTransport(
            trust_env=False, limits=limits, verify=authorities(link.environ), proxy=through
        )
    return httpx.AsyncClient(
        transport=transport,
        trust_env=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),  # cookies would override the credential
        follow_redirects=False,
        timeout=httpx.Timeout(timing.total, connect=CONNECT_SECONDS),
    )


async def _close_stream(task: asyncio.Future[Reply | NoResponse], responses: list[httpx.Response]) -> None:
    """Close a stream whose reader was cancelled."""
    await asyncio.wait([task])
    for response in responses:
        await response.aclose()


def _timeout(timing: Timing, read: float) -> dict[str, float | None]:
    return httpx.Timeout(timing.total, connect=CONNECT_SECONDS, read=read).as_dict()


async def _read_pieces(response: httpx.Response | None) -> AsyncIterator[bytes]:
    if response is None:
        return
    with suppress(httpx.TransportError, httpx.StreamError):
        async for piece in response.aiter_raw():
            yield piece


async def _read_body(response: httpx.Response) -> bytes:
    pieces: list[bytes] = []
    room = ANSWER_BYTES
    length = response.headers.get("content-length", "")
    if length.isdigit() and len(length) < 20 and int(length) > room:
        raise _ResponseTooLong
    async for piece in response.aiter_raw():
        room -= len(piece)
        if room < 0:
            raise _ResponseTooLong
        pieces.append(piece)
    return b"".join(pieces)


def _no_response(error: Exception, link: ConnectionProtocol, seconds: float) -> NoResponse:
    """Convert an httpx error, with the texts of client/transport/blocking_client.py."""
    if isinstance(error, _ResponseTooLong):
        return NoResponse(f"the response is longer than {ANSWER_BYTES // 2**20} MiB", seconds, retryable=False)
    endpoint, causes = link.endpoint, list(_causes(error))
    if endpoint.kind == "unix" and any(isinstance(one, (FileNotFoundError, ConnectionRefusedError)) for one in causes):
        return NoResponse("the platform is not running", seconds, code=NOT_LISTENING)
    failure = _plain_failure(error, seconds)
    if endpoint.kind != "https":
        return failure
    proxy = proxy_for(endpoint, link.environ)
    for cause in causes:
        if type(cause).__name__ == "SSLCertVerificationError":
            reason = getattr(cause, "verify_message", "") or str(cause)
            return failures.untrusted(link.environ, reason, seconds, proxy)
    name = next((one for one in causes if isinstance(one, socket.gaierror)), None)
    if proxy is None:
        return failure if name is None else failures.unresolved(endpoint, name.strerror or "", seconds)
    if isinstance(error, httpx.ProxyError):
        return failures.at_proxy(proxy, endpoint, str(error), seconds)
    in_tunnel = any(isinstance(one, ssl.SSLError) for one in causes)
    if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)) and not in_tunnel:
        reason = next((one.strerror for one in causes if isinstance(one, OSError) and one.strerror), failure.reason)
        return failures.at_proxy(proxy, endpoint, reason, seconds)
    return failures.through(proxy, failure)


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _plain_failure(error: Exception, seconds: float) -> NoResponse:
    if isinstance(error, (TimeoutError, httpx.TimeoutException)):
        return NoResponse(f"no response within {seconds:.0f} s", seconds)
    if isinstance(error, httpx.ProtocolError):
        return NoResponse(f"the response is invalid ({type(error).__name__})", seconds)
    return NoResponse(safe(str(error) or type(error).__name__, 200), seconds)

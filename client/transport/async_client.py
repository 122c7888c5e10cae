"""Asynchronous driver for the screens, the library and waits. The only module that imports httpx.

It has the rules (exchange.py) and limits of blocking_client.py, and reuses connections.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import httpx

from client import times
from client.errors import FrostError
from client.text import safe
from client.transport.exchange import (
    NeedCredential,
    NeedRefresh,
    OnReply,
    RequestLogEntry,
    Send,
    Steps,
    Wait,
    exchange,
    log_entry,
)
from client.transport.network import (
    ANSWER_BYTES,
    CONNECT_SECONDS,
    TOTAL_SECONDS,
    authorities,
    check_socket_owner,
    proxy_for,
)
from client.transport.request import (
    NOT_LISTENING,
    Call,
    Change,
    ConnectionProtocol,
    Credential,
    NoResponse,
    Reply,
    Request,
    Versioned,
    cursors,
    next_cursor,
)
from client.transport.responses import BAD_ANSWER, document

if TYPE_CHECKING:
    from client.models.base import Wire

_T = TypeVar("_T")

SILENCE_SECONDS = 45.0
"""A stream without data for three keepalive intervals is dead."""


class Stream(NamedTuple):
    """A response that is being read. `pieces` ends with the connection, even if it breaks."""

    content_type: str
    pieces: AsyncIterator[bytes]


class AsyncClient:
    """Sends requests without blocking, for client/api.

    Args:
        connection: The context (client/connection.py).
        on_reply: Called on the event loop after each exchange and wait.
    """

    def __init__(self, connection: ConnectionProtocol, *, on_reply: OnReply | None = None) -> None:
        self._link = connection
        self._on_reply = on_reply
        self._client: httpx.AsyncClient | None = None
        self._opening = asyncio.Lock()
        self._going: set[asyncio.Future[Any]] = set()
        self.latency_ms: float | None = None

    async def call(self, call: Call) -> Any:
        """Return the JSON object of the response; None without content.

        Raises:
            FrostError: No response, or an invalid one.
        """
        return document(call, await self.send(call.request))

    async def record(self, call: Call) -> Any:
        """Return the response as the call's model."""
        return await self.document(call, call.model)

    async def records(self, call: Call) -> list[Any]:
        """Return the list in the response as the call's models."""
        found = await self.call(call)
        return [modelled(item, call.model) for item in found[call.member]]

    async def pages(self, page: Callable[[str], Call]) -> AsyncIterator[list[Any]]:
        """Yield the pages of a list as models. `page` returns the call for a cursor."""
        trail = cursors()
        cursor: str | None = next(trail)
        while cursor is not None:
            call = page(cursor)
            answer = await self.call(call)
            yield [modelled(item, call.model) for item in answer[call.member]]
            try:
                cursor = trail.send(next_cursor(answer))
            except StopIteration:
                cursor = None

    async def change(self, call: Call) -> Change:
        """Send a write. Return its record as a model, and whether the resource changed."""
        reply = await self.send(call.request)
        found = document(call, reply)
        return Change(found if found is None else modelled(found, call.model), reply.changed)

    async def versioned(self, call: Call) -> Versioned:
        """Return a record as a model, with the version for a later write."""
        reply = await self.send(call.request)
        return Versioned(modelled(document(call, reply), call.model), reply.version)

    async def document(self, call: Call, model: str) -> Any:
        """Return the response as the given model instead of the call's."""
        return modelled(await self.call(call), model)

    async def send(self, request: Request) -> Reply:
        """Return the successful response without decoding it."""
        return await self._drive(exchange(request, self._link.endpoint, _now), request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """Stream a response. Total time and size are not limited; the time without data is.

        Raises:
            FrostError: Refused, or no response. A later connection error only ends the pieces.
        """
        opened: list[httpx.Response] = []
        try:
            reply = await self._drive(exchange(request, self._link.endpoint, _now), request, opened)
            yield Stream(reply.headers.get("content-type", ""), _pieces(opened[-1] if opened else None))
        finally:
            for response in opened:
                await response.aclose()

    async def aclose(self) -> None:
        """Close all connections, which ends streams."""
        for going in self._going:
            going.cancel()
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _drive(self, steps: Steps, request: Request, opened: list[httpx.Response] | None = None) -> Reply:
        answer: Any = None
        try:
            effect = next(steps)
            while True:
                try:
                    match effect:
                        case Send():
                            answer = await self._send(effect, opened)
                        case Wait(seconds, reason):
                            self._tell(RequestLogEntry("wait", request.path, 0, seconds, note=reason))
                            await asyncio.sleep(seconds)
                            answer = None
                        case NeedCredential():
                            answer = await self._credential()
                        case NeedRefresh(used):
                            answer = await asyncio.to_thread(self._link.refresh, used)
                except FrostError as error:
                    effect = steps.throw(error)
                else:
                    effect = steps.send(answer)
        except StopIteration as done:
            return cast(Reply, done.value)

    async def _credential(self) -> Credential:
        return await asyncio.to_thread(self._link.credential)

    async def _send(self, wire: Send, opened: list[httpx.Response] | None) -> Reply | NoResponse:
        answer = await self._exchange(wire, opened)
        if (
            isinstance(answer, NoResponse)
            and answer.code == NOT_LISTENING
            and await asyncio.to_thread(self._link.start)
        ):
            answer = await self._exchange(wire, opened)
        if isinstance(answer, Reply):
            self.latency_ms = answer.seconds * 1000
        self._tell(log_entry(wire, answer))
        return answer

    async def _exchange(self, wire: Send, opened: list[httpx.Response] | None) -> Reply | NoResponse:
        """Send a request. If cancelled, still read the response to its end, or a stream to its first byte.

        httpcore neither reuses nor releases a connection that was cancelled before its first byte. Twenty of them block
        all requests; an editor cancels that many within seconds.
        """
        going = self._goes_on(self._exchanged(wire, opened))
        try:
            return await asyncio.shield(going)
        except asyncio.CancelledError:
            if opened is not None:
                self._goes_on(_closed(going, opened))
            raise

    def _goes_on(self, work: Coroutine[Any, Any, _T]) -> asyncio.Future[_T]:
        """Run work in a task that `aclose` cancels."""
        going = asyncio.ensure_future(work)
        self._going.add(going)
        going.add_done_callback(self._going.discard)
        return going

    async def _exchanged(self, wire: Send, opened: list[httpx.Response] | None) -> Reply | NoResponse:
        begun = time.monotonic()
        client = await self._opened()
        if self._link.endpoint.kind == "unix":
            try:
                check_socket_owner(self._link.endpoint.path)
            except OSError:
                return NoResponse("nobody listens there", 0.0, code=NOT_LISTENING)
        url = self._link.endpoint.origin + wire.target
        request = client.build_request(wire.method, url, headers=dict(wire.headers), content=wire.body or None)
        if opened is not None:
            request.extensions["timeout"] = _timeout(SILENCE_SECONDS)
        try:
            async with asyncio.timeout(TOTAL_SECONDS):
                response = await client.send(request, stream=True)
                seconds = time.monotonic() - begun
                headers = {name.lower(): value for name, value in response.headers.items()}
                if opened is not None and response.status_code == 200:
                    opened.append(response)
                    return Reply(200, headers, b"", seconds)
                try:
                    body = await _body(response)
                finally:
                    await response.aclose()
        except (TimeoutError, httpx.TransportError, _TooLong) as error:
            return _broken(error, self._link.endpoint.kind, time.monotonic() - begun)
        return Reply(response.status_code, headers, body, time.monotonic() - begun)

    async def _opened(self) -> httpx.AsyncClient:
        async with self._opening:
            if self._client is None:
                # Loading certificate authorities takes tens of milliseconds, so it must not block the event loop.
                self._client = await asyncio.to_thread(_client, self._link)
            return self._client

    def _tell(self, exchanged: RequestLogEntry) -> None:
        if self._on_reply is not None:
            self._on_reply(exchanged)


class _TooLong(Exception):
    pass


def modelled(value: Any, model: str) -> Any:
    """Validate `value` as the model `module.Class` in client.models.

    Raises:
        FrostError: A required member is missing, or a member has another type.
    """
    from pydantic import ValidationError

    module, _, name = model.partition(".")
    kind: type[Wire] = getattr(import_module(f"client.models.{module}"), name)
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise FrostError(
            f"the answer is not a {name}: {safe(place, 100)}: {safe(first['msg'], 200)}",
            code=BAD_ANSWER,
            hint="is the platform of another version? frost platform status",
        ) from error


def _client(link: ConnectionProtocol) -> httpx.AsyncClient:
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
            host = f"[{proxy.host}]" if ":" in proxy.host else proxy.host
            through = httpx.Proxy(f"http://{host}:{proxy.port}", headers=headers)
        transport = httpx.AsyncHTTPTransport(
            trust_env=False, limits=limits, verify=authorities(link.environ), proxy=through
        )
    return httpx.AsyncClient(
        transport=transport,
        trust_env=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),  # cookies would override the credential
        follow_redirects=False,
        timeout=httpx.Timeout(TOTAL_SECONDS, connect=CONNECT_SECONDS),
    )


async def _closed(going: asyncio.Future[Reply | NoResponse], opened: list[httpx.Response]) -> None:
    """Close a stream whose reader was cancelled."""
    await asyncio.wait([going])
    for response in opened:
        await response.aclose()


def _timeout(read: float) -> dict[str, float | None]:
    return httpx.Timeout(TOTAL_SECONDS, connect=CONNECT_SECONDS, read=read).as_dict()


async def _pieces(response: httpx.Response | None) -> AsyncIterator[bytes]:
    if response is None:
        return
    with suppress(httpx.TransportError, httpx.StreamError):
        async for piece in response.aiter_raw():
            yield piece


async def _body(response: httpx.Response) -> bytes:
    pieces: list[bytes] = []
    room = ANSWER_BYTES
    length = response.headers.get("content-length", "")
    if length.isdigit() and len(length) < 20 and int(length) > room:
        raise _TooLong
    async for piece in response.aiter_raw():
        room -= len(piece)
        if room < 0:
            raise _TooLong
        pieces.append(piece)
    return b"".join(pieces)


def _broken(error: Exception, kind: str, seconds: float) -> NoResponse:
    """Convert an httpx error, with the texts of client/transport/blocking_client.py."""
    if isinstance(error, _TooLong):
        return NoResponse(f"the answer is longer than {ANSWER_BYTES // 2**20} MiB", seconds, again=False)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, (FileNotFoundError, ConnectionRefusedError)) and kind == "unix":
            return NoResponse("nobody listens there", seconds, code=NOT_LISTENING)
        if type(cause).__name__ == "SSLCertVerificationError":
            reason = getattr(cause, "verify_message", "") or str(cause)
            return NoResponse(f"its certificate is refused: {safe(reason, 200)}", seconds, again=False)
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, (TimeoutError, httpx.TimeoutException)):
        return NoResponse(f"no answer within {seconds:.0f} s", seconds)
    if isinstance(error, httpx.ProtocolError):
        return NoResponse(f"the answer is broken ({type(error).__name__})", seconds)
    return NoResponse(safe(str(error) or type(error).__name__, 200), seconds)


def _now() -> float:
    return times.now().timestamp()

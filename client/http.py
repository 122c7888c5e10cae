"""The asynchronous driver, for the screens, the library and waits. The only importer of httpx.

The same rules as client/oneshot.py (client/core.py), the same bounds, connections kept open between requests.
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

from client import clock
from client.answers import BAD_ANSWER, document
from client.core import (
    NOT_LISTENING,
    Broken,
    Call,
    Change,
    Credential,
    Exchanged,
    Link,
    OnReply,
    Renew,
    Reply,
    Request,
    Send,
    Sign,
    Steps,
    Versioned,
    Wait,
    exchange,
    told,
)
from client.errors import FrostError
from client.network import ANSWER_BYTES, CONNECT_SECONDS, TOTAL_SECONDS, authorities, check_socket_owner, proxy_for
from client.pages import cursors, next_cursor
from client.text import safe

if TYPE_CHECKING:
    from client.models.base import Wire

_T = TypeVar("_T")

SILENCE_SECONDS = 45.0
"""A stream that says nothing for three of its keepalives is dead (facts 2.10)."""


class Stream(NamedTuple):
    """An answer that is being read; `pieces` ends when the connection does, in whatever way."""

    content_type: str
    pieces: AsyncIterator[bytes]


class Http:
    """Asks without blocking; used by the areas of client/api.

    Args:
        connection: The context to work for (client/connection.py).
        on_reply: Called after every exchange and wait, in the event loop.
    """

    def __init__(self, connection: Link, *, on_reply: OnReply | None = None) -> None:
        self._link = connection
        self._on_reply = on_reply
        self._client: httpx.AsyncClient | None = None
        self._opening = asyncio.Lock()
        self._going: set[asyncio.Future[Any]] = set()
        self.latency_ms: float | None = None

    async def call(self, call: Call) -> Any:
        """The whole answer as plain JSON; None when the answer has no content.

        Raises:
            FrostError: There was no answer, or not the one that was asked for.
        """
        return document(call, await self.send(call.request))

    async def record(self, call: Call) -> Any:
        """The answer as the call's model."""
        return await self.document(call, call.model)

    async def records(self, call: Call) -> list[Any]:
        """The members of the answer's list, each as the call's model."""
        found = await self.call(call)
        return [modelled(item, call.model) for item in found[call.member]]

    async def pages(self, page: Callable[[str], Call]) -> AsyncIterator[list[Any]]:
        """All pages of a list, each as the models of its records; `page` makes the request of a cursor's page."""
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
        """A write: its record as the call's model, and whether there was anything to change."""
        reply = await self.send(call.request)
        found = document(call, reply)
        return Change(found if found is None else modelled(found, call.model), reply.changed)

    async def versioned(self, call: Call) -> Versioned:
        """A record as the call's model, and the version that a write is made from."""
        reply = await self.send(call.request)
        return Versioned(modelled(document(call, reply), call.model), reply.version)

    async def document(self, call: Call, model: str) -> Any:
        """The whole answer as another model than the one of its records."""
        return modelled(await self.call(call), model)

    async def send(self, request: Request) -> Reply:
        """The successful answer to a request, unread."""
        return await self._drive(exchange(request, self._link.endpoint, _now), request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """An answer that is read while it comes; without a limit of total time or size, but not of silence.

        Raises:
            FrostError: It was refused, or there was no answer. A connection that breaks later only ends the pieces.
        """
        opened: list[httpx.Response] = []
        try:
            reply = await self._drive(exchange(request, self._link.endpoint, _now), request, opened)
            yield Stream(reply.headers.get("content-type", ""), _pieces(opened[-1] if opened else None))
        finally:
            for response in opened:
                await response.aclose()

    async def aclose(self) -> None:
        """Closes all connections; streams end."""
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
                            self._tell(Exchanged("wait", request.path, 0, seconds, note=reason))
                            await asyncio.sleep(seconds)
                            answer = None
                        case Sign():
                            answer = await self._credential()
                        case Renew(used):
                            answer = await asyncio.to_thread(self._link.refresh, used)
                except FrostError as error:
                    effect = steps.throw(error)
                else:
                    effect = steps.send(answer)
        except StopIteration as done:
            return cast(Reply, done.value)

    async def _credential(self) -> Credential:
        return await asyncio.to_thread(self._link.credential)

    async def _send(self, wire: Send, opened: list[httpx.Response] | None) -> Reply | Broken:
        answer = await self._exchange(wire, opened)
        if isinstance(answer, Broken) and answer.code == NOT_LISTENING and await asyncio.to_thread(self._link.start):
            answer = await self._exchange(wire, opened)
        if isinstance(answer, Reply):
            self.latency_ms = answer.seconds * 1000
        self._tell(told(wire, answer))
        return answer

    async def _exchange(self, wire: Send, opened: list[httpx.Response] | None) -> Reply | Broken:
        """One request. One that nobody waits for any more is read to its end all the same, a stream to its first byte.

        httpcore keeps a connection that was cancelled before its first byte, and gives it to nobody: with twenty of
        those every request waits for ever. An editor cancels that many within seconds.
        """
        going = self._goes_on(self._exchanged(wire, opened))
        try:
            return await asyncio.shield(going)
        except asyncio.CancelledError:
            if opened is not None:
                self._goes_on(_closed(going, opened))
            raise

    def _goes_on(self, work: Coroutine[Any, Any, _T]) -> asyncio.Future[_T]:
        """Work that ends with the client at the latest."""
        going = asyncio.ensure_future(work)
        self._going.add(going)
        going.add_done_callback(self._going.discard)
        return going

    async def _exchanged(self, wire: Send, opened: list[httpx.Response] | None) -> Reply | Broken:
        begun = time.monotonic()
        client = await self._opened()
        if self._link.endpoint.kind == "unix":
            try:
                check_socket_owner(self._link.endpoint.path)
            except OSError:
                return Broken("nobody listens there", 0.0, code=NOT_LISTENING)
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
                # Reading certificate authorities takes tens of milliseconds: not in the event loop.
                self._client = await asyncio.to_thread(_client, self._link)
            return self._client

    def _tell(self, exchanged: Exchanged) -> None:
        if self._on_reply is not None:
            self._on_reply(exchanged)


class _TooLong(Exception):
    pass


def modelled(value: Any, model: str) -> Any:
    """`value` as `module.Class` below client.models.

    Raises:
        FrostError: A member that the record must have is missing or of another type.
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


def _client(link: Link) -> httpx.AsyncClient:
    """A pool for the link's endpoint. Nothing is taken from the environment by httpx itself (hostile H07)."""
    endpoint = link.endpoint
    limits = httpx.Limits(max_connections=20, max_keepalive_connections=10, keepalive_expiry=30)
    # verify=False where no TLS is spoken, and redirects are off: it only spares building an SSL context.
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
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),  # a cookie would come before our credential (1.2)
        follow_redirects=False,
        timeout=httpx.Timeout(TOTAL_SECONDS, connect=CONNECT_SECONDS),
    )


async def _closed(going: asyncio.Future[Reply | Broken], opened: list[httpx.Response]) -> None:
    """Ends a stream that was opened for nobody."""
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


def _broken(error: Exception, kind: str, seconds: float) -> Broken:
    """What a failure of httpx means; the words are those of client/oneshot.py."""
    if isinstance(error, _TooLong):
        return Broken(f"the answer is longer than {ANSWER_BYTES // 2**20} MiB", seconds, again=False)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, (FileNotFoundError, ConnectionRefusedError)) and kind == "unix":
            return Broken("nobody listens there", seconds, code=NOT_LISTENING)
        if type(cause).__name__ == "SSLCertVerificationError":
            reason = getattr(cause, "verify_message", "") or str(cause)
            return Broken(f"its certificate is refused: {safe(reason, 200)}", seconds, again=False)
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, (TimeoutError, httpx.TimeoutException)):
        return Broken(f"no answer within {seconds:.0f} s", seconds)
    if isinstance(error, httpx.ProtocolError):
        return Broken(f"the answer is broken ({type(error).__name__})", seconds)
    return Broken(safe(str(error) or type(error).__name__, 200), seconds)


def _now() -> float:
    return clock.now().timestamp()

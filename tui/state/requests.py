"""Requests in the context in use: the client, its credential, and the state of the connection."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import TYPE_CHECKING, Protocol, TypeVar

from client import times
from client.errors import SESSION_ENDED, Exit, FrostError
from tui.state import contexts
from tui.state.connection_state import Link

if TYPE_CHECKING:
    from client.connection import Connection
    from client.transport.async_client import AsyncClient
    from client.transport.call import Call, Change, Versioned
    from client.transport.events import Listening, Signal
    from client.transport.exchange import OnReply

T = TypeVar("T")

CANNOT_START = frozenset({"FILE_REFUSED", "FOLDER_REFUSED", "FOLDER_UNUSABLE"})
"""Local errors that prevent the start of the local platform. No request was sent."""


class Requests(Protocol):
    """Sends calls in the context in use. Errors are raised, and update the state of the connection."""

    async def ask(self, call: "Call[T]") -> T:
        """Send a call and return its result."""

    async def versioned(self, call: "Call[T]") -> "Versioned[T]":
        """Return a record, with the version for a later write."""

    def pages(self, call: "Call[list[T]]") -> AsyncIterator[list[T]]:
        """Yield the pages of a list."""


class ContextRequests:
    """Sends calls with the client of the context in use, which only this class opens and closes.

    A subclass reacts to changes of the connection in `link_changed`, `connection_lost` and `session_refused`.
    """

    connection: "Connection"
    link: Link
    _client: "AsyncClient | None" = None

    def __init__(self, on_reply: "OnReply | None" = None) -> None:
        """`on_reply` is called after each exchange with the platform."""
        self._on_reply = on_reply

    def link_changed(self) -> None:
        """React to another state or latency of the connection."""
        raise NotImplementedError

    def connection_lost(self) -> None:
        """React to a request without a response. `link_changed` follows."""
        raise NotImplementedError

    def session_refused(self, error: FrostError) -> None:
        """React to the end of the session. `link_changed` follows."""
        raise NotImplementedError

    def enter(self, connection: "Connection") -> "AsyncClient | None":
        """Use another connection from now on. Return the client of the former one, for the caller to close."""
        former, self._client = self._client, None
        self.connection = connection
        self.link = Link()
        self._visit = object()
        """Identifies the stay in this context. Late results of a former one are dropped."""
        self._client_connection: Connection | None = None
        """The connection of the client, with the credential in use."""
        return former

    async def client(self) -> "AsyncClient":
        """Return the client, created off the event loop on first use: importing httpx takes 70 ms."""
        if self._client is None:
            connection, visit = self.connection, self._visit
            client = await asyncio.to_thread(contexts.open_client, connection, self._on_reply)
            # A config read again has another connection to the same context. Only leaving the context discards the
            # client.
            if self._client is None and visit is self._visit:
                self._client, self._client_connection = client, connection
        if self._client is None:
            raise asyncio.CancelledError
        return self._client

    async def ask(self, call: "Call[T]") -> T:
        """Send a call, and update the state of the connection. Errors are raised as well."""
        client = await self.client()
        return await self._observe(client, client.ask(call))

    async def change(self, call: "Call[T]") -> "Change[T]":
        """Send a write. Return its result, and whether the resource changed."""
        client = await self.client()
        return await self._observe(client, client.change(call))

    async def versioned(self, call: "Call[T]") -> "Versioned[T]":
        """Return a record, with the version for a later write."""
        client = await self.client()
        return await self._observe(client, client.versioned(call))

    async def pages(self, call: "Call[list[T]]") -> AsyncIterator[list[T]]:
        """Yield the pages of a list."""
        client = await self.client()
        pages = client.pages(call)
        while (page := await self._observe(client, anext(pages, None))) is not None:
            yield page

    async def _open_stream(self, tenant_id: str, listening: "Listening") -> "AsyncIterator[Signal]":
        """Yield the signals of a tenant. Call `listening` when the stream opens or ends."""
        from client.transport.events import signals

        async for signal in signals(await self.client(), tenant_id, listening):
            yield signal

    async def _observe(self, client: "AsyncClient", response: Awaitable[T]) -> T:
        """Wait for a response, and update the state of the connection."""
        try:
            result = await response
        except FrostError as error:
            self._note(error)
            raise
        if self.link.answered(client.latency_ms):
            self.link_changed()
        return result

    def _note(self, error: FrostError) -> None:
        if error.exit_code is Exit.UNREACHABLE or error.code in CANNOT_START:
            self.link.failed(error.message, times.now(), stopped=contexts.is_stopped(self.connection))
            self.connection_lost()
        elif error.exit_code is Exit.NOT_SIGNED_IN:
            self.link.refused(error.message)
            self.session_refused(error)
        elif self.link.state != "up":
            self.link.answered(None)
        self.link_changed()

    def _require_session(self) -> None:
        """Refuse to read a list while signed out: it would show the sign-in dialog again."""
        if self.link.state == "signed_out":
            raise FrostError(self.link.why, code=SESSION_ENDED, exit_code=Exit.NOT_SIGNED_IN)

    async def want_platform(self) -> None:
        """Let the next request start a platform that was stopped on purpose."""
        await asyncio.to_thread(contexts.want_platform, self.connection)

    async def close(self) -> None:
        """Close the client's connections."""
        if self._client is not None:
            await self._client.aclose()

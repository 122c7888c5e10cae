"""The context in use: its connection and requests, tenant, identity, tenants, and whether changes are refused."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from client import times
from client.errors import SESSION_ENDED, Exit, FrostError
from client.operations import REREAD_SECONDS
from client.tenancy import MAY_CREATE
from tui.state import contexts
from tui.state.preferences import State, TenantRecord

if TYPE_CHECKING:
    from client.connection import Connection
    from client.models.account import CallerCredential, Me, Organization
    from client.transport.async_client import AsyncClient
    from client.transport.call import Call, Change, Versioned
    from client.transport.events import Listening, Signal
    from client.transport.exchange import OnReply

T = TypeVar("T")

BACKOFF = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds between attempts while the platform does not respond; the last value repeats."""
STEPS_MS = (10, 25, 50, 100, 250, 500, 1000, 2500, 5000)
"""Steps of the displayed latency, which is smoothed: jitter would repaint an idle screen."""
SMOOTHING = 0.25


@dataclass(slots=True)
class Link:
    """State of the connection: `opening`, `up`, `lost` or `signed_out`."""

    state: str = "opening"
    since: datetime | None = None
    """Time of the first failure."""
    tries: int = 0
    why: str = ""
    latency_ms: float | None = None
    stopped: bool = False
    """Whether the platform was stopped on purpose. Only the user starts it again."""

    def answered(self, latency_ms: float | None) -> bool:
        """Record a response. Return whether the displayed state changes."""
        before = (self.state, self.latency)
        self.state, self.since, self.tries, self.why, self.stopped = "up", None, 0, "", False
        if latency_ms is not None and self.latency_ms is not None:
            latency_ms = self.latency_ms + SMOOTHING * (latency_ms - self.latency_ms)
        self.latency_ms = latency_ms if latency_ms is not None else self.latency_ms
        return before != (self.state, self.latency)

    def failed(self, why: str, at: datetime, *, stopped: bool = False) -> None:
        """Record a failure. `since` is the time of the first one."""
        if self.state != "lost":
            self.state, self.since, self.tries = "lost", at, 0
        self.tries += 1
        self.stopped = stopped
        self.why = why

    def refused(self, why: str) -> None:
        """Record the end of the session. Requests are suspended until the next sign-in."""
        self.state, self.since, self.why = "signed_out", None, why

    @property
    def pause(self) -> float:
        """Seconds until the next attempt."""
        return BACKOFF[min(max(self.tries, 1), len(BACKOFF)) - 1]

    @property
    def latency(self) -> str:
        """The latency, rounded up to a step (`5 ms`); empty if unknown."""
        if self.latency_ms is None:
            return ""
        step = next((step for step in STEPS_MS if self.latency_ms <= step), None)
        return f"{step} ms" if step is not None else "> 5 s"


CANNOT_START = frozenset({"FILE_REFUSED", "FOLDER_REFUSED", "FOLDER_UNUSABLE"})
"""Local errors that prevent the start of the local platform. No request was sent."""


def credential_words(kind: str, local: bool = False) -> str:
    """Return a credential kind in words."""
    return {"session": "session", "api_key": "API key"}.get(kind, "automatic sign-in" if local else "not signed in")


class Requests(Protocol):
    """Sends calls in the context in use. Errors are raised, and update the state of the connection."""

    async def ask(self, call: "Call[T]") -> T:
        """Send a call and return its result."""

    async def versioned(self, call: "Call[T]") -> "Versioned[T]":
        """Return a record, with the version for a later write."""

    def pages(self, call: "Call[list[T]]") -> AsyncIterator[list[T]]:
        """Yield the pages of a list."""


@dataclass(slots=True)
class Limits:
    """Times in seconds and numbers of records, which tests change."""

    reread_seconds: float = REREAD_SECONDS
    """Interval between reads of the shown data."""
    save_seconds: float = 10.0
    """How long a save of a policy waits for the response."""
    effect_seconds: float = 4.0
    """How long a review waits for the effect of a policy."""
    hint_seconds: float = 60.0
    """How long the header shows the hint of the first run."""
    newest: int = 400
    """Entries of a log that are read at first. The number doubles on request."""
    page_size: int | None = None
    """Records of a page; None for the maximum."""


class ContextRequests:
    """Sends calls with the client of the context in use, which only this class opens and closes.

    A subclass reacts to changes of the connection in `link_changed`, `connection_lost` and `session_refused`.
    """

    connection: "Connection"
    link: Link
    _client: "AsyncClient | None" = None
    _expected: list[FrostError] | None = None
    """Refusals while a change ends the session."""

    def __init__(self, on_reply: "OnReply | None" = None, limits: Limits | None = None) -> None:
        """`on_reply` is called after each exchange with the platform."""
        self._on_reply = on_reply
        self.limits = limits or Limits()

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
        """Use another connection. Return the previous client, for the caller to close."""
        former, self._client = self._client, None
        self.connection = connection
        self.link = Link()
        self._expected = None
        self._visit = object()
        """Identifies the stay in this context. Late results of a former one are dropped."""
        self._client_connection: Connection | None = None
        """The connection of the client, with the credential in use."""
        return former

    async def client(self) -> "AsyncClient":
        """Return the client, created off the event loop on first use: importing httpx takes 70 ms."""
        contexts.require_same_context(self.connection)
        if self._client is None:
            connection, visit = self.connection, self._visit
            client = await asyncio.to_thread(contexts.open_client, connection, self._on_reply)
            contexts.require_same_context(self.connection)
            if visit is not self._visit:  # a config that is read again keeps the visit, and so the client
                raise asyncio.CancelledError
            if self._client is None:
                self._client, self._client_connection = client, connection
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
        pages = client.pages(call, size=self.limits.page_size)
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
            if client is self._client:  # not left for another context
                self._note(error)
            raise
        except asyncio.CancelledError:
            if client is not self._client:  # closed with its context
                contexts.require_same_context(self.connection)
            raise
        if client is self._client and self.link.answered(client.latency_ms):
            self.link_changed()
        return result

    def _note(self, error: FrostError) -> None:
        if error.exit_code is Exit.UNREACHABLE or error.code in CANNOT_START:
            self.link.failed(error.message, times.now(), stopped=contexts.is_stopped(self.connection))
            self.connection_lost()
        elif error.exit_code is Exit.NOT_SIGNED_IN:
            if self._expected is not None:
                self._expected.append(error)
                return
            self.link.refused(error.message)
            self.session_refused(error)
        elif self.link.state != "up":
            self.link.answered(None)
        self.link_changed()

    @contextmanager
    def ending_session(self) -> Iterator[None]:
        """Make a change that ends the session: requests that are refused then, but not itself, show no dialog."""
        expected = self._expected = []
        try:
            yield
        except FrostError:
            if self._expected is expected and expected:
                self._expected = None
                self._note(expected[0])
            raise
        finally:
            if self._expected is expected:
                self._expected = None

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


class ContextState(ContextRequests):
    """The loaded or remembered data of one context at a time.

    Args:
        state: The state of earlier runs.
        tenant_flag: The tenant of the command line, which is used until another context is entered.
        read_only: Refuse changes in all contexts.
        on_reply: Called after each exchange with the platform.
    """

    def __init__(
        self,
        state: State,
        environ: Mapping[str, str],
        *,
        tenant_flag: str | None = None,
        read_only: bool = False,
        on_reply: "OnReply | None" = None,
        limits: Limits | None = None,
    ) -> None:
        super().__init__(on_reply, limits)
        self.state, self.environ = state, environ
        self._tenant_flag, self._read_only_flag = tenant_flag, read_only
        self._caller: contexts.Caller | None = None
        self._first_run = not state.hinted
        state.hinted = True

    def end_hint(self) -> None:
        """End the hint of the first run."""
        self._first_run = self.first_run = False
        self.link_changed()

    def enter(self, connection: "Connection") -> "AsyncClient | None":
        """Restore the remembered data of a context."""
        former = super().enter(connection)
        self.context = connection.context.name
        self.endpoint = contexts.endpoint_text(connection)
        self._memory = self.state.of(self.context, self.endpoint)
        self.me: Me | None = None
        self.tenants: list[TenantRecord] = list(self._memory.tenants)
        self.tenants_state: Literal["remembered", "fresh", "failed", "refused"] = "remembered"
        """`refused` if the principal may not see the tenants."""
        self.tenants_error = ""
        self.tenant_id = self._tenant_flag or self.environ.get("FROST_TENANT") or connection.context.tenant or ""
        self.tenant_source = contexts.tenant_source(self._tenant_flag, self.environ, connection)
        if not self.tenant_id and self._memory.recent:
            self.tenant_id = self._memory.recent[0]
        self.first_run = self._first_run and self.endpoint.startswith("unix:") and connection.is_local
        """Whether to show the hint of the first run: with a local platform, until `end_hint`."""
        self.read_only = ""
        if self._read_only_flag:
            self.read_only = "frost was started with --read-only"
        elif connection.context.read_only:
            self.read_only = f"the context {self.context} is read-only"
        return former

    def identify(self, me: "Me") -> str | None:
        """Set the principal. Return the name of the previous principal on this endpoint if it differs."""
        self.me = me
        former = self._caller
        caller = self._caller = contexts.Caller(
            self.context, self.endpoint, me.id, self.credential.kind if self.credential is not None else "", self.who
        )
        if former is None or (former.context, former.endpoint) != (caller.context, caller.endpoint):
            return None  # the data of another context was dropped when it was left
        return None if former._replace(name=caller.name) == caller else former.name

    @property
    def tenant(self) -> "TenantRecord | None":
        """The tenant in use, if it is loaded."""
        return self.find(self.tenant_id)

    @property
    def tenant_missing(self) -> bool:
        """Whether the principal has no access to the tenant in use."""
        return bool(self.tenant_id) and self.tenant is None and self.tenants_state == "fresh"

    @property
    def without_tenants(self) -> bool:
        """Whether the principal has no tenant to choose."""
        return not self.tenants and self.tenants_state == "fresh"

    @property
    def recent(self) -> list[str]:
        """Ids of recent tenants, the current one first."""
        return list(dict.fromkeys((self.tenant_id, *self._memory.recent)))

    @property
    def tenant_before(self) -> str:
        """The previous tenant that still exists; else ""."""
        return next((tenant for tenant in self.recent[1:] if self.find(tenant) is not None), "")

    @property
    def who(self) -> str:
        """The e-mail or name of the principal; the remembered one until the first response."""
        return self.me.email or self.me.name if self.me is not None else self._memory.who

    @property
    def credential(self) -> "CallerCredential | None":
        """The credential of the principal; None until it is loaded."""
        return self.me.credential if self.me is not None else None

    @property
    def keyed(self) -> bool:
        """Whether an API key is in use, without an interactive session.

        Some keys cannot load the identity, as they cannot list tenants. The config then decides.
        """
        return self.credential.kind == "api_key" if self.credential is not None else self.key_first

    @property
    def scopes(self) -> tuple[str, ...]:
        """Scopes of the API key in use; empty without one."""
        return tuple(self.credential.scopes or ()) if self.credential is not None and self.keyed else ()

    @property
    def key_first(self) -> bool:
        """Whether the context has an API key, which requests use instead of a session."""
        return self.connection.context.credentials.kinds[:1] == ("api_key",)

    @property
    def organizations(self) -> "Sequence[Organization]":
        """The principal's organizations, with the role in each."""
        return self.me.organizations if self.me is not None else ()

    @property
    def creatable(self) -> "list[Organization]":
        """The organizations in which the principal may create tenants."""
        return [organization for organization in self.organizations if organization.role in MAY_CREATE]

    def find(self, tenant_id: str) -> "TenantRecord | None":
        """Return a loaded tenant by id."""
        return next((tenant for tenant in self.tenants if tenant.id == tenant_id), None)

    def name_of(self, tenant_id: str) -> str:
        """Return the name of a tenant, or its id if it is not loaded."""
        tenant = self.find(tenant_id)
        return tenant.display_name if tenant is not None else tenant_id

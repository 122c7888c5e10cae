"""State of the screens: context, tenant, identity, and loaded, stale or failed data. The only owner of the client.

It does not depend on screens. `changed` is called with a topic: `link`, `identity`, `tenants`, `tenant`, `operations`,
`applies`, `context`, `contexts`, `refresh` to read all shown lists, `refresh NAME` to read one list, or the name of a
list in loaders.py. `spawn` runs background tasks, one for each name, and reports their errors.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from client import times
from client.api import account
from client.api import tenants as tenant_calls
from client.errors import SESSION_ENDED, Exit, FrostError
from client.operations import REREAD_SECONDS
from client.tables.columns import Record
from client.texts import apply
from tui.state import contexts
from tui.state.apply_tracker import Applies
from tui.state.connection_state import Link
from tui.state.drafts import TagDrafts
from tui.state.event_stream import Following, Spawn, changes
from tui.state.list_store import Collections
from tui.state.loaders import RUNS, lists_of
from tui.state.notices import Severity
from tui.state.preferences import RECENT, State, remembered
from tui.state.provisioning import Provisioning
from tui.state.single_flight import SingleFlight

if TYPE_CHECKING:
    from client.connection import Connection
    from client.transport.async_client import AsyncClient
    from client.transport.call import Call, Change, Versioned
    from client.transport.events import Listening, Signal
    from client.transport.exchange import OnReply

T = TypeVar("T")

MAY_CREATE = ("owner", "admin")
CANNOT_START = frozenset({"FILE_REFUSED", "FOLDER_REFUSED", "FOLDER_UNUSABLE"})
"""Local errors that prevent the start of the local platform. No request was sent."""
REFRESH = "refresh"
"""The topic to read all shown lists again; `refresh NAME` is for one list."""


class Caller(NamedTuple):
    """An authenticated principal at an endpoint; `words` is the name to display."""

    context: str
    endpoint: str
    id: str
    credential: str
    words: str


class Workspace:
    """State of the screens for one context at a time."""

    def __init__(
        self,
        connection: "Connection",
        state: State,
        *,
        spawn: Spawn,
        changed: Callable[[str], None],
        notice: Callable[[str, Severity], None],
        tenant_flag: str | None = None,
        read_only: bool = False,
        on_reply: "OnReply | None" = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """`on_reply` is called after each exchange with the platform."""
        self.state = state
        self.environ = environ
        self._spawn, self._changed, self._notice = spawn, changed, notice
        self._tenant_flag = tenant_flag
        self._read_only_flag = read_only
        self._on_reply = on_reply
        self._following = Following(self, spawn, self._signalled, self._follow_failed)
        self._loading = SingleFlight(spawn, "load", self.load)
        self.collections = Collections(self, self._require_session, spawn, self._list_changed)
        """The lists: groups, policies and others."""
        self.applies = Applies(self, spawn, lambda: changed("applies"), self._apply_ended, self._apply_refused)
        """The running applies of default tags."""
        self.provisioning = Provisioning(self, spawn, lambda: changed("operations"), self._provisioned)
        """The tenants being provisioned."""
        self.tag_drafts = TagDrafts(environ, lambda: (self.endpoint, self.who))
        """The unsaved default tags."""
        self._storing = asyncio.Lock()
        """Held while a tenant is stored as the selection of the context."""
        self._caller: Caller | None = None
        self._first_run = not state.hinted
        state.hinted = True
        self._enter(connection)

    def _enter(self, connection: "Connection") -> None:
        """Enter a context: drop the state of the previous one and restore the remembered state of this one."""
        self.collections.drop()
        self.applies.stop()
        self.provisioning.stop()
        self.tag_drafts.leave()
        self._stay = object()
        self.connection = connection
        self.context = connection.context.name
        self.endpoint = contexts.endpoint_text(connection)
        self._client: AsyncClient | None = None
        self._asking: Connection | None = None
        """The connection of the client, with the credential in use."""
        self._memory = self.state.of(self.context, self.endpoint)
        self.link = Link()
        self.me: dict[str, Any] | None = None
        self.tenants: list[dict[str, Any]] = list(self._memory.tenants)
        self.tenants_state: Literal["remembered", "fresh", "failed"] = "remembered"
        self.tenants_error = ""
        self.tenant_id = self._tenant_flag or self.environ.get("FROST_TENANT") or connection.context.tenant or ""
        self.tenant_source = contexts.tenant_source(self._tenant_flag, self.environ, connection)
        if not self.tenant_id and self._memory.recent:
            self.tenant_id = self._memory.recent[0]
        self.read_only = ""
        if self._read_only_flag:
            self.read_only = "frost was started with --read-only"
        elif connection.context.read_only:
            self.read_only = f"the context {self.context} is read-only"

    # State

    @property
    def tenant(self) -> Record | None:
        """The tenant in use, if it is loaded."""
        return self.find(self.tenant_id)

    @property
    def first_run(self) -> bool:
        """Whether this is the first run, with a local platform."""
        return self._first_run and self.endpoint.startswith("unix:") and self.connection.is_local

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
        return str(self.me.get("email") or self.me.get("name") or "") if self.me else self._memory.who

    @property
    def keyed(self) -> bool:
        """Whether an API key is in use, without an interactive session."""
        return bool(self.me) and (self.me or {}).get("credential", {}).get("kind") == "api_key"

    @property
    def scopes(self) -> tuple[str, ...]:
        """Scopes of the API key in use; empty without one."""
        return tuple((self.me or {}).get("credential", {}).get("scopes") or ()) if self.keyed else ()

    @property
    def key_first(self) -> bool:
        """Whether the context has an API key, which requests use instead of a session."""
        return self.connection.context.credentials.kinds[:1] == ("api_key",)

    @property
    def organizations(self) -> Sequence[Mapping[str, Any]]:
        """The principal's organizations, with the role in each."""
        return self.me.get("organizations", ()) if self.me else ()

    @property
    def creatable(self) -> list[Mapping[str, Any]]:
        """The organizations in which the principal may create tenants."""
        return [organization for organization in self.organizations if organization.get("role") in MAY_CREATE]

    def find(self, tenant_id: str) -> Record | None:
        """Return a loaded tenant by id."""
        return next((tenant for tenant in self.tenants if tenant["id"] == tenant_id), None)

    def name_of(self, tenant_id: str) -> str:
        """Return the name of a tenant, or its id if it is not loaded."""
        return str((self.find(tenant_id) or {}).get("displayName", tenant_id))

    # Requests

    async def client(self) -> "AsyncClient":
        """Return the client, created off the event loop on first use: importing httpx takes 70 ms."""
        if self._client is None:
            connection, stay = self.connection, self._stay
            made = await asyncio.to_thread(contexts.open_client, connection, self._on_reply)
            # A config read again has another connection to the same context. Only leaving the context discards the
            # client.
            if self._client is None and stay is self._stay:
                self._client, self._asking = made, connection
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

    async def events(self, tenant_id: str, listening: "Listening") -> "AsyncIterator[Signal]":
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
            self._changed("link")
        return result

    def _require_session(self) -> None:
        """Refuse to read a list while signed out: it would show the sign-in dialog again."""
        if self.link.state == "signed_out":
            raise FrostError(self.link.why, code=SESSION_ENDED, exit_code=Exit.NOT_SIGNED_IN)

    def _note(self, error: FrostError) -> None:
        if error.exit_code is Exit.UNREACHABLE or error.code in CANNOT_START:
            self.link.failed(error.message, times.now(), stopped=contexts.is_stopped(self.connection))
            self._spawn("retry", self._retry)
        elif error.exit_code is Exit.NOT_SIGNED_IN:
            self.link.refused(error.message)
            self._following.stop()
            # Stop background requests: each refusal would show the sign-in dialog again.
            self._loading.stop()
            for name in ("retry", "poll", *self.provisioning.tasks, *self.applies.tasks):
                self._spawn(name, None)
            self.tenants_state, self.tenants_error = "failed", error.message
            self._changed("tenants")
            self.collections.outdate(error)
        elif self.link.state != "up":
            self.link.answered(None)
        self._changed("link")

    async def _retry(self) -> None:
        await asyncio.sleep(self.link.pause)
        self.refresh()

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(REREAD_SECONDS)
            if self.link.state == "up":
                self.refresh(urgent=False)

    def start(self) -> None:
        """Load, and reload periodically."""
        self.refresh()
        self._spawn("poll", self._poll)
        self._spawn("config", self._watch_config)

    async def _watch_config(self) -> None:
        """Follow sign-ins, sign-outs and context changes by other programs."""
        async for _ in changes(self.connection.config.path):
            if self.link.state != "signed_out":  # the sign-in dialog is open, and `r` reads the config
                with suppress(FrostError):  # the file may be incomplete while it is edited
                    await self._look_again()

    def refresh(self, *, urgent: bool = True) -> None:
        """Read all shown data again, even if the connection is lost."""
        self._changed(REFRESH)
        self._loading.request(urgent=urgent)

    def _signalled(self, types: Collection[str]) -> None:
        """Read the lists again that signals affect."""
        lists = lists_of(types)
        if lists is None:
            self.refresh(urgent=False)
        else:
            for name in sorted(lists):
                self._changed(f"{REFRESH} {name}")

    async def want_platform(self) -> None:
        """Let the next request start a platform that was stopped on purpose."""
        await asyncio.to_thread(contexts.want_platform, self.connection)

    async def invalidate_credential(self) -> bool:
        """Read all data again, with the config first: another shell may have signed in as another user.

        Return False if there is still no credential after the end of a session.
        """
        await self.want_platform()
        return await self._look_again()

    async def _look_again(self) -> bool:
        fresh = await asyncio.to_thread(contexts.again, self.connection)
        if self.link.state == "signed_out" and not fresh.context.credentials.kinds:
            return False
        if self.link.state == "signed_out" or fresh.context.api_endpoint != self.endpoint:
            self.arrive(fresh)
            return True
        if self._asking is not None:
            await asyncio.to_thread(self._asking.invalidate_credential)
        self.connection = fresh
        self._changed("contexts")
        if self.link.state == "lost":
            self._loading.stop()  # do not wait for a hanging request
        self.refresh()
        return True

    def _met(self, me: dict[str, Any]) -> None:
        """Set the principal. If another one calls on the same endpoint, drop the loaded data of the former one."""
        self.me = me
        before = self._caller
        now = self._caller = Caller(
            self.context, self.endpoint, str(me.get("id")), str(me.get("credential", {}).get("kind")), self.who
        )
        if before is None or before._replace(words="") == now._replace(words=""):
            return
        if (before.context, before.endpoint) != (now.context, now.endpoint):
            return  # the other context's data was dropped when it was left
        self._following.stop()
        self.collections.drop()
        self.applies.stop()
        self.provisioning.stop()
        self.tag_drafts.leave()
        self.tenants = []
        self._memory.recent.clear()
        self._changed("context")
        self._notice(f"{now.words} calls now in {self.context}, no longer {before.words}", "warning")

    async def load(self) -> None:
        """Read identity and tenants. The old rows are shown until then."""
        try:
            client = await self.client()
            both = asyncio.gather(client.ask(account.me()), client.ask(tenant_calls.list_all(usage=True)))
            me, found = await self._observe(client, both)
        except FrostError as error:
            self.tenants_state, self.tenants_error = "failed", error.message
            self._changed("tenants")
            return
        self._met(me.wire())
        self._take_tenants([tenant.wire() for tenant in found.tenants])
        self._settle_tenant(found.default_tenant_id or "")
        self._memory.who = self.who
        self._changed("identity")
        self.provisioning.noticed(self.tenants)
        self.applies.again()
        if self.tenant_id:
            self.collections.read(RUNS, self.tenant_id, quiet=True)

    def _take_tenants(self, tenants: list[dict[str, Any]]) -> None:
        self.tenants, self.tenants_state, self.tenants_error = tenants, "fresh", ""
        self._memory.tenants = remembered(tenants)
        self._changed("tenants")

    def _settle_tenant(self, default: str) -> None:
        """Use the principal's default tenant if no flag, variable or selection names one."""
        if self.tenant_source == "default":
            self.tenant_id = default
        if self.tenant_id:
            self._memory.recent = self.recent[:RECENT]
            self._following.begin(self.tenant_id)
        self._changed("tenant")

    # Signals

    def _follow_failed(self, error: FrostError) -> None:
        if error.exit_code in (Exit.UNREACHABLE, Exit.NOT_SIGNED_IN):
            self._note(error)

    def _list_changed(self, name: str) -> None:
        """Handle a change of a list. The list of runs may contain an apply of another client."""
        if name == RUNS and (rows := self.collections.rows(RUNS, self.tenant_id)).state == "fresh":
            self.applies.noticed(self.tenant_id, rows.records)
        self._changed(name)

    def _apply_ended(self, tenant_id: str, operation: Mapping[str, Any]) -> None:
        words, wrong = apply.completion_message(operation, self.name_of(tenant_id))
        self._notice(words, "error" if wrong else "information")
        self._changed("applies")
        self.refresh()

    def _apply_refused(self, tenant_id: str, error: FrostError) -> None:
        why = f"{self.name_of(tenant_id)}: your apply could not begin after the other one: {error.message}"
        self._notice(f"{why}\n{error.hint}" if error.hint else why, "error")

    def _provisioned(self, tenant_id: str, operation: Mapping[str, Any]) -> None:
        name = self.name_of(tenant_id)
        if operation.get("status") in ("failed", "cancelled"):
            self._notice(f"{name} could not be provisioned: {operation.get('error') or 'no reason given'}", "error")
        else:
            self._notice(f"{name} is ready", "information")
        self.refresh()

    # Changes

    async def use_tenant(self, tenant_id: str) -> None:
        """Switch to a tenant, also for commands.

        The screens switch before the selection is stored. Of several switches, only the last is stored. After an error,
        choosing the tenant again retries.
        """
        if tenant_id == self.tenant_id and (self.tenant_source != "here" or self.read_only):
            return
        before = self.tenant_id
        self.tenant_id, self.tenant_source = tenant_id, "here" if self.read_only else "storing"
        self._memory.recent = list(dict.fromkeys(old for old in (tenant_id, before, *self._memory.recent) if old))
        del self._memory.recent[RECENT:]
        self._changed("tenant")
        self._following.begin(self.tenant_id)
        if self.read_only:
            self._notice(f"Switched in this program only, nothing is stored: {self.read_only}", "information")
            return
        stay = self._stay
        async with self._storing:
            if (stay, tenant_id) != (self._stay, self.tenant_id):
                return  # a later switch is stored, or another context is in use
            try:
                connection = await asyncio.to_thread(contexts.remember_tenant, self.connection, tenant_id)
            except FrostError:
                if (stay, tenant_id) == (self._stay, self.tenant_id):
                    self.tenant_source = "here"
                    self._changed("tenant")
                raise
            if stay is not self._stay:
                return
            self.connection = connection
        if tenant_id != self.tenant_id:
            return
        self.tenant_source = "context"
        self._changed("contexts")
        overriding = "--tenant" if self._tenant_flag else "FROST_TENANT" if self.environ.get("FROST_TENANT") else ""
        if overriding:
            self._notice(f"Stored; commands with {overriding} set still use that tenant", "warning")

    async def create_tenant(self, organization_id: str, name: str) -> Record:
        """Create a tenant and track its provisioning."""
        made = (await self.ask(tenant_calls.create(organization_id, name))).wire()
        self._take_tenants([*self.tenants, made])
        self.provisioning.noticed(self.tenants)
        self.refresh()
        return made

    async def rename_tenant(self, tenant_id: str, name: str) -> None:
        """Change the display name of a tenant."""
        made = (await self.ask(tenant_calls.rename(tenant_id, name))).wire()
        self._take_tenants([{**old, **made} if old["id"] == tenant_id else old for old in self.tenants])
        self._changed("tenant")

    async def move_to(self, name: str) -> None:
        """Switch to another context, also for commands."""
        self.arrive(await asyncio.to_thread(contexts.use, self.connection, name))

    def arrive(self, connection: "Connection", *, signed_out: str = "") -> None:
        """Enter another context, or the same one with another endpoint or credential."""
        left = self._client
        self._following.stop()
        self._loading.stop()
        self._spawn("retry", None)
        self._tenant_flag = None
        self._enter(connection)
        if left is not None:
            self._spawn("leave", left.aclose)
        if signed_out:
            # Send no requests, which would show the sign-in dialog. The header shows `signed_out`.
            self._spawn("poll", None)
            self.link.refused(signed_out)
            self._memory.who = ""
            self.tenants_state, self.tenants_error = "failed", signed_out
            self._changed("context")
            return
        self._changed("context")
        self.start()

    async def close(self) -> None:
        """Close the client's connections."""
        if self._client is not None:
            await self._client.aclose()

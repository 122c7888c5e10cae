"""State of the screens: context, tenant, identity, and loaded, stale or failed data.

It does not depend on screens: `changed` is called with each change, see tui/state/refresh.py. `spawn` runs background
tasks, one for each name, and reports their errors.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING

from client.errors import Exit, FrostError
from tui.state import contexts
from tui.state.context_state import ContextState, Limits, T
from tui.state.event_stream import EventStreams, Spawn, watch_operation
from tui.state.jobs import RUNS, Applies, Provisioning
from tui.state.list_store import Collections, read_error_text
from tui.state.notices import Severity
from tui.state.preferences import RECENT, State, TenantRecord, remembered
from tui.state.refresh import APPLY, TENANT, ListChanged, ReadAgain, Refresh, Topic, Update

if TYPE_CHECKING:
    from client.connection import Connection
    from client.models.account import Me
    from client.models.default_tags import ApplyOperation
    from client.models.tenants import Operation, Tenant
    from client.transport.async_client import AsyncClient
    from client.transport.call import Call
    from client.transport.exchange import OnReply
    from tui.state.drafts import TagDrafts


class Workspace(ContextState):
    """State of the screens for one context at a time."""

    def __init__(
        self,
        connection: "Connection",
        state: State,
        *,
        spawn: Spawn,
        changed: Callable[[Update], None],
        notice: Callable[[str, Severity], None],
        tenant_flag: str | None = None,
        read_only: bool = False,
        on_reply: "OnReply | None" = None,
        environ: Mapping[str, str] = os.environ,
        limits: Limits | None = None,
    ) -> None:
        super().__init__(state, environ, tenant_flag=tenant_flag, read_only=read_only, on_reply=on_reply, limits=limits)
        self._spawn, self._changed, self._notice = spawn, changed, notice
        self._streams = EventStreams(self._open_stream, spawn, self._stream_failed)
        self._refresh = Refresh(
            self._streams,
            spawn,
            self.load,
            self._read_again,
            lambda: self.link.state == "up",
            seconds=self.limits.reread_seconds,
        )
        self.collections = Collections(
            self, self._require_session, spawn, self._list_changed, newest=self.limits.newest
        )
        """The lists: groups, policies and others."""
        self.applies = Applies(
            self, self._watch_apply, spawn, lambda: changed(Topic.APPLIES), self._apply_ended, self._apply_refused
        )
        """The running applies of default tags."""
        self.provisioning = Provisioning(
            self._watch_provisioning, spawn, lambda: changed(Topic.OPERATIONS), self._provisioned
        )
        """The tenants being provisioned."""
        self._storing = asyncio.Lock()
        """Lock for storing a tenant as the selection of the context."""
        self.enter(connection)

    @cached_property
    def tag_drafts(self) -> "TagDrafts":
        """The unsaved default tags."""
        from tui.state.drafts import TagDrafts

        return TagDrafts(self.environ, lambda: (self.endpoint, self.who))

    def _leave(self) -> None:
        """Drop the data of a context or principal, and close its event streams."""
        self.collections.drop()
        self.applies.stop()
        self.provisioning.stop()
        self._refresh.unfollow()
        self._streams.stop()
        if "tag_drafts" in vars(self):
            self.tag_drafts.leave()

    def enter(self, connection: "Connection") -> "AsyncClient | None":
        """Enter a context: drop the data of the previous one and restore the remembered rows of this one."""
        self._refresh.stop()
        self._leave()
        return super().enter(connection)

    # Connection

    def link_changed(self) -> None:
        self._changed(Topic.LINK)

    def connection_lost(self) -> None:
        self._refresh.retry(self.link.pause)

    def session_refused(self, error: FrostError) -> None:
        # Stop background requests: each refusal would show the sign-in dialog again.
        self._refresh.stop()
        self._streams.stop()
        for name in (*self.provisioning.tasks, *self.applies.tasks):
            self._spawn(name, None)
        self.tenants_state, self.tenants_error = "failed", error.message
        self._changed(Topic.TENANTS)
        self.collections.outdate(error)
        self._changed(Topic.SESSION_ENDED)

    def start(self) -> None:
        """Load, and reload periodically."""
        self.refresh()
        self._refresh.poll()
        self._spawn("config", self._watch_config)

    async def _watch_config(self) -> None:
        """Follow sign-ins, sign-outs and context changes by other programs."""
        async for _ in contexts.config_changes(self.connection.config.path):
            with suppress(FrostError):  # the file may be incomplete while it is edited
                await self._reload_config(retry=False)

    def refresh(self) -> None:
        """Read all shown data again, even if the connection is lost."""
        self._refresh.read_all()

    def _read_again(self, update: Update) -> None:
        """Have the screens read their lists. The tracker of applies needs the list of runs, shown or not."""
        if update == ReadAgain(RUNS):
            self.collections.read(RUNS, self.tenant_id, quiet=True)
        self._changed(update)

    async def invalidate_credential(self) -> bool:
        """Read all data again, with the config first: another shell may have signed in as another user.

        Return False if there is still no credential after the end of a session.
        """
        await self.want_platform()
        return await self._reload_config()

    async def _reload_config(self, *, retry: bool = True) -> bool:
        """Read the config. After the end of a session, use its credential: only a new one, without `retry`."""
        visit = self._visit
        fresh = await asyncio.to_thread(contexts.again, self.connection)
        if visit is not self._visit:
            return True
        credentials = fresh.context.credentials
        # A new secret in the keyring changes only the time of the file.
        is_new = credentials != self.connection.context.credentials or credentials.store == "keyring"
        is_elsewhere = fresh.context.api_endpoint != self.endpoint
        if self.link.state == "signed_out" and not (credentials.kinds and (retry or is_new)):
            if is_elsewhere:
                self.arrive(fresh, signed_out=self.link.why)
            else:
                self.connection = fresh
                self._changed(Topic.CONTEXTS)
            return False
        if self.link.state == "signed_out" or is_elsewhere:
            self.arrive(fresh)
            return True
        if self._client_connection is not None:
            await asyncio.to_thread(self._client_connection.invalidate_credential)
            if visit is not self._visit:
                return True
        self.connection = fresh
        self._changed(Topic.CONTEXTS)
        if self.link.state == "lost":
            self._refresh.cancel_load()  # do not wait for a hanging request
        self.refresh()
        return True

    def _set_principal(self, me: "Me") -> None:
        """Set the principal. If the principal on this endpoint has changed, drop the loaded data."""
        former = self.identify(me)
        if former is None:
            return
        self._leave()
        self.tenants = []
        self._memory.recent.clear()
        self._changed(Topic.PRINCIPAL)
        self._changed(Topic.CONTEXT)
        self._notice(f"{self.context}: signed in as {self.who}, before as {former}", "warning")

    async def load(self) -> None:
        """Read identity and tenants. The old rows are shown until then."""
        from client.api import account, tenants  # after the first frame
        from tui.state.loaders import unless_refused

        try:
            client = await self.client()
            listed = unless_refused(partial(client.ask, tenants.list_all(usage=True)))
            both = asyncio.gather(client.ask(account.me()), listed)
            me, page = await self._observe(client, both)
        except FrostError as error:
            self._tenants_failed(error)
            return
        self._set_principal(me)
        if self._memory.who not in ("", self.who):  # another principal has signed in since the last run
            self.tenants, self._memory.tenants = [], []
            self._memory.recent.clear()
        self._memory.who = self.who
        if isinstance(page, FrostError):
            self._tenants_failed(page)
            self._settle_tenant(me.tenant_id)
        else:
            self._show_tenants(page.tenants)
            self._settle_tenant(page.default_tenant_id or "")
            self.provisioning.noticed(page.tenants)
        self._changed(Topic.IDENTITY)
        self.applies.again()
        if self.tenant_id:
            self.collections.read(RUNS, self.tenant_id, quiet=True)

    def _tenants_failed(self, error: FrostError) -> None:
        """Keep the old rows after a failure. Drop them if the principal may not see them."""
        is_refused = error.exit_code is Exit.NOT_ALLOWED
        if is_refused:
            self.tenants, self._memory.tenants = [], []
        self.tenants_state, self.tenants_error = "refused" if is_refused else "failed", read_error_text(error)
        self._changed(Topic.TENANTS)

    def _show_tenants(self, tenants: Sequence[TenantRecord]) -> None:
        self.tenants, self.tenants_state, self.tenants_error = list(tenants), "fresh", ""
        self._memory.tenants = remembered(tenants)
        self._changed(Topic.TENANTS)

    def _settle_tenant(self, default: str) -> None:
        """Use the principal's default tenant if no flag, variable or selection names one."""
        if self.tenant_source == "default":
            self.tenant_id = default
        if self.tenant_id:
            self._memory.recent = self.recent[:RECENT]
            self._refresh.follow(self.tenant_id)
        self._changed(Topic.TENANT)

    # Tracked operations

    def _watch_apply(self, tenant_id: str, run_id: str) -> "AsyncIterator[ApplyOperation]":
        from client.api import default_tags  # after the first frame

        return watch_operation(self, self._streams, (APPLY,), tenant_id, default_tags.operation(tenant_id, run_id))

    def _watch_provisioning(self, tenant_id: str, operation_id: str) -> "AsyncIterator[Operation]":
        from client.api import tenants  # after the first frame

        return watch_operation(self, self._streams, (TENANT,), tenant_id, tenants.operation(tenant_id, operation_id))

    def _stream_failed(self, error: FrostError) -> None:
        if error.exit_code in (Exit.UNREACHABLE, Exit.NOT_SIGNED_IN):
            self._note(error)

    def _list_changed(self, name: str) -> None:
        """Handle a change of a list. The list of runs may contain an apply of another client."""
        if name == RUNS and (runs := self.collections.get(RUNS, self.tenant_id)).state == "fresh":
            self.applies.noticed(self.tenant_id, runs.records)
        self._changed(ListChanged(name))

    def _apply_ended(self, tenant_id: str, operation: "ApplyOperation") -> None:
        from client.texts import apply  # after the first frame

        message, has_failed = apply.completion_message(operation.wire(), self.name_of(tenant_id))
        self._notice(message, "error" if has_failed else "information")
        self._changed(Topic.APPLIES)
        self.refresh()

    def _apply_refused(self, tenant_id: str, error: FrostError) -> None:
        why = f"{self.name_of(tenant_id)}: your queued apply could not start: {error.message}"
        self._notice(f"{why}\n{error.hint}" if error.hint else why, "error")

    def _provisioned(self, tenant_id: str, operation: "Operation") -> None:
        name = self.name_of(tenant_id)
        if operation.status in ("failed", "cancelled"):
            self._notice(f"{name} could not be provisioned: {operation.error or 'no reason given'}", "error")
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
        self._changed(Topic.TENANT)
        self._refresh.follow(self.tenant_id)
        if self.read_only:
            self._notice(f"Switched only here, not stored: {self.read_only}", "information")
            return
        visit = self._visit
        async with self._storing:
            if (visit, tenant_id) != (self._visit, self.tenant_id):
                return  # a later switch is stored, or another context is in use
            try:
                connection = await asyncio.to_thread(contexts.remember_tenant, self.connection, tenant_id)
            except FrostError:
                if (visit, tenant_id) == (self._visit, self.tenant_id):
                    self.tenant_source = "here"
                    self._changed(Topic.TENANT)
                raise
            if visit is not self._visit:
                return
            self.connection = connection
        if tenant_id != self.tenant_id:
            return
        self.tenant_source = "context"
        self._changed(Topic.CONTEXTS)
        overriding = "--tenant" if self._tenant_flag else "FROST_TENANT" if self.environ.get("FROST_TENANT") else ""
        if overriding:
            self._notice(f"Stored; commands with {overriding} set use the tenant in that variable", "warning")

    async def create_tenant(self, organization_id: str, name: str) -> "Tenant":
        """Create a tenant and track its provisioning."""
        from client.api import tenants

        tenant = await self.ask(tenants.create(organization_id, name))
        self._show_tenants([*self.tenants, tenant])
        self.provisioning.noticed([tenant])
        self.refresh()
        return tenant

    async def rename_tenant(self, tenant_id: str, name: str) -> None:
        """Change the display name of a tenant."""
        from client.api import tenants
        from client.models.tenants import Tenant

        renamed = (await self.ask(tenants.rename(tenant_id, name))).wire()
        former = self.find(tenant_id)
        if former is not None:  # the response is without the quota
            tenant = Tenant.model_validate({**former.wire(), **renamed})
            self._show_tenants([tenant if old is former else old for old in self.tenants])
        self._changed(Topic.TENANT)
        self.refresh()

    async def move_to(self, name: str) -> None:
        """Switch to another context, also for commands."""
        self.arrive(await asyncio.to_thread(contexts.use, self.connection, name))

    async def end_session(self, call: "Call[T]", why: Callable[[T], str]) -> T:
        """Send a call that ends the session, and forget the session, unless another context is in use then."""
        visit = self._visit
        with self.ending_session():
            result = await self.ask(call)
            if visit is self._visit:
                fresh = await asyncio.to_thread(contexts.session_ended, self.connection)
        if visit is self._visit:
            self.arrive(fresh, signed_out=why(result))
        return result

    async def reload_config(self, session_of: str = "") -> None:
        """Read the config again after the user has changed it, and enter the context in use again if it differs.

        `session_of` is the context whose session began or ended, which the config of a keyring does not show.
        """
        visit = self._visit
        fresh = await asyncio.to_thread(contexts.again, self.connection)
        if visit is not self._visit:
            return
        if fresh.context != self.connection.context or session_of == self.context:
            is_ended = fresh.context.session_ended and not fresh.context.credentials.kinds
            self.arrive(fresh, signed_out="you signed out" if is_ended else "")
        else:
            self.connection = fresh
            self._changed(Topic.CONTEXTS)

    def arrive(self, connection: "Connection", *, signed_out: str = "") -> None:
        """Enter another context, or the same one with another endpoint or credential."""
        self._tenant_flag = None
        before = self.context, self.endpoint
        if (former := self.enter(connection)) is not None:
            self._spawn("leave", former.aclose)
        if before != (self.context, self.endpoint):
            self._changed(Topic.PRINCIPAL)
        if signed_out:
            # Send no requests, which would show the sign-in dialog. The header shows `signed_out`.
            self.link.refused(signed_out)
            self._memory.who = ""
            self.tenants_state, self.tenants_error = "failed", signed_out
        self._changed(Topic.CONTEXT)
        if not signed_out:
            self.start()

    async def close(self) -> None:
        """Close all connections."""
        self._streams.stop()
        await super().close()

"""State of the context in use: tenant, identity, tenants, and whether changes are refused."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from client.tables.columns import Record
from tui.state import contexts
from tui.state.preferences import State
from tui.state.requests import ContextRequests

if TYPE_CHECKING:
    from client.connection import Connection
    from client.transport.async_client import AsyncClient
    from client.transport.exchange import OnReply

MAY_CREATE = ("owner", "admin")


class Caller(NamedTuple):
    """An authenticated principal at an endpoint; `name` is for display."""

    context: str
    endpoint: str
    id: str
    credential: str
    name: str


class ContextState(ContextRequests):
    """The loaded or remembered data of one context at a time.

    Args:
        state: The state of earlier runs.
        environ: The environment variables.
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
    ) -> None:
        super().__init__(on_reply)
        self.state, self.environ = state, environ
        self._tenant_flag, self._read_only_flag = tenant_flag, read_only
        self._caller: Caller | None = None
        self._first_run = not state.hinted
        state.hinted = True

    def enter(self, connection: "Connection") -> "AsyncClient | None":
        """Restore the remembered data of a context."""
        former = super().enter(connection)
        self.context = connection.context.name
        self.endpoint = contexts.endpoint_text(connection)
        self._memory = self.state.of(self.context, self.endpoint)
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
        return former

    def identify(self, me: dict[str, Any]) -> str | None:
        """Set the principal. Return the name of the former one if another one called on the same endpoint before."""
        self.me = me
        former = self._caller
        caller = self._caller = Caller(
            self.context, self.endpoint, str(me.get("id")), str(me.get("credential", {}).get("kind")), self.who
        )
        if former is None or (former.context, former.endpoint) != (caller.context, caller.endpoint):
            return None  # the data of another context was dropped when it was left
        return None if former._replace(name=caller.name) == caller else former.name

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

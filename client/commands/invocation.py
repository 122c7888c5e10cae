"""One run of the command line: the flags given, and what they lead to, each found when it is first needed."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from client.commands.output import Output
from client.text import safe

if TYPE_CHECKING:
    from client.config import Config, Context, Selected
    from client.connection import Connection
    from client.core import Call, Change, Exchanged, Link, OnReply, Versioned
    from client.errors import FrostError
    from client.oneshot import OneShot
    from client.tenancy import Selection

Answer = TypeVar("Answer")


class Flags:
    """The global flags as given; None or False when not (contract: Client conventions)."""

    def __init__(self) -> None:
        self.config: str | None = None
        self.debug = False
        self.no_color = False
        self.output: str | None = None
        self.quiet = False
        self.tenant: str | None = None


class Invocation:
    """What a command works with. `words` are the arguments of the program, for what must be known before parsing."""

    def __init__(self, words: list[str]) -> None:
        self.flags = Flags()
        self.config_may_be_missing = False
        """Set by the commands that make the file `--config` names (checklist G05)."""
        self.words = words
        self.changed_tenants: dict[str, str] = {}
        """Ids of the tenants that were changed, each with its name if an answer had it."""
        self.organization: str | None = None
        """`--organization` before the last word of a tenant command."""
        self.parsed = False
        """Whether all words have been parsed; until then some global flags may still be unread."""

    @cached_property
    def config(self) -> "Config":
        """The config file: the one `--config` names, else `$HOME/.cli/config.yaml`; its warnings are said once."""
        from client import config

        explicit = self.flags.config is not None and not self.config_may_be_missing
        loaded = config.load(self.config_path, explicit=explicit)
        for notice in loaded.notices:
            self.talk.warn(notice)
        return loaded

    @cached_property
    def config_path(self) -> str:
        """Where the config file is, or would be."""
        from client.config import default_path

        return self.flags.config if self.flags.config is not None else default_path(os.environ)

    @cached_property
    def selected(self) -> "Selected":
        """The context in use, and why."""
        from client import config

        return config.select(self.config, os.environ)

    @property
    def context(self) -> "Context":
        """The context in use."""
        return self.selected.context

    @property
    def talk(self) -> Output:
        """Where to say something before the config file has been read."""
        return self._output(self.flags.output)

    @cached_property
    def output(self) -> Output:
        """Where the command writes, in the format of `-o`, else of `output_format` (checklist G11, G13)."""
        return self._output(self.flags.output or self.config.output_format)

    def error_output(self) -> Output:
        """Where a failure is printed; `output_format` counts only if the config file was read before."""
        configured = self.config.output_format if "config" in self.__dict__ else None
        return self._output(self.flags.output or configured)

    def read_remaining_flags(self) -> None:
        """Read the global flags behind the word at which parsing stopped, so that its error follows them."""
        if not self.parsed:
            from client.commands.usage import global_flags_in

            for name, value in global_flags_in(self.words).items():
                setattr(self.flags, name, value)

    def _output(self, format: str | None) -> Output:
        return Output(format or "table", quiet=self.flags.quiet, no_color=self.flags.no_color)

    @cached_property
    def connection(self) -> "Connection":
        """The context in use and how its endpoint is reached."""
        return self.connection_to(None)

    def connection_to(self, context: str | None) -> "Connection":
        """The connection of a named context; None is the one in use."""
        from client import connection

        return connection.resolve(self.config, os.environ, context=context)

    @cached_property
    def _driver(self) -> "OneShot":
        return self.driver(self.connection)

    def driver(self, connection: "Link") -> "OneShot":
        """A blocking driver for a connection, which tells under `--debug` what it does (checklist G06)."""
        if connection.endpoint.kind == "unix":
            _load_http_without_ssl()
        from client.oneshot import OneShot

        return OneShot(connection, on_reply=self.on_reply)

    @property
    def on_reply(self) -> "OnReply | None":
        """What is to be called after every exchange: nothing without `--debug`."""
        return self._tell if self.flags.debug else None

    def call(self, call: "Call") -> Any:
        """Send a request of the context in use; the answer's JSON document."""
        return self.change(call).record

    def change(self, call: "Call") -> "Change":
        """Send a write of the context in use; its record, and whether there was anything to change."""
        made = self._driven(lambda driver: driver.change(call))
        if call.changes and made.changed:
            self._remember_tenant(call.request.path, made.record)
        return made

    def _remember_tenant(self, path: str, record: Any) -> None:
        found = record if isinstance(record, dict) else {}
        if path.startswith("/v1/organizations/") and "displayName" in found:  # the answer to a new tenant
            path = f"/v1/tenants/{found['id']}"
        if path.startswith("/v1/tenants/"):
            tenant_id = path.split("/")[3]
            name = str(found.get("tenantName") or found.get("displayName") or "")
            self.changed_tenants[tenant_id] = name or self.changed_tenants.get(tenant_id, "")

    def name_changed_tenants(self, *, look_up: bool = True) -> None:
        """Print which tenants were changed, by id alone if a name cannot be read.

        Args:
            look_up: Ask the platform for a name that is not known. A command that failed or was interrupted does not,
                and prints nothing beside its error in JSON.
        """
        if not self.changed_tenants or self.output.quiet or (not look_up and self.output.format == "json"):
            return
        from client.api import tenants
        from client.errors import FrostError

        for tenant_id, name in self.changed_tenants.items():
            with suppress(FrostError, LookupError):  # the change is made: an unreadable name must not fail the command
                if look_up and not name:
                    name = str(self._driver.call(tenants.get(tenant_id))["displayName"])
            self.output.note(f"tenant: {name} ({tenant_id})" if name else f"tenant: {tenant_id}")

    def _driven(self, ask: Callable[["OneShot"], Answer]) -> Answer:
        from client.errors import FrostError

        try:
            answer = ask(self._driver)
        except FrostError as error:
            if error.code == "SESSION_REQUIRED":
                self.point_to_person(error)
            elif error.code == "AUTHENTICATION_REQUIRED":
                self._name_key(error)
            raise
        self.tell_notices(self.connection)
        return answer

    def point_to_person(self, error: "FrostError") -> None:
        """Have a refusal that only a person gets past say how to sign in, where an API key would go before that."""
        if self.connection.credential().kind == "api_key":
            error.hint = (
                f"context {safe(self.connection.context.name, 60)} uses an API key; sign in as a person in another"
                f" one: frost login --context NAME --endpoint {safe(self.connection.endpoint, 200)}"
            )

    def _name_key(self, error: "FrostError") -> None:
        """Have the refusal of an API key say so: signing in helps nobody, the key goes before the session."""
        if self.connection.credential().kind == "api_key":
            error.message = (
                f"the platform does not take the API key of context {safe(self.connection.context.name, 60)}:"
                " it is revoked, expired or deleted, or the account that made it is"
            )
            error.hint = (
                "store another one: frost config set api_key -, or take another context: frost config get-contexts"
            )

    def call_for_tenant(self, calls: Callable[[str], "Call"]) -> Any:
        """Send a request about the selected tenant."""
        return self._about_tenant(lambda tenant_id: self.call(calls(tenant_id)))

    def change_for_tenant(self, calls: Callable[[str], "Call"]) -> "Change":
        """Send a write about the selected tenant."""
        return self._about_tenant(lambda tenant_id: self.change(calls(tenant_id)))

    def versioned_for_tenant(self, calls: Callable[[str], "Call"]) -> "Versioned":
        """Ask for a record of the selected tenant, and for the version that a write is made from."""
        return self._about_tenant(lambda tenant_id: self._driven(lambda driver: driver.versioned(calls(tenant_id))))

    def _about_tenant(self, ask: Callable[[str], Answer]) -> Answer:
        """When the tenant is out of reach, the hint says what chose it: it is never exchanged silently (checklist
        G29, T30)."""
        from client import tenancy
        from client.errors import Exit, FrostError

        try:
            selection = self.tenant
        except FrostError as error:
            if error.code == "NO_TENANT" and not self._may_use_any():
                error.hint = tenancy.NO_TENANTS
            raise
        try:
            return ask(selection.tenant_id)
        except FrostError as error:
            if error.code == "TENANT_ACCESS_DENIED" or error.exit_code == Exit.NOT_FOUND:
                advice = "" if self._may_use_any() else tenancy.NO_TENANTS
                if self.connection.credential().kind == "api_key":
                    advice = "an API key is bound to one tenant; to use others sign in as a person: frost login"
                error.hint = tenancy.way_out(selection, self.connection.context.name, self.config_path, advice)
            raise

    def _may_use_any(self) -> bool:
        """Whether there is a tenant to choose; what cannot be found out is not denied."""
        from client.api import tenants
        from client.errors import FrostError

        try:
            return bool(self.call(tenants.list_all())["tenants"])
        except FrostError:
            return True

    def tell_notices(self, connection: "Connection") -> None:
        """Say what came up on the way: where a session was kept, for one."""
        while connection.notices:
            self.output.warn(connection.notices.pop(0))

    def _tell(self, exchanged: "Exchanged") -> None:
        self.talk.debug(exchanged.line())

    @cached_property
    def me(self) -> dict[str, Any]:
        """Who calls, asked once."""
        from client.api import account

        found: dict[str, Any] = self.call(account.me())
        return found

    @cached_property
    def tenant(self) -> "Selection":
        """The tenant to operate on and why (contract: Client conventions; checklist G20 to G27)."""
        from client import tenancy

        return tenancy.resolve(
            self.flags.tenant, os.environ, self.connection.context, lambda: self.me["tenantId"], self.config_path
        )


def _load_http_without_ssl() -> None:
    """http.client imports ssl for a class that the driver does not use: 7 ms, a twelfth of a whole command.

    Only here, in a command's own process, may http.client be without it; whoever needs ssl itself still gets it.
    """
    if "http.client" in sys.modules or "ssl" in sys.modules:
        return
    sys.modules["ssl"] = None  # type: ignore[assignment]  # the documented way to make an import fail
    try:
        import http.client  # noqa: F401
    finally:
        del sys.modules["ssl"]

"""A run of the command line: its flags, and the configuration, connection and tenant, each loaded on first use."""

import os
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from client.commands.output import Output, release_streams
from client.paths import has_home
from client.text import safe

if TYPE_CHECKING:
    from client.commands.command_line_arguments import CommandLineArgument
    from client.config.reader import Config, Context, Selected
    from client.connection import Connection
    from client.errors import FrostError
    from client.operations import Intervals
    from client.tenancy import Selection
    from client.transport.blocking_client import BlockingClient
    from client.transport.call import Call, Change, ConnectionProtocol, Versioned
    from client.transport.exchange import OnReply, RequestLogEntry
    from client.transport.pages import PageLimits, PageTrail

Answer = TypeVar("Answer")


class Flags:
    """The global flags; None or False if not set."""

    def __init__(self) -> None:
        self.config: str | None = None
        self.debug = False
        self.no_color = False
        self.output: str | None = None
        self.quiet = False
        self.tenant: str | None = None


class Invocation:
    """The context of a command.

    Args:
        arguments: Those of the program, for use before parsing has finished. The list is copied.
        intervals: Intervals of a wait for an operation; None for the defaults.
        page_limits: Numbers of pages of a list; None for the defaults.
    """

    def __init__(
        self, arguments: list[str], intervals: "Intervals | None" = None, page_limits: "PageLimits | None" = None
    ) -> None:
        self.intervals = intervals
        self.page_limits = page_limits
        self.flags = Flags()
        self.config_may_be_missing = False
        """Set by commands that create the file of `--config`."""
        self.arguments = list(arguments)  # the parser takes words from the list that it gets
        self.command_line_arguments: list[CommandLineArgument] = []
        """The parameters on the command line, in the order of their words."""
        self.command_path = "frost"
        """The words of the command, `frost tenant list`, once it runs."""
        self.changed_tenants: dict[str, str] = {}
        """Names of the changed tenants by id; empty if no response had the name."""
        self.organization: str | None = None
        """Value of `--organization` before the last word of a tenant command."""
        self.organization_values: dict[str, str] = {}
        """Values of `--organization` by the id of the organization."""
        self.parsed = False
        """Whether all words have been parsed. Until then, some global flags may be unread."""

    @cached_property
    def config(self) -> "Config":
        """The config file of `--config`, by default `$HOME/.cli/config.yaml`. Its warnings are printed once."""
        from client.config import reader as config

        explicit = self.flags.config is not None and not self.config_may_be_missing
        loaded = config.load(self.config_path, explicit=explicit)
        for notice in loaded.notices:
            self.talk.warn(notice)
        return loaded

    @cached_property
    def config_path(self) -> str:
        """Path of the config file, which may be missing."""
        from client.config.reader import default_path

        return self.flags.config if self.flags.config is not None else default_path(os.environ)

    @cached_property
    def selected(self) -> "Selected":
        """The context in use, and why."""
        from client.config import reader as config

        return config.select(self.config, os.environ)

    @property
    def context(self) -> "Context":
        """The context in use."""
        return self.selected.context

    @property
    def talk(self) -> Output:
        """Output for messages before the config file is loaded."""
        return self._output(self.flags.output)

    @cached_property
    def output(self) -> Output:
        """Output of the command in the format of `-o`, by default of `output_format`."""
        if self.flags.config is None and not has_home():
            return self._output(self.flags.output)  # commands that need no file must not fail for want of one
        return self._output(self.flags.output or self.config.output_format)

    def error_output(self) -> Output:
        """Return the output for an error. `output_format` applies only if the config file has been loaded."""
        configured = self.config.output_format if "config" in self.__dict__ else None
        return self._output(self.flags.output or configured)

    def read_remaining_flags(self) -> None:
        """Read the global flags after the word at which parsing stopped, to apply them to the error."""
        if not self.parsed:
            from client.commands.usage_errors import global_flags_in

            for name, value in global_flags_in(self.arguments).items():
                setattr(self.flags, name, value)

    def _output(self, format: str | None) -> Output:
        return Output(
            format or "table", quiet=self.flags.quiet, no_color=self.flags.no_color, complete=self.complete_commands
        )

    def command_line(self, *, without: Collection[str] = (), added: Sequence[str] = ()) -> str:
        """Return this command line, quoted for a shell, without some parameters and with further words."""
        from client.commands.command_line_arguments import command_line

        return command_line(self.command_path, self.command_line_arguments, without=without, added=added)

    def complete_commands(self, text: str) -> str:
        """Return a message whose commands have the flags of this one that select a file, a tenant and a folder."""
        data_dir = next((one.words[-1] for one in self.command_line_arguments if one.name == "data_dir"), None)
        if self.flags.config is None and self.flags.tenant is None and data_dir is None:
            return text
        from client.texts.command_lines import with_flags

        return with_flags(text, config=self.flags.config, tenant=self.flags.tenant, data_dir=data_dir)

    @cached_property
    def connection(self) -> "Connection":
        """The context in use, with its endpoint and credential."""
        return self.connection_to(None)

    def connection_to(self, context: str | None) -> "Connection":
        """Return the connection of a named context; None is the context in use."""
        from client import connection

        return connection.resolve(os.environ, config=self.config, context=context)

    @cached_property
    def _driver(self) -> "BlockingClient":
        return self.driver(self.connection)

    def driver(self, connection: "ConnectionProtocol") -> "BlockingClient":
        """Return a blocking driver for a connection. With `--debug` it logs every exchange."""
        if connection.endpoint.kind == "unix":
            _load_http_without_ssl()
        from client.transport.blocking_client import BlockingClient

        return BlockingClient(connection, on_reply=self.on_reply)

    @property
    def on_reply(self) -> "OnReply | None":
        """Callback for every exchange; None without `--debug`."""
        return self._log_exchange if self.flags.debug else None

    def call(self, call: "Call[object]") -> Any:
        """Send a request in the context in use and return the JSON document of the response."""
        return self.change(call).record

    def change(self, call: "Call[object]") -> "Change[Any]":
        """Send a write in the context in use. Return its record, and whether it changed anything."""
        from client.errors import FrostError

        try:
            change = self._send(lambda driver: driver.change_json(call))
        except FrostError as error:
            self._name_organization(error, call.request.path)
            raise
        if call.changes and change.changed:
            self._remember_tenant(call.request.path, change.record)
        return change

    def _name_organization(self, error: "FrostError", path: str) -> None:
        """Name the value of `--organization` in an error about that organization."""
        given = self.organization_values.get(path.removeprefix("/v1/organizations/").partition("/")[0])
        if (
            given is not None
            and error.status in (403, 404)
            and error.code not in ("PATH_NOT_ROUTED", "ROUTE_NOT_FOUND")
        ):
            error.message = f"--organization {safe(given, 130)}: {error.message}"

    def _remember_tenant(self, path: str, record: Any) -> None:
        members = record if isinstance(record, dict) else {}
        if path.startswith("/v1/organizations/") and "displayName" in members:  # response of tenant creation
            path = f"/v1/tenants/{members['id']}"
        if path.startswith("/v1/tenants/"):
            tenant_id = path.split("/")[3]
            name = str(members.get("tenantName") or members.get("displayName") or "")
            self.changed_tenants[tenant_id] = name or self.changed_tenants.get(tenant_id, "")

    def name_changed_tenants(self, *, look_up: bool = True) -> None:
        """Print the changed tenants; one without a readable name by id only.

        Args:
            look_up: Request unknown names from the platform. False after an error or an interruption, when JSON output
                has only the error.
        """
        if not self.changed_tenants or self.output.quiet or (not look_up and self.output.format == "json"):
            return
        from client.api import tenants
        from client.errors import FrostError

        for tenant_id, name in self.changed_tenants.items():
            with suppress(FrostError, LookupError):  # the change succeeded: a missing name must not fail the command
                if look_up and not name:
                    name = str(self._driver.ask_json(tenants.get(tenant_id))["displayName"])
            self.output.note(f"tenant: {name} ({tenant_id})" if name else f"tenant: {tenant_id}")

    def tenant_text(self, tenant_id: str) -> str:
        """Return the name and id of a tenant; only the id if the name cannot be read, and empty without an id."""
        from client.api import tenants
        from client.errors import FrostError

        if tenant_id:
            with suppress(FrostError, LookupError):
                return f"{self._driver.ask_json(tenants.get(tenant_id))['displayName']} · {tenant_id}"
        return tenant_id

    def _send(self, ask: Callable[["BlockingClient"], Answer]) -> Answer:
        from client.errors import FrostError

        try:
            answer = ask(self._driver)
        except FrostError as error:
            if error.code == "SESSION_REQUIRED":
                self.point_to_person(error)
            elif error.code == "AUTHENTICATION_REQUIRED":
                self._name_key(error)
            raise
        self.show_notices(self.connection)
        return answer

    def point_to_person(self, error: "FrostError") -> None:
        """Explain in an error's hint how to sign in, if the context uses an API key."""
        if self.connection.credential().kind == "api_key":
            error.hint = (
                f"context {safe(self.connection.context.name, 60)} uses an API key; use an interactive login in"
                f" another context: frost login --context NAME --endpoint {safe(self.connection.endpoint, 200)}"
            )

    def _name_key(self, error: "FrostError") -> None:
        """Report a refused API key: signing in would not help, since a key has precedence over a session."""
        if self.connection.credential().kind == "api_key":
            error.message = (
                f"the platform rejects the API key of context {safe(self.connection.context.name, 60)}:"
                " it or the account that created it is revoked, expired or deleted"
            )
            error.hint = (
                "store another one: frost config set api_key -, or use another context: frost config get-contexts"
            )

    def call_for_tenant(self, calls: Callable[[str], "Call[object]"]) -> Any:
        """Send a request about the selected tenant."""
        return self._send_for_tenant(lambda tenant_id: self.call(calls(tenant_id)))

    def pages_for_tenant(
        self, page: Callable[[str, str], "Call[object]"], cursor: str = ""
    ) -> Iterator[tuple[list[dict[str, Any]], str]]:
        """Yield the records of each page of a list of the selected tenant, and the cursor of the next page.

        Args:
            page: Returns the request of a page for a tenant id and a cursor; "" is the first page.
            cursor: The cursor of the page to start with.

        Raises:
            FrostError: A request fails, or the list does not end (`PageTrail.advance`).
        """
        from client.transport.pages import next_cursor

        def at(cursor: str) -> "Callable[[str], Call[object]]":
            return lambda tenant_id: page(tenant_id, cursor)

        trail = self.page_trail(cursor)
        while trail.cursor is not None:
            document = self.call_for_tenant(at(trail.cursor))
            member = at(trail.cursor)(self.tenant.tenant_id).member
            yield document[member], next_cursor(document)
            trail.advance(document, member)

    def page_trail(self, cursor: str = "") -> "PageTrail":
        """Return the position in a list, which warns of a long one."""
        from client.transport.pages import PageLimits, PageTrail

        return PageTrail(cursor, self.page_limits or PageLimits(), lambda notice: self.talk.warn(notice))

    def change_for_tenant(self, calls: Callable[[str], "Call[object]"]) -> "Change[Any]":
        """Send a write about the selected tenant."""
        return self._send_for_tenant(lambda tenant_id: self.change(calls(tenant_id)))

    def versioned_for_tenant(self, calls: Callable[[str], "Call[object]"]) -> "Versioned[Any]":
        """Request a record of the selected tenant, with its version for a conditional write."""
        return self._send_for_tenant(
            lambda tenant_id: self._send(lambda driver: driver.versioned_json(calls(tenant_id)))
        )

    def _send_for_tenant(self, ask: Callable[[str], Answer]) -> Answer:
        """Send a request for the selected tenant. If that tenant is unavailable, the hint names the selection's source.

        The command never switches to another tenant automatically.
        """
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
                    advice = "an API key belongs to one tenant; to use others: frost login"
                error.hint = tenancy.way_out(selection, self.connection.context.name, self.config_path, advice)
            raise

    def _may_use_any(self) -> bool:
        """Return whether the caller has access to any tenant; True if the request fails."""
        from client.api import tenants
        from client.errors import FrostError

        try:
            return bool(self.call(tenants.list_all())["tenants"])
        except FrostError:
            return True

    def check_time_zone(self, text: str) -> None:
        """Warn if an argument is a date, which is in local time, and `TZ` is unknown."""
        from client.time_zone import unknown_zone_notice
        from client.times import is_date

        if is_date(text) and (notice := unknown_zone_notice()):
            self.talk.warn(notice)

    def show_notices(self, connection: "Connection") -> None:
        """Print a connection's notices as warnings and clear them."""
        while connection.notices:
            self.output.warn(connection.notices.pop(0))

    def _log_exchange(self, entry: "RequestLogEntry") -> None:
        from client.errors import FrostError

        try:
            self.talk.debug(entry.line())
        except (FrostError, BrokenPipeError):  # must not lose the response, which may have a secret
            release_streams()

    @cached_property
    def me(self) -> dict[str, Any]:
        """The authenticated principal, loaded once."""
        from client.api import account

        principal: dict[str, Any] = self.call(account.me())
        return principal

    @cached_property
    def tenant(self) -> "Selection":
        """The tenant to operate on, and its source."""
        from client import tenancy

        return tenancy.resolve(
            self.flags.tenant,
            os.environ,
            self.connection.context,
            lambda: str(self.me.get("tenantId") or ""),
            self.config_path,
        )


def _load_http_without_ssl() -> None:
    """Import http.client without ssl, for a class that the driver does not use: saves 7 ms, a twelfth of a command.

    Only for the process of a single command. Other modules can still import ssl.
    """
    # An import of ssl in another thread would fail.
    if "http.client" in sys.modules or "ssl" in sys.modules or threading.active_count() > 1:
        return
    sys.modules["ssl"] = None  # type: ignore[assignment]  # the documented way to make an import fail
    try:
        import http.client  # noqa: F401
    finally:
        del sys.modules["ssl"]

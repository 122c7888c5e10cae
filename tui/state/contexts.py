"""Operations on contexts and other blocking functions of the client. Call them in a thread.

Heavy modules are imported inside functions, after the first frame.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from client.errors import Exit, FrostError, usage
from client.tables.columns import Record
from client.text import safe

if TYPE_CHECKING:
    from client.connection import Connection
    from client.transport.async_client import AsyncClient
    from client.transport.exchange import OnReply


LOOK_SECONDS = 2.0
"""Interval between two `stat` calls on the configuration file."""


@dataclass(frozen=True)
class ContextSummary:
    """A context of the config file, without its credentials."""

    name: str
    api_endpoint: str
    credential: str
    """The kind of credential that requests use: `api_key`, `session` or another; `none` without one."""
    tenant: str
    region: str
    read_only: bool
    session_ended: bool
    in_use: bool

    @property
    def is_local(self) -> bool:
        """Whether the platform is on this machine."""
        return self.api_endpoint.startswith("unix:")

    def wire(self) -> Record:
        """Return the record of `client.tables.columns.CONTEXT`, with extra members such as `local` and `inUse`."""
        return {
            "name": self.name,
            "api_endpoint": self.api_endpoint,
            "credential": self.credential,
            "tenant": self.tenant,
            "region": self.region,
            "read_only": self.read_only,
            "local": self.is_local,
            "ended": self.session_ended,
            "inUse": self.in_use,
        }


class Caller(NamedTuple):
    """An authenticated principal at an endpoint; `name` is for display."""

    context: str
    endpoint: str
    id: str
    credential: str
    name: str


class RunningAction(NamedTuple):
    """An action of the user, and the context in which it began."""

    title: str
    context: str
    endpoint: str


CONTEXT_CHANGED = "CONTEXT_CHANGED"
"""Code of the error of an action that began in another context."""
_running_action: ContextVar[RunningAction | None] = ContextVar("running_action", default=None)
"""The action of the current task; None in background tasks."""


def begin_action(title: str, connection: "Connection") -> RunningAction:
    """Bind an action to the context in use."""
    return RunningAction(title, connection.context.name, endpoint_text(connection))


def current_action() -> RunningAction | None:
    """Return the action of the current task. A dialog keeps it, as its keys are handled in another task."""
    return _running_action.get()


async def run_as(action: RunningAction | None, work: Callable[[], Awaitable[None]]) -> None:
    """Run the work of a task as part of an action, or in the background: None."""
    _running_action.set(action)
    await work()


def require_same_context(connection: "Connection") -> None:
    """Require that the running action, if there is one, began in this context: the user chose it for that one.

    Raises:
        FrostError: Another context is in use (exit 6).
    """
    action = _running_action.get()
    if action is not None and action != begin_action(action.title, connection):
        message = f"the context changed: {action.title} was not continued"
        raise FrostError(message, code=CONTEXT_CHANGED, exit_code=Exit.CONFLICT)


def open_client(connection: "Connection", on_reply: "OnReply | None" = None) -> "AsyncClient":
    """Return the asynchronous client. Its imports take longer than a frame."""
    from client.transport.async_client import AsyncClient

    # Start a stopped platform now, as the user opens the client, but not after a later stop.
    want_platform(connection)
    connection.respects_stop = True
    return AsyncClient(connection, on_reply=on_reply)


def want_platform(connection: "Connection") -> None:
    """Let the next request start a platform that was stopped on purpose."""
    from client.platform import control as local

    if connection.is_local:
        local.forget_stop(connection.environ)


def is_stopped(connection: "Connection") -> bool:
    """Return whether the context's platform was stopped on purpose and not started since."""
    from client.platform import control as local

    return connection.is_local and local.was_stopped(connection.environ)


def endpoint_text(connection: "Connection") -> str:
    """Return the endpoint from the config."""
    return connection.context.api_endpoint


def homely(endpoint: str, environ: Mapping[str, str]) -> str:
    """Return an endpoint for display, with `~` for the home directory in the path of a socket."""
    home = environ.get("HOME", "").rstrip("/")
    if home and endpoint.startswith(f"unix:{home}/"):
        return f"unix:~{endpoint.removeprefix(f'unix:{home}')}"
    return endpoint


def tenant_source(flag: str | None, environ: Mapping[str, str], connection: "Connection") -> str:
    """Return the source of the tenant: `flag`, `variable`, `context` or `default`."""
    if flag:
        return "flag"
    if environ.get("FROST_TENANT"):
        return "variable"
    return "context" if connection.context.tenant else "default"


def summaries(connection: "Connection") -> list[ContextSummary]:
    """Return all contexts in the order of the config file."""
    return [
        ContextSummary(
            name=context.name,
            api_endpoint=context.api_endpoint,
            credential=context.credentials.kinds[0] if context.credentials.kinds else "none",
            tenant=context.tenant,
            region=context.region,
            read_only=context.read_only,
            session_ended=context.session_ended,
            in_use=context.name == connection.context.name,
        )
        for context in connection.config.contexts.values()
    ]


def again(connection: "Connection", name: str | None = None) -> "Connection":
    """Read the config again and return the connection of the same or another context."""
    from client.config.reader import load
    from client.connection import resolve

    former, environ = connection.config, connection.environ
    config = load(former.path, former.explicit, environ)
    return resolve(environ, config=config, context=name or connection.context.name)


def use(connection: "Connection", name: str) -> "Connection":
    """Make a context the current one, also for commands. Return its connection."""
    from client.contexts import choose

    choose(connection.config, name)
    return again(connection, name)


def session_ended(connection: "Connection") -> "Connection":
    """Forget the session, which the platform has ended. Return the new connection."""
    from client.auth.sign_in import clear_ended_session

    clear_ended_session(again(connection))
    return again(connection)


def add(connection: "Connection", name: str, endpoint: str, region: str) -> None:
    """Create a context. Raises a usage error if the name is in use."""
    from client.contexts import add, set_region

    if name in connection.config.contexts:
        raise usage(f"context {safe(name, 80)!r} already exists")
    add(connection.config, name, endpoint)
    if region:
        set_region(connection.config, name, region)


def remove(connection: "Connection", name: str) -> list[str]:
    """Delete a context with its credentials. Return notices for the user."""
    from client.contexts import remove

    return remove(connection.config, name)


def default_endpoint(connection: "Connection") -> str:
    """Return the endpoint of contexts without one."""
    from client.paths import default_endpoint

    return default_endpoint(connection.environ)


def change(connection: "Connection", name: str, endpoint: str, region: str) -> list[str]:
    """Store endpoint and region of a context; an empty endpoint selects the default. Return notices for the user."""
    from client.contexts import drop_endpoint, set_endpoint, set_region

    before = connection.config.contexts[name]
    notices: list[str] = []
    if not endpoint:
        notices = drop_endpoint(connection.config, name, default_endpoint(connection))
    elif endpoint != before.api_endpoint:
        notices = set_endpoint(connection.config, name, endpoint)
    if region != before.region:
        set_region(connection.config, name, region)
    return notices


def remember_tenant(connection: "Connection", tenant_id: str) -> "Connection":
    """Store a tenant as the selection of the context. Return the new connection."""
    from client.tenancy import persist

    persist(connection, tenant_id)
    return again(connection)


def endpoint_problem(text: str) -> str | None:
    """Return why an endpoint is invalid; None if it is valid."""
    from client.transport.endpoint import Endpoint

    try:
        Endpoint.parse(text.strip(), "endpoint")
    except FrostError as error:
        return "; ".join(filter(None, (error.message, error.hint)))
    return None


async def config_changes(path: str, seconds: float = LOOK_SECONDS) -> AsyncIterator[None]:
    """Yield after each change of the configuration file: written, replaced, created or deleted.

    Args:
        seconds: The time between two looks at the file.
    """
    before = await asyncio.to_thread(_stamp, path)
    while True:
        await asyncio.sleep(seconds)
        now = await asyncio.to_thread(_stamp, path)
        if now != before:
            before = now
            yield


def _stamp(path: str) -> tuple[int, ...]:
    try:
        status = os.stat(path)  # noqa: PTH116  (paths in the config are strings)
    except OSError:
        return ()
    return status.st_ino, status.st_mtime_ns, status.st_size

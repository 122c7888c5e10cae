"""What the screens do with contexts and the client's blocking parts. Every function here may block: run it in a thread.

Nothing heavy is imported until it is called; the first frame is on the screen by then.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from client.errors import usage
from client.records import Record
from client.text import safe

if TYPE_CHECKING:
    from client.api.client import Client
    from client.connection import Connection


def open_client(connection: "Connection") -> "Client":
    """The asynchronous client; importing what it stands on takes longer than a frame."""
    import client.http
    import client.models.account
    import client.models.operations
    import client.models.tenants  # noqa: F401  (imported here, off the event loop)
    from client.api.client import Client

    # Opened by somebody who wants to work with it: it is started now, and not behind the back of who stops it later.
    want_platform(connection)
    connection.leaves_stopped = True
    return Client(connection)


def want_platform(connection: "Connection") -> None:
    """Somebody wants this context's platform: the next request starts one that was stopped on purpose."""
    from client import local

    if connection.is_local:
        local.forget_stop(connection.environ)


def is_stopped(connection: "Connection") -> bool:
    """Whether the context's platform was stopped on purpose and nobody has started it since."""
    from client import local

    return connection.is_local and local.was_stopped(connection.environ)


def endpoint_text(connection: "Connection") -> str:
    """The endpoint as it stands in the config."""
    return connection.context.api_endpoint


def homely(endpoint: object, environ: Mapping[str, str]) -> str:
    """An endpoint as it is shown: a socket below the person's home with `~` for it, as a shell writes it."""
    text, home = str(endpoint), environ.get("HOME", "").rstrip("/")
    return f"unix:~{text.removeprefix(f'unix:{home}')}" if home and text.startswith(f"unix:{home}/") else text


def credential_words(kind: str, local: bool = False) -> str:
    """A credential kind as people read it."""
    return {"session": "session", "api_key": "API key"}.get(kind, "signs in by itself" if local else "not signed in")


def tenant_source(flag: str | None, environ: Mapping[str, str], connection: "Connection") -> str:
    """Which of the four places names the tenant (contract: Client conventions)."""
    if flag:
        return "flag"
    if environ.get("FROST_TENANT"):
        return "variable"
    return "context" if connection.context.tenant else "default"


def records(connection: "Connection") -> list[Record]:
    """Every context as a record of `client.records.CONTEXT`, with the members `local` and `inUse` beside it."""
    found: list[Record] = []
    for context in connection.config.contexts.values():
        kinds = context.credentials.kinds
        record: dict[str, Any] = {
            "name": context.name,
            "api_endpoint": context.api_endpoint,
            "credential": kinds[0] if kinds else "none",
            "tenant": context.tenant,
            "region": context.region,
            "read_only": context.read_only,
            "local": context.api_endpoint.startswith("unix:"),
            "ended": context.session_ended,
            "inUse": context.name == connection.context.name,
        }
        found.append(record)
    return found


def again(connection: "Connection", name: str | None = None) -> "Connection":
    """The connection read anew from the file, for the same context or another one."""
    from client.connection import resolve

    return resolve(connection.config.path, connection.environ, context=name or connection.context.name)


def use(connection: "Connection", name: str) -> "Connection":
    """Make a context the current one, here and for commands (contract: config use-context)."""
    from client.contexts import choose

    choose(connection.config, name)
    return again(connection, name)


def session_ended(connection: "Connection") -> "Connection":
    """Forget the session that the platform has just ended; the connection as it is then."""
    from client.login import forget_ended

    forget_ended(again(connection))
    return again(connection)


def add(connection: "Connection", name: str, endpoint: str, region: str) -> None:
    """Make a context; one that is there stays as it is."""
    from client.contexts import add, set_region

    if name in connection.config.contexts:
        raise usage(f"there is a context {safe(name, 80)!r} already")
    add(connection.config, name, endpoint)
    if region:
        set_region(connection.config, name, region)


def remove(connection: "Connection", name: str) -> list[str]:
    """Take a context away with its credentials; notices for the person."""
    from client.contexts import remove

    return remove(connection.config, name)


def default_endpoint(connection: "Connection") -> str:
    """The endpoint of a context that names none."""
    from client.local import default_endpoint

    return default_endpoint(connection.environ)


def change(connection: "Connection", name: str, endpoint: str, region: str) -> list[str]:
    """Store endpoint and region of a context; an empty endpoint is the default one. Returns notices for the person."""
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
    """Make a tenant the stored selection of the context (contract: tenant use); the connection as it is then."""
    from client.tenancy import persist

    persist(connection, tenant_id)
    return again(connection)


def endpoint_problem(text: str) -> str | None:
    """What is wrong with an endpoint being typed; None when it may be stored."""
    from client.endpoint import Endpoint
    from client.errors import FrostError

    try:
        Endpoint.parse(text.strip())
    except FrostError as error:
        return error.message
    return None

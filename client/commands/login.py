"""`frost login`, `logout` and `whoami`."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from client import tenancy
from client.api import account
from client.auth import credential_store
from client.commands.command import Command
from client.commands.completers import context_names
from client.commands.invocation import Invocation
from client.commands.parameters import Option
from client.errors import Exit, FrostError, usage
from client.tables.columns import time_text
from client.text import safe

if TYPE_CHECKING:
    from client.auth.oidc import DeviceCode
    from client.connection import Connection

_SOURCES = {"flag": "--context", "variable": "FROST_CONTEXT", "file": "current_context", "default": "default"}


# --- login -----------------------------------------------------------------------------------------------------------


def _login(
    run: Invocation, device: bool, browser: bool, email: str | None, context: str | None, endpoint: str | None
) -> None:
    if device and browser:
        raise usage("--device and --browser exclude each other (frost login)", "use one of them")
    if endpoint is not None and context is None:
        raise usage("--endpoint needs --context NAME (frost login)", "--context names the new context")
    for flag, value in (("--as", email), ("--context", context), ("--endpoint", endpoint)):
        if value is not None and not value.strip():
            raise usage(f"{flag} requires a value (frost login)")
    connection, begin = _connection(run, context, endpoint)
    replaces_key = "api_key" in connection.context.credentials.kinds
    if replaces_key:
        _confirm_replacing(run, connection.context.name)
    try:
        _sign_in(run, connection, in_browser=browser or not (device or _by_code(connection)), email=email, begin=begin)
    except FrostError as error:
        _point_to_endpoint(error, context, endpoint)
        raise
    if replaces_key:
        connection.notices += credential_store.forget_api_key(connection.config, connection.context.name)
        connection.reload()
        connection.set_credential(None)
    run.show_notices(connection)
    switched = context is not None and context != run.config.current_context
    if context is not None:
        from client import contexts

        contexts.choose(connection.config, context)
    me = run.driver(connection).ask_json(account.me())
    address, name = me.get("email", ""), connection.context.name
    if connection.context.tenant and not _may_use(run, connection, connection.context.tenant):
        run.output.warn(
            f"{address or 'this identity'} may not use the stored tenant of context {name}: {connection.context.tenant}"
        )
    run.output.done(
        f"signed in as {address} (context {name}{', now the current one' if switched else ''})",
        {"id": me["id"], "email": address, "name": me.get("name", ""), "context": name},
    )


def _confirm_replacing(run: Invocation, name: str) -> None:
    """Ask whether to remove the API key of a context, which has precedence over a session.

    Raises:
        FrostError: There is no terminal (exit 2), or the user did not confirm (exit 1).
    """
    from client.commands import output

    quoted = safe(name, 60)
    output.confirm(
        run.talk,
        f"Context {quoted} has an API key, which takes precedence over a session. Remove the key and sign in?",
        refused=f"context {quoted} has an API key, which takes precedence over a session",
        hint='remove it: frost config set api_key "" (with FROST_CONTEXT for another context than the current one),'
        " or sign in to a new context: frost login --context NAME --endpoint URL",
    )


def _may_use(run: Invocation, connection: "Connection", tenant_id: str) -> bool:
    """Return whether the user has access to a tenant; True if the request fails for another reason."""
    from client.api import tenants

    try:
        run.driver(connection).ask_json(tenants.get(tenant_id))
    except FrostError as error:
        return error.code != "TENANT_ACCESS_DENIED" and error.exit_code != Exit.NOT_FOUND
    return True


def _connection(run: Invocation, context: str | None, endpoint: str | None) -> "tuple[Connection, Callable[[], None]]":
    """Return the connection to sign in with, and a function that writes its context if the sign-in succeeds."""
    if context is None or endpoint is None:
        return run.connection_to(context), lambda: None
    from client import connection, contexts

    drafted = contexts.draft(run.config, context, endpoint)
    return (
        connection.resolve(os.environ, config=drafted, context=context),
        lambda: contexts.add(run.config, context, endpoint),
    )


def _point_to_endpoint(error: FrostError, context: str | None, endpoint: str | None) -> None:
    """Replace hints at commands that describe the context in use instead of the context to sign in to."""
    if context is None or not ("frost config show" in error.hint or "frost platform status" in error.hint):
        return
    from shlex import quote

    error.hint = (
        "nothing was stored; check the URL given with --endpoint (it usually ends in /api)"
        if endpoint is not None
        else f"check its endpoint: FROST_CONTEXT={quote(context)} frost config show"
    )


def _sign_in(
    run: Invocation, connection: "Connection", *, in_browser: bool, email: str | None, begin: Callable[[], None]
) -> None:
    from client.auth import sign_in as login

    if in_browser:
        login.sign_in_browser(connection, email=email, open_url=lambda url: _open(run, url), before_store=begin)
    else:
        login.sign_in_device(connection, email=email, on_code=lambda code: _show(run, code), before_store=begin)


def _by_code(connection: "Connection") -> bool:
    """Return whether to use a code: at the local platform, over SSH, and on Linux without a display or browser."""
    if connection.endpoint.kind == "unix":
        return True
    remote = bool(os.environ.get("SSH_CONNECTION"))
    display = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or os.environ.get("BROWSER"))
    return remote or (os.name == "posix" and os.uname().sysname == "Linux" and not display)


def _open(run: Invocation, url: str) -> None:
    import webbrowser

    run.output.say(f"sign in with your browser: {url}")
    webbrowser.open(url)


def _show(run: Invocation, code: "DeviceCode") -> None:
    run.output.say(f"open {code.verification_uri} and enter the code {code.user_code}")


login = Command(
    "login",
    callback=_login,
    params=[
        Option(["--device"], is_flag=True, help="Show a code to enter on any device."),
        Option(["--browser"], is_flag=True, help="Sign in with the browser of this machine."),
        Option(["--as", "email"], metavar="EMAIL", help="Sign in as another user of the local platform."),
        Option(["--context"], metavar="NAME", help="Context to sign in to.", shell_complete=context_names),
        Option(["--endpoint"], metavar="URL", help="Create the context for this endpoint."),
    ],
    help="Sign in with the browser or a device code.\n\n"
    "Without a flag, the browser opens if there is one, else a code is shown. The local platform signs in the owner\n"
    "of its socket without either. With --context, the context becomes the current one; with --endpoint, it is\n"
    "created first.",
    examples=(
        "frost login",
        "frost login --as admin@aurora.example",
        "frost login --context prod --endpoint https://api.example.com/api",
    ),
)


# --- logout ----------------------------------------------------------------------------------------------------------


def _logout(run: Invocation, context: str | None) -> None:
    from client.auth import sign_in as login

    if context == "":
        raise usage("--context requires a value")
    connection = run.connection if context is None else run.connection_to(context)
    ended = login.sign_out(connection)
    run.show_notices(connection)
    name = connection.context.name
    run.output.done(
        f"signed out of context {name}" if ended else f"context {name} was not signed in",
        {"context": name, "signedOut": ended},
    )


logout = Command(
    "logout",
    callback=_logout,
    help="Sign out and end the session.\n\n"
    "End the session of the current context, or of --context, on the platform and remove it here. API keys are kept.",
    params=[
        Option(
            ["--context"],
            metavar="NAME",
            help="Context to sign out of; default: the current one.",
            shell_complete=context_names,
        )
    ],
    examples=("frost logout", "frost logout --context work"),
)


# --- whoami ----------------------------------------------------------------------------------------------------------


def _whoami(run: Invocation) -> None:
    connection = run.connection
    credential = connection.credential()
    me = run.me
    sent = me.get("credential") or {}
    document: dict[str, Any] = {
        "id": me["id"],
        "email": me.get("email", ""),
        "name": me.get("name", ""),
        "credential": {"kind": credential.kind, "source": credential.source, **_public_members(sent)},
        "context": {"name": connection.context.name, "source": connection.context_source},
        "endpoint": str(connection.endpoint),
        "organizations": me.get("organizations", []),
        "tenant": _tenant(run),
    }
    tenant = document["tenant"]
    tenant_text = run.tenant_text(tenant["id"]) if tenant and not run.output.structured else ""
    facts = [
        ("identity", f"{document['name']} <{document['email']}>", document["id"]),
        ("credential", _kind(credential.kind), _why(credential.kind, credential.source, document)),
        ("expires", time_text(sent.get("expiresAt")), str(sent.get("id") or "")),
        ("context", connection.context.name, _SOURCES[connection.context_source]),
        ("endpoint", str(connection.endpoint), connection.context.sources["api_endpoint"]),
        ("tenant", *((tenant_text, tenant["source"]) if tenant else ("", ""))),
    ]
    if sent.get("scopes") is not None:
        facts.append(("scopes", ", ".join(map(str, sent["scopes"])), ""))
    if run.output.wide:
        facts += [
            ("organization", organization["name"], f"{organization['role']} · {organization['id']}")
            for organization in document["organizations"]
        ]
    run.output.facts(document, facts, heads=("FACT", "VALUE", "DETAIL"))


def _public_members(sent: dict[str, Any]) -> dict[str, Any]:
    """Return the public members of a credential, never the secret."""
    return {key: sent[key] for key in ("id", "scopes", "tenantId", "expiresAt") if sent.get(key) is not None}


def _kind(kind: str) -> str:
    return {"api_key": "API key", "session": "session"}.get(kind, kind)


def _why(kind: str, source: str, document: dict[str, Any]) -> str:
    """Explain the choice of the credential: an API key has precedence over a session."""
    where = {"keyring": "the keyring", "file": "the config file"}.get(source, source)
    context = document["context"]["name"]
    reason = "takes precedence over a session" if kind == "api_key" else "the context has no API key"
    return f"of context {context}, in {where}; {reason}"


def _tenant(run: Invocation) -> dict[str, str] | None:
    try:
        selection = run.tenant
    except FrostError as error:
        if error.code == tenancy.STORED_INVALID:
            run.output.warn(error.message)
        elif error.code != "NO_TENANT":
            raise
        return None
    return {"id": selection.tenant_id, "source": selection.source}


whoami = Command(
    "whoami",
    callback=_whoami,
    help="Show the credential in use and its source.\n\n"
    "Also shows the identity, the endpoint, the context and the tenant that commands use.",
    examples=("frost whoami", "frost whoami -o json"),
)

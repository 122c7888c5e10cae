"""Sign in and out: by device code (oidc.py), by browser (browser.py), or automatically on the local platform.

The functions block. Screens call them in a thread and stop them with `cancelled`. See RFC 8628 and RFC 8252.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from client.auth import credential_store, oidc
from client.auth.credential_store import Credential
from client.auth.oidc import DeviceCode, device_codes, poll_for_tokens
from client.errors import Exit, FrostError, usage
from client.text import safe

if TYPE_CHECKING:
    from client.auth.oidc import Connection

BROWSER_SECONDS = 300.0


def sign_in_device(
    connection: Connection,
    *,
    email: str | None = None,
    on_code: Callable[[DeviceCode], None] = lambda code: None,
    cancelled: threading.Event | None = None,
    before_store: Callable[[], None] = lambda: None,
) -> None:
    """Sign in by device code and store the session; may add to `connection.notices`.

    The local platform approves over its socket, without a code for the user.

    Args:
        connection: The context to sign in to.
        email: Another person than the socket's owner; only on the local platform.
        on_code: Shows the code; called in this thread.
        cancelled: Stops the wait when set.
        before_store: Called when the session exists, before it is stored; writes a new context.

    Raises:
        FrostError: Refused or expired (exit 3), cancelled (exit 130), or no response (exit 7).
    """
    session = _by_device(connection, email, on_code, cancelled or threading.Event())
    _finish(connection, session, before_store)


def _by_device(
    connection: Connection, email: str | None, on_code: Callable[[DeviceCode], None], stop: threading.Event
) -> Credential:
    provider = connection.provider()
    own = oidc.is_platforms_own(connection, provider)
    _check_email(email, own)
    if not provider.device_authorization:
        raise FrostError(
            "the identity provider has no device codes", code="SIGN_IN_REFUSED", hint="use: frost login --browser"
        )
    try:
        form = {**provider.common_parameters, "scope": provider.scope, "device": device_name()}
        if not own:
            # RFC 8628 has no `prompt`, but providers support `max_age`, which requires a new authentication. Not 0:
            # oidc-provider reads that as `prompt=login`, which it then drops.
            form["max_age"] = "1"
        answer = oidc.post(connection, provider.device_authorization, form)
        device_code, code = device_codes(answer, connection)
        if own:
            approval = {"user_code": code.user_code, **({"email": email} if email else {})}
            oidc.post(connection, provider.device_authorization.rpartition("/")[0] + "/device/approve", approval)
        else:
            on_code(code)
        tokens = poll_for_tokens(connection, provider, device_code, code, stop, at_once=own)
    except oidc.Refused as error:
        raise _refusal(error, email) from None
    return oidc.session_from(tokens)


def sign_in_browser(
    connection: Connection,
    *,
    email: str | None = None,
    open_url: Callable[[str], None] = lambda url: None,
    cancelled: threading.Event | None = None,
    before_store: Callable[[], None] = lambda: None,
) -> None:
    """Sign in with code and PKCE over a loopback redirect, and store the session.

    A browser cannot open a page behind a unix socket: there, the authorization request goes over the socket, and its
    redirect to the listener.

    Args:
        open_url: Opens the authorization page; called in this thread. For the others see `sign_in_device`.

    Raises:
        FrostError: Refused (exit 3), cancelled (exit 130), or timed out after 5 minutes (exit 7).
    """
    from client.auth.browser import AuthorizationCodeFlow

    provider = connection.provider()
    own = oidc.is_platforms_own(connection, provider)
    _check_email(email, own)
    if not provider.authorization:
        raise FrostError(
            "the identity provider has no sign-in page", code="SIGN_IN_REFUSED", hint="use: frost login --device"
        )
    with AuthorizationCodeFlow(provider, _port(connection.environ)) as attempt:
        url = attempt.url(device=device_name(), login_hint=email or "")
        if own:
            attempt.accept_redirect(oidc.redirect_of(connection, url))
        else:
            open_url(url)
        code = attempt.code(BROWSER_SECONDS, cancelled or threading.Event())
        try:
            tokens = oidc.post(connection, provider.token, attempt.exchange(code))
        except oidc.Refused as error:
            raise _refusal(error, email) from None
        attempt.check_id_token(tokens)
    _finish(connection, oidc.session_from(tokens), before_store)


def _port(environ: Mapping[str, str]) -> int:
    """Return the port of the listener: `FROST_LOGIN_PORT`, or 0 for any free port.

    RFC 8252 (7.3) requires providers to accept any port; some accept only the registered address.
    """
    text = environ.get("FROST_LOGIN_PORT", "")
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 0 < int(text) < 65536):
        raise usage(f"FROST_LOGIN_PORT must be a port, not {safe(text, 60)!r}")
    return int(text)


def sign_in_local(connection: Connection) -> Credential:
    """Sign in as the owner of the local platform on first use, once across processes."""
    from client.auth.session import session_lock

    with session_lock(connection):
        connection.reload()
        credential = credential_store.load(connection.config, connection.context)
        if credential.kind != "none" or connection.context.session_ended:
            return credential
        _store(connection, _by_device(connection, None, lambda code: None, threading.Event()))
        return connection.credential()


def sign_out(connection: Connection) -> bool:
    """End the session on the platform and remove it here; an API key is kept. Return False if there was no session.

    If the platform cannot end the session, it is still removed here, with a notice.
    """
    from client.api.account import end_session
    from client.transport.blocking_client import BlockingClient

    session = credential_store.load_session(connection.config, connection.context)
    if session.kind == "none":
        return False
    connection.set_credential(session)
    try:
        BlockingClient(connection).ask_json(end_session())
    except FrostError as error:
        if error.exit_code != Exit.NOT_SIGNED_IN:
            connection.notices.append(
                f"the platform could not end the session ({error.message}): it is removed here and stays valid there"
                " until it expires"
            )
    _forget(connection, session)
    return True


def clear_ended_session(connection: Connection) -> None:
    """Remove the session that the platform has ended; an API key is kept. Disables automatic sign-in.

    Errors become notices, as the session has ended already.
    """
    try:
        _forget(connection, credential_store.load_session(connection.config, connection.context))
    except FrostError as error:
        connection.notices.append(f"the session has ended, but could not be removed here: {error.message}")


def _forget(connection: Connection, session: Credential) -> None:
    from client.auth.session import session_lock

    with session_lock(connection):
        connection.reload()
        # Ending the session may have refreshed it: revoke the current pair.
        now = credential_store.load_session(connection.config, connection.context)
        connection.notices += credential_store.forget(connection.config, connection.context.name, ended=True)
        connection.reload()
        connection.set_credential(None)
    _revoke(connection, session if now.kind == "none" else now)


def _finish(connection: Connection, session: Credential, before_store: Callable[[], None]) -> None:
    """Store a new session after the platform has accepted it."""
    from client.auth.session import session_lock

    if not oidc.is_platforms_own(connection, connection.provider()):
        _verify_accepted(connection, session)
    with session_lock(connection):
        before_store()
        _store(connection, session)


def _verify_accepted(connection: Connection, session: Credential) -> None:
    """Check that the platform accepts a token of an external provider.

    Raises:
        FrostError: The platform rejects the token (exit 3). Other errors are ignored.
    """
    from client.transport.blocking_client import fetch
    from client.transport.responses import refusal

    path = f"{connection.endpoint.base}/v1/me"
    try:
        reply = fetch(
            connection.endpoint, connection.environ, "GET", path, headers={"Authorization": f"Bearer {session.secret}"}
        )
    except FrostError:
        return
    if reply.status != 401:
        return
    _revoke(connection, session)
    if refusal(reply, path).code == "REAUTHENTICATION_REQUIRED":
        raise FrostError(
            "the identity provider remembered a sign-in from before you ended all your sessions",
            code="SIGN_IN_REFUSED",
            hint="sign out at the identity provider, then: frost login",
            exit_code=Exit.NOT_SIGNED_IN,
        )
    raise FrostError(
        f"{safe(connection.provider().issuer, 200)} has signed you in, but this platform rejects the session",
        code="SIGN_IN_REFUSED",
        hint="you may have no account on this platform; the operator can find the reason in its log",
        exit_code=Exit.NOT_SIGNED_IN,
    )


def _store(connection: Connection, session: Credential) -> None:
    """Store a new session for the context and use it. The caller holds `session_lock`, so no refresh overwrites it."""
    connection.notices += credential_store.save_session(
        connection.config, connection.context.name, session, connection.environ
    )
    connection.reload()
    connection.set_credential(None)


def device_name() -> str:
    """Return the name of this machine, which names the session in lists."""
    import socket

    return "".join(one for one in socket.gethostname() if one.isprintable())[:200] or "unknown"


def _revoke(connection: Connection, session: Credential) -> None:
    """Revoke the refresh token at an external provider; the platform's own issuer has ended it already."""
    try:
        provider = connection.provider()
        if provider.revocation and session.refresh_token and not oidc.is_platforms_own(connection, provider):
            form = {"token": session.refresh_token, "token_type_hint": "refresh_token", "client_id": provider.client_id}
            oidc.revoke(connection, provider.revocation, form)
    except (FrostError, oidc.Refused):
        connection.notices.append("the identity provider could not revoke the session and may still remember you")


def _check_email(email: str | None, own: bool) -> None:
    if email is not None and not own:
        raise usage("--as is only for the local platform; this context uses another one")


def _refusal(error: oidc.Refused, email: str | None) -> FrostError:
    if email is not None and error.code == "access_denied":
        return FrostError(
            f"unknown user {safe(email, 100)!r} on the local platform",
            code="SIGN_IN_REFUSED",
            hint="try owner@aurora.example, or omit --as",
            exit_code=Exit.NOT_SIGNED_IN,
        )
    return oidc.explained(error)

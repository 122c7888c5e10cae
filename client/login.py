"""Signing in and out: by device code (client/device.py), by browser (client/loopback.py), and on this machine unasked.

Everything here blocks; the screens call it in a thread and end it with `cancelled`. Source: design: Identity,
contexts, credentials; checklist N02, N08; hostile C06, H06; RFC 8628, RFC 8252.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from client import credentials, oidc
from client.credentials import Credential
from client.device import DeviceCode, device_codes, polled
from client.errors import Exit, FrostError, usage
from client.text import safe

if TYPE_CHECKING:
    from client.connection import Connection

BROWSER_SECONDS = 300.0


def sign_in_device(
    connection: Connection,
    *,
    email: str | None = None,
    on_code: Callable[[DeviceCode], None] = lambda code: None,
    cancelled: threading.Event | None = None,
    before_keeping: Callable[[], None] = lambda: None,
) -> None:
    """Signs in by device code and keeps the session; where it is kept may add to `connection.notices`.

    The local platform is asked over its socket to approve, so nobody is shown a code there.

    Args:
        connection: The context to sign in to.
        email: Another person than the socket's owner; only on the local platform.
        on_code: Shows the code; called in this thread.
        cancelled: Ends the waiting when it is set.
        before_keeping: Called when the session has begun, before it is kept: writes the context, when it is new.

    Raises:
        FrostError: Refused, expired or cancelled (exit 3, 130), or somebody does not answer (exit 7).
    """
    session = _by_device(connection, email, on_code, cancelled or threading.Event())
    _begin(connection, session, before_keeping)


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
        form = {**provider.asked, "scope": provider.scope, "device": device_name()}
        if not own:
            # There is no `prompt` in RFC 8628, but providers know this: who signs in is asked, not remembered. Not 0:
            # oidc-provider reads that as `prompt=login`, which it then drops.
            form["max_age"] = "1"
        answer = oidc.post(connection, provider.device_authorization, form)
        device_code, code = device_codes(answer, connection)
        if own:
            approval = {"user_code": code.user_code, **({"email": email} if email else {})}
            oidc.post(connection, provider.device_authorization.rpartition("/")[0] + "/device/approve", approval)
        else:
            on_code(code)
        tokens = polled(connection, provider, device_code, code, stop, at_once=own)
    except oidc.Refused as error:
        raise _refused(error, email) from None
    return oidc.session_from(tokens)


def sign_in_browser(
    connection: Connection,
    *,
    email: str | None = None,
    open_url: Callable[[str], None] = lambda url: None,
    cancelled: threading.Event | None = None,
    before_keeping: Callable[[], None] = lambda: None,
) -> None:
    """Signs in with code and PKCE over a loopback redirect, and keeps the session.

    Behind a unix socket there is nothing a browser could open: the authorization is asked for over the socket and
    its redirect is followed to our own listener.

    Args:
        connection: The context to sign in to.
        email: Another person than the socket's owner; only on the local platform.
        open_url: Opens the authorization page; called in this thread.
        cancelled: Ends the waiting when it is set.
        before_keeping: Called when the session has begun, before it is kept: writes the context, when it is new.

    Raises:
        FrostError: Refused, cancelled, or not answered within 5 minutes (exit 3, 130, 7).
    """
    from client.loopback import Attempt

    provider = connection.provider()
    own = oidc.is_platforms_own(connection, provider)
    _check_email(email, own)
    if not provider.authorization:
        raise FrostError(
            "the identity provider has no page to sign in", code="SIGN_IN_REFUSED", hint="use: frost login --device"
        )
    with Attempt(provider, _port(connection.environ)) as attempt:
        url = attempt.url(device=device_name(), login_hint=email or "")
        if own:
            attempt.deliver(oidc.redirect_of(connection, url))
        else:
            open_url(url)
        code = attempt.code(BROWSER_SECONDS, cancelled or threading.Event())
        try:
            tokens = oidc.post(connection, provider.token, attempt.exchange(code))
        except oidc.Refused as error:
            raise _refused(error, email) from None
        attempt.check_id_token(tokens)
    _begin(connection, oidc.session_from(tokens), before_keeping)


def _port(environ: Mapping[str, str]) -> int:
    """Where the browser brings the answer: any free port, unless `FROST_LOGIN_PORT` names one.

    Any port is what RFC 8252 (7.3) asks of a provider; some take none but the very address that was registered.
    """
    text = environ.get("FROST_LOGIN_PORT", "")
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 0 < int(text) < 65536):
        raise usage(f"FROST_LOGIN_PORT must be a port, not {safe(text, 60)!r}")
    return int(text)


def sign_in_unasked(connection: Connection) -> Credential:
    """The first use of the local platform: signs in as its owner, once, however many processes begin at once."""
    from client.refresh import alone

    with alone(connection):
        connection.reload()
        found = credentials.load(connection.config, connection.context)
        if found.kind != "none" or connection.context.session_ended:
            return found
        _keep(connection, _by_device(connection, None, lambda code: None, threading.Event()))
        return connection.credential()


def sign_out(connection: Connection) -> bool:
    """Ends the session on the platform and forgets it here; an API key stays. False when there was no session.

    A platform that cannot be told does not keep the session here alive: it is forgotten all the same, with a notice.
    """
    from client.api.account import end_session
    from client.oneshot import OneShot

    session = credentials.load_session(connection.config, connection.context)
    if session.kind == "none":
        return False
    connection.adopt(session)
    try:
        OneShot(connection).call(end_session())
    except FrostError as error:
        if error.exit_code != Exit.NOT_SIGNED_IN:
            connection.notices.append(
                f"the platform could not end the session ({error.message}): here it is forgotten, there it goes on"
                " until it expires"
            )
    _forget(connection, session)
    return True


def forget_ended(connection: Connection) -> None:
    """Forgets the session that the platform has just ended; an API key stays, and nobody is signed in unasked.

    It has ended already: what could not be written here is a notice, not a failure.
    """
    try:
        _forget(connection, credentials.load_session(connection.config, connection.context))
    except FrostError as error:
        connection.notices.append(f"the session has ended, but could not be forgotten here: {error.message}")


def _forget(connection: Connection, session: Credential) -> None:
    from client.refresh import alone

    with alone(connection):
        connection.reload()
        # Ending it may have renewed it: what is revoked is the pair that counts now.
        now = credentials.load_session(connection.config, connection.context)
        connection.notices += credentials.forget(connection.config, connection.context.name, ended=True)
        connection.reload()
        connection.adopt(None)
    _revoke(connection, session if now.kind == "none" else now)


def _begin(connection: Connection, session: Credential, before_keeping: Callable[[], None]) -> None:
    """Keeps a session that has just begun, once the platform takes it."""
    from client.refresh import alone

    if not oidc.is_platforms_own(connection, connection.provider()):
        _check_taken(connection, session)
    with alone(connection):
        before_keeping()
        _keep(connection, session)


def _check_taken(connection: Connection, session: Credential) -> None:
    """Asks the platform with a token of an outside provider, which it may know nothing to do with.

    Raises:
        FrostError: It does not take it (exit 3). Anything else it says is not about the sign-in.
    """
    from client.answers import refusal
    from client.oneshot import fetch

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
        f"{safe(connection.provider().issuer, 200)} has signed you in, but this platform does not take it",
        code="SIGN_IN_REFUSED",
        hint="you may have no account here; who runs the platform finds the reason in its log",
        exit_code=Exit.NOT_SIGNED_IN,
    )


def _keep(connection: Connection, session: Credential) -> None:
    """Stores a new session for the context and uses it from now on. Alone, so that no refresh writes over it."""
    connection.notices += credentials.save_session(
        connection.config, connection.context.name, session, connection.environ
    )
    connection.reload()
    connection.adopt(None)


def device_name() -> str:
    """What a session is called in the list of sessions: this machine's name."""
    import socket

    return "".join(one for one in socket.gethostname() if one.isprintable())[:200] or "unknown"


def _revoke(connection: Connection, session: Credential) -> None:
    """Tells an outside provider that the refresh token is done with; the platform's own issuer already knows."""
    try:
        provider = connection.provider()
        if provider.revocation and session.refresh_token and not oidc.is_platforms_own(connection, provider):
            form = {"token": session.refresh_token, "token_type_hint": "refresh_token", "client_id": provider.client_id}
            oidc.post(connection, provider.revocation, form)
    except (FrostError, oidc.Refused):
        connection.notices.append("the identity provider could not be told; its own sign-in page may still know you")


def _check_email(email: str | None, own: bool) -> None:
    if email is not None and not own:
        raise usage("--as takes another person of the local platform; this context signs in elsewhere")


def _refused(error: oidc.Refused, email: str | None) -> FrostError:
    if email is not None and error.code == "access_denied":
        return FrostError(
            f"there is no person {safe(email, 100)!r} on the local platform",
            code="SIGN_IN_REFUSED",
            hint="try owner@aurora.example, or leave --as out",
            exit_code=Exit.NOT_SIGNED_IN,
        )
    return oidc.explained(error)

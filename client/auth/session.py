"""Refresh a session with one request to the identity provider, across threads and processes.

A refresh token is valid once; reuse ends the session. So a process holds a lock during the exchange, and a process that
waited for the lock adopts the new pair. The write lock covers only the write, so that a slow provider does not
delay `config set`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from client.auth import credential_store, oidc
from client.auth.credential_store import IN_MEMORY, Credential
from client.config import file
from client.errors import SESSION_ENDED, Exit, FrostError

if TYPE_CHECKING:
    from client.auth.oidc import Connection
    from client.transport.call import Credential as Signing

GRANT_SECONDS = 90.0
RETRY_PAUSE = 0.25


def refresh_session(connection: Connection, used: Signing) -> Credential:
    """Return a session newer than `used`.

    Raises:
        FrostError: With code SESSION_ENDED if the session has ended (exit 3); other errors leave it unchanged.
    """
    with connection.lock:
        current = connection.credential()
        if current.kind != "session" or current.secret != used.secret:
            return current
        with session_lock(connection):
            stored = _stored_session(connection, current)
            fresh = _exchange(connection, current) if stored == current else stored
        connection.set_credential(None if fresh.kind == "none" else fresh)
        return connection.credential()


@contextmanager
def session_lock(connection: Connection) -> Iterator[None]:
    """Prevent other threads and processes from refreshing or signing in with this file.

    The connection's lock is taken first: in the other order, a sign-in and a refresh of one connection could deadlock.
    """
    import os

    with connection.lock:
        real = file.real_path(connection.config.path)
        file.make_folder(os.path.dirname(real))  # noqa: PTH120  (paths are text, see client/config/file.py)
        with file.refreshing(real, seconds=GRANT_SECONDS + 5):
            yield


def _stored_session(connection: Connection, current: Credential) -> Credential:
    """Return the current session: the pair that another process has written, none if it was removed, else `current`.

    Without `expires_in`, all pairs of a provider have the same expiry. Then the stored pair is newer, unless `current`
    could not be saved.
    """
    try:
        connection.reload()
        stored = credential_store.load_session(connection.config, connection.context)
    except FrostError:
        return current  # an unreadable session, or one of another platform, is not newer
    if connection.context.session_ended:
        raise _session_ended(connection)
    newer = stored.expires_at > current.expires_at
    written = current.source != IN_MEMORY and stored.expires_at == current.expires_at
    return stored if stored.kind == "none" or newer or written else current


def _exchange(connection: Connection, current: Credential) -> Credential:
    if not current.refresh_token:
        raise FrostError("the session cannot be refreshed", code="NOT_REFRESHABLE", exit_code=Exit.NOT_SIGNED_IN)
    try:
        tokens = _request_tokens(connection, current.refresh_token)
    except oidc.Refused as error:
        if error.code != "invalid_grant":
            raise oidc.explained(error) from None
        with suppress(FrostError):
            connection.reload()  # do not end a session of another platform
            connection.notices += credential_store.forget(connection.config, connection.context.name, ended=True)
            connection.reload()
        raise _session_ended(connection) from None
    fresh = oidc.session_from(tokens, current)
    try:
        credential_store.replace_session(connection.config, connection.context, fresh)
        connection.reload()
    except FrostError as error:
        connection.notices.append(
            f"the renewed session could not be saved ({error.message}); you may have to sign in again: frost login"
        )
        return fresh._replace(source=IN_MEMORY)
    return fresh


def _request_tokens(connection: Connection, refresh_token: str) -> dict[str, Any]:
    """Send a refresh request, with one retry if the provider is unavailable or unreachable.

    If the response was lost, the token may be used up. The retry has no cost then: the next refresh would send the same
    token, and a provider with a grace period accepts it.
    """
    end = time.monotonic() + GRANT_SECONDS
    provider = connection.provider()
    # Without `scope`, the granted scopes apply, which may be fewer than requested (RFC 6749, 6).
    form = {"grant_type": "refresh_token", "refresh_token": refresh_token, **provider.common_parameters}
    try:
        return oidc.post(connection, provider.token, form)
    except oidc.Refused as error:
        if not (error.code == "temporarily_unavailable" or (not error.code and error.status >= 500)):
            raise
    except FrostError as error:
        if error.exit_code != Exit.UNREACHABLE:
            raise
        if time.monotonic() + RETRY_PAUSE >= end:
            raise
    time.sleep(RETRY_PAUSE)
    return oidc.post(connection, provider.token, form)


def _session_ended(connection: Connection) -> FrostError:
    connection.set_credential(None)
    return FrostError(
        "the session has expired or been revoked",
        code=SESSION_ENDED,
        hint="sign in again: frost login",
        exit_code=Exit.NOT_SIGNED_IN,
    )

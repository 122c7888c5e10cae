"""Refresh a session with one request to the identity provider, across threads and processes.

A refresh token is valid once; reuse ends the session. So a process holds a lock during the exchange, and a process that
waited for the lock adopts the new pair. The write lock is held only for the write, so that a slow provider does not
delay `config set`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from client.auth import credential_store, oidc
from client.auth.credential_store import UNSAVED, Credential
from client.config import file
from client.errors import SESSION_ENDED, Exit, FrostError

if TYPE_CHECKING:
    from client.auth.model import Connection
    from client.transport.request import Credential as Signing

GRANT_SECONDS = 90.0
RETRY_PAUSE = 0.25


def refreshed(connection: Connection, used: Signing) -> Credential:
    """Return a session newer than `used`.

    Raises:
        FrostError: With code SESSION_ENDED if the session has ended (exit 3); other errors leave it unchanged.
    """
    with connection.lock:
        held = connection.credential()
        if held.kind != "session" or held.secret != used.secret:
            return held
        with alone(connection):
            stored = _stored(connection, held)
            fresh = _granted(connection, held) if stored == held else stored
        connection.adopt(None if fresh.kind == "none" else fresh)
        return connection.credential()


@contextmanager
def alone(connection: Connection) -> Iterator[None]:
    """Prevent other threads and processes from refreshing or signing in with this file.

    The connection's lock is taken first: in the other order, a sign-in and a refresh of one connection could deadlock.
    """
    import os

    with connection.lock:
        real = file.real_path(connection.config.path)
        file.make_folder(os.path.dirname(real))  # noqa: PTH120  (paths are text, see client/config/file.py)
        with file.refreshing(real, seconds=GRANT_SECONDS + 5):
            yield


def _stored(connection: Connection, held: Credential) -> Credential:
    """Return the current session: the pair that another process has written, none if it was removed, else `held`.

    Without `expires_in`, all pairs of a provider have the same expiry. Then the stored pair is newer, unless `held`
    could not be saved.
    """
    try:
        connection.reload()
        stored = credential_store.load_session(connection.config, connection.context)
    except FrostError:
        return held  # an unreadable session, or one of another platform, is not newer
    if connection.context.session_ended:
        raise _over(connection)
    newer = stored.expires_at > held.expires_at
    written = held.source != UNSAVED and stored.expires_at == held.expires_at
    return stored if stored.kind == "none" or newer or written else held


def _granted(connection: Connection, held: Credential) -> Credential:
    if not held.refresh_token:
        raise FrostError("the session cannot be refreshed", code="NOT_REFRESHABLE", exit_code=Exit.NOT_SIGNED_IN)
    try:
        tokens = _asked(connection, held.refresh_token)
    except oidc.Refused as error:
        if error.code != "invalid_grant":
            raise oidc.explained(error) from None
        with suppress(FrostError):
            connection.reload()  # do not end a session of another platform
            connection.notices += credential_store.forget(connection.config, connection.context.name, ended=True)
            connection.reload()
        raise _over(connection) from None
    fresh = oidc.session_from(tokens, held)
    try:
        credential_store.replace_session(connection.config, connection.context, fresh)
        connection.reload()
    except FrostError as error:
        connection.notices.append(
            f"the renewed session could not be saved ({error.message}); you may have to sign in again: frost login"
        )
        return fresh._replace(source=UNSAVED)
    return fresh


def _asked(connection: Connection, refresh_token: str) -> dict[str, Any]:
    """Send a refresh request, with one retry if the provider is unavailable or unreachable."""
    end = time.monotonic() + GRANT_SECONDS
    provider = connection.provider()
    # Without `scope`, the granted scopes apply, which may be fewer than requested (RFC 6749, 6).
    form = {"grant_type": "refresh_token", "refresh_token": refresh_token, **provider.asked}
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


def _over(connection: Connection) -> FrostError:
    connection.adopt(None)
    return FrostError(
        "the session has expired or been revoked",
        code=SESSION_ENDED,
        hint="sign in again: frost login",
        exit_code=Exit.NOT_SIGNED_IN,
    )

"""Renewing a session: one request to the identity provider, however many threads and processes ask at once.

A refresh token works once; using it twice ends the session. So a process holds a lock for the whole exchange, and one
that waited adopts the pair that the other one wrote. The lock for writing is taken for the write only, so a slow
provider does not delay `config set`.

Source: platform facts 1.5 (the table of client refresh rules); checklist N08, N09; hostile C08, G06.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from client import config_file, credentials, oidc
from client.credentials import UNSAVED, Credential
from client.errors import SESSION_ENDED, Exit, FrostError

if TYPE_CHECKING:
    from client.connection import Connection
    from client.core import Credential as Signing

GRANT_SECONDS = 90.0
RETRY_PAUSE = 0.25


def refreshed(connection: Connection, used: Signing) -> Credential:
    """A session newer than `used`.

    Raises:
        FrostError: With code SESSION_ENDED when it is over (exit 3); any other one leaves the session as it is.
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
    """Keep other threads and processes from refreshing or signing in with this file.

    Every caller takes the connection's own lock first: in the other order a sign-in and a refresh of one connection
    would wait for each other.
    """
    import os

    with connection.lock:
        real = config_file.real_path(connection.config.path)
        config_file.make_folder(os.path.dirname(real))  # noqa: PTH120  (paths are text, see client/config_file.py)
        with config_file.refreshing(real, seconds=GRANT_SECONDS + 5):
            yield


def _stored(connection: Connection, held: Credential) -> Credential:
    """What counts now: the pair another process wrote meanwhile, none when it was forgotten meanwhile, else `held`.

    A provider that gives no `expires_in` gives every pair the same end: then what was written is newer than what was
    read, unless `held` could not be written.
    """
    try:
        connection.reload()
        stored = credentials.load_session(connection.config, connection.context)
    except FrostError:
        return held  # what cannot be read, or is another platform's now, cannot be newer
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
            connection.reload()  # not what another platform's sign-in has put there since
            connection.notices += credentials.forget(connection.config, connection.context.name, ended=True)
            connection.reload()
        raise _over(connection) from None
    fresh = oidc.session_from(tokens, held)
    try:
        credentials.replace_session(connection.config, connection.context, fresh)
        connection.reload()
    except FrostError as error:
        connection.notices.append(
            f"the renewed session could not be saved ({error.message}); you may have to sign in again: frost login"
        )
        return fresh._replace(source=UNSAVED)
    return fresh


def _asked(connection: Connection, refresh_token: str) -> dict[str, Any]:
    """One grant, tried once more only where the first try cannot have been counted against the session."""
    end = time.monotonic() + GRANT_SECONDS
    provider = connection.provider()
    # Without `scope` it is what the person granted, which may be less than what was asked for (RFC 6749, 6).
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

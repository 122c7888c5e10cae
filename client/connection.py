"""The connection of a context, and clients for programs that use the platform (docs/library.md).

A connection has the endpoint, credential and configuration of a context. It starts the local platform.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from client.auth.credential_store import IN_MEMORY, Credential, context_changed, load
from client.config import reader as files
from client.config.reader import Config, Context
from client.errors import SESSION_ENDED, Exit, FrostError
from client.paths import default_endpoint, is_own
from client.platform.control import OperatorConnection, was_stopped
from client.text import safe
from client.transport.endpoint import Endpoint

if TYPE_CHECKING:
    from client.auth.oidc import Provider
    from client.transport.async_client import AsyncClient
    from client.transport.blocking_client import BlockingClient
    from client.transport.call import Credential as Signing
    from client.transport.exchange import OnReply


def resolve(
    environ: Mapping[str, str] = os.environ,
    *,
    config: Config | None = None,
    path: str | None = None,
    context: str | None = None,
) -> Connection:
    """Return the connection of a context.

    Args:
        environ: The environment, with `HOME`, `FROST_CONTEXT` and `FROST_CREDENTIAL_STORE`.
        config: A loaded configuration; None loads the file.
        path: The path of the file, which must exist; None is the default file, which may be missing.
        context: Name of the context; None selects it by `FROST_CONTEXT`, then by the file.

    Raises:
        FrostError: The file is invalid or missing (exit 2), or the context does not exist (exit 5).
    """
    if config is None:
        chosen = files.default_path(environ) if path is None else path
        config = files.load(chosen, explicit=path is not None, environ=environ)
    selected = files.select(config, environ, context or "")
    return Connection(config, selected.context, selected.source, environ)


class Connection:
    """A context with its credential. Thread-safe.

    Attributes:
        config: The loaded configuration.
        context: The context.
        context_source: The source of its selection: `flag`, `variable`, `file` or `default`.
        environ: The environment.
        notices: Messages for the user, for example where a session was stored. A front end shows and removes them.
        respects_stop: Whether to leave a local platform stopped that was stopped on purpose. Commands start it;
            automatic requests of screens must not.
    """

    def __init__(self, config: Config, context: Context, context_source: str, environ: Mapping[str, str]) -> None:
        self.config = config
        self.context = context
        self.context_source = context_source
        self.environ = environ
        self.notices: list[str] = []
        self.respects_stop = False
        self.lock = threading.RLock()
        self._credential: Credential | None = None
        self._provider: Provider | None = None
        self._passive = False
        self._looked_up = False

    @cached_property
    def endpoint(self) -> Endpoint:
        """Return the endpoint.

        Raises:
            FrostError: Credentials must not be sent to it, or it is the local platform without `HOME` (exit 2).
        """
        return Endpoint.parse(self.context.api_endpoint or default_endpoint(self.environ))

    @property
    def is_local(self) -> bool:
        """Return whether this is the user's local platform, which starts and signs in on demand."""
        return is_own(self.endpoint, self.environ)

    def credential(self) -> Credential:
        """Return the credential, loaded on first use. The local context signs in automatically the first time.

        Raises:
            FrostError: Not signed in, or the keyring is unavailable (exit 3); the endpoint has changed (exit 6).
        """
        with self.lock:
            if self._credential is None:
                if self.is_local and not self._passive:
                    from client.platform.process import ensure_same_version

                    ensure_same_version(self.environ)
                if self._looked_up:
                    self.reload()  # the stored credential may belong to another endpoint now
                self._looked_up = True
                credential = load(self.config, self.context)
                if credential.kind == "none":
                    credential = self._sign_in_automatically()
                self._credential = credential
            return self._credential

    def refresh(self, used: Signing) -> Credential:
        """Return a session newer than `used`, with one request to the provider for all threads and processes.

        Raises:
            FrostError: The refresh failed; with code SESSION_ENDED if the session has ended (exit 3).
        """
        from client.auth.session import refresh_session

        return refresh_session(self, used)

    def start(self) -> bool:
        """Start the local platform if it does not run; return False if this connection must not start it.

        Raises:
            FrostError: The platform was stopped on purpose, and this connection respects that (exit 7).
        """
        if self._passive or not self.is_local:
            return False
        if self.respects_stop and was_stopped(self.environ):
            from client.transport.call import NOT_LISTENING, NoResponse
            from client.transport.responses import connection_error

            raise connection_error(self.endpoint, NoResponse("the platform is not running", 0.0, code=NOT_LISTENING))
        from client.platform.process import ensure_running

        ensure_running(self.environ)
        return True

    def set_credential(self, credential: Credential | None) -> None:
        """Use this credential for the next requests; None loads the stored one again."""
        with self.lock:
            self._credential = credential

    def invalidate_credential(self) -> None:
        """Load the credential again at the next request: another process may have signed in.

        A renewed session that could not be saved is kept, as the stored session is older.
        """
        with self.lock:
            if self._credential is not None and self._credential.source != IN_MEMORY:
                self._credential = None

    def provider(self) -> Provider:
        """Return the identity provider, discovered once."""
        with self.lock:
            if self._provider is None:
                from client.auth.oidc import discover

                self._provider = discover(self)
            return self._provider

    def reload(self) -> None:
        """Read the configuration file again.

        Raises:
            FrostError: The context has another endpoint now, and credentials of another platform (exit 6).
        """
        fresh = files.load(self.config.path, environ=self.environ)
        context = fresh.contexts.get(self.context.name)
        if context is None:
            return
        if context.api_endpoint != self.context.api_endpoint:
            raise context_changed(self.context.name)
        self.config, self.context = fresh, context

    def only_if_ready(self) -> Connection:
        """Return a connection for completion: it neither starts the platform nor signs in."""
        passing = Connection(self.config, self.context, self.context_source, self.environ)
        passing._passive = True
        return passing

    def _sign_in_automatically(self) -> Credential:
        name = safe(self.context.name)
        if self.context.session_ended:
            raise FrostError(
                f"the session of context {name} has ended",
                code=SESSION_ENDED,
                hint="sign in: frost login",
                exit_code=Exit.NOT_SIGNED_IN,
            )
        if self._passive or not self.is_local:
            raise FrostError(
                f"not signed in to context {name}",
                code="NOT_SIGNED_IN",
                hint="sign in: frost login",
                exit_code=Exit.NOT_SIGNED_IN,
            )
        from client.auth.sign_in import sign_in_local

        return sign_in_local(self)


class Staff(OperatorConnection):
    """The operator's connection to the local platform, which can start it.

    Args:
        environ: The environment, with `HOME` and the platform's variables.
        starts: Whether to start the platform if it does not run; status requests do not.
        folder: Data directory of another platform on this machine, which is never started; empty for the local one.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ, *, starts: bool = False, folder: str = "") -> None:
        super().__init__(environ, folder=folder)
        self._starts = starts and is_own(self.endpoint, environ)

    def start(self) -> bool:
        if not self._starts:
            return False
        from client.platform.process import ensure_running

        ensure_running(self.environ)
        return True


def open_client(
    context: str | None = None,
    *,
    config_path: str | None = None,
    environ: Mapping[str, str] = os.environ,
    on_reply: OnReply | None = None,
) -> AsyncClient:
    """Return an asynchronous client for a context of the configuration. Close it with `async with` or `aclose`.

    Args:
        context: The name of the context; None selects it by `FROST_CONTEXT`, then by the file.
        config_path: The path of the configuration file; None is `$HOME/.cli/config.yaml`.
        environ: The environment, with `HOME` and the variables of frost.
        on_reply: Called on the event loop after each response, failed exchange and wait, for logs.

    Raises:
        FrostError: The file is invalid (exit 2), or the context does not exist (exit 5).
    """
    from client.transport.async_client import AsyncClient

    return AsyncClient(resolve(environ, path=config_path, context=context), on_reply=on_reply)


def open_blocking_client(
    context: str | None = None,
    *,
    config_path: str | None = None,
    environ: Mapping[str, str] = os.environ,
    on_reply: OnReply | None = None,
) -> BlockingClient:
    """Return a blocking client for a context of the configuration. It holds no connection, so it needs no close.

    Arguments and errors are those of `open_client`.
    """
    from client.transport.blocking_client import BlockingClient

    return BlockingClient(resolve(environ, path=config_path, context=context), on_reply=on_reply)

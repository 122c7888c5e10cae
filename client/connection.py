"""What both drivers need to know of a context: where it is, what signs a request, what to do when nobody listens.

Source: design: The local platform; Identity, contexts, credentials.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from client import config as files
from client.config import Config, Context
from client.credentials import NONE, UNSAVED, Credential, context_changed, load
from client.endpoint import Endpoint
from client.errors import SESSION_ENDED, Exit, FrostError
from client.local import default_endpoint, endpoint_in, is_own, was_stopped
from client.text import safe

if TYPE_CHECKING:
    from client.core import Credential as Signing
    from client.oidc import Provider


def resolve(
    source: Config | str | None = None, environ: Mapping[str, str] = os.environ, *, context: str | None = None
) -> Connection:
    """The connection of a context.

    Args:
        source: The file as read, or its path; None is the default file.
        environ: Where `HOME`, `FROST_CONTEXT` and `FROST_CREDENTIAL_STORE` are read.
        context: A context by name; None is the one in use.

    Raises:
        FrostError: The file cannot be used (exit 2), or there is no such context (exit 5).
    """
    if not isinstance(source, tuple):
        usual = files.default_path(environ)
        path = source or usual
        source = files.load(path, explicit=path != usual, environ=environ)
    selected = files.select(source, environ, context or "")
    return Connection(source, selected.context, selected.source, environ)


class Connection:
    """One context as a driver works for it; safe to use from several threads.

    Attributes:
        config: The file as it was read.
        context: The context; `context_source` tells why it is this one (`flag`, `variable`, `file`, `default`).
        environ: The environment of the call.
        notices: What the person should be told (where a session was kept, …); a front end takes and shows them.
        leaves_stopped: Whether a local platform that was stopped on purpose stays so. A command starts it; screens that
            ask by themselves would undo at once what somebody did.
    """

    def __init__(self, config: Config, context: Context, context_source: str, environ: Mapping[str, str]) -> None:
        self.config = config
        self.context = context
        self.context_source = context_source
        self.environ = environ
        self.notices: list[str] = []
        self.leaves_stopped = False
        self.lock = threading.RLock()
        self._credential: Credential | None = None
        self._provider: Provider | None = None
        self._unattended = False
        self._looked_up = False

    @cached_property
    def endpoint(self) -> Endpoint:
        """Where requests go. Raises FrostError for one that no credential may be sent to (exit 2)."""
        return Endpoint.parse(self.context.api_endpoint)

    @property
    def is_local(self) -> bool:
        """Whether this is the platform of this machine, which is started and signed in to on demand."""
        return is_own(self.endpoint, self.environ)

    def credential(self) -> Credential:
        """What signs a request, looked up on first use. The local context signs in by itself when it never did.

        Raises:
            FrostError: Nobody is signed in (exit 3), or the keyring does not answer (exit 3).
        """
        with self.lock:
            if self._credential is None:
                if self.is_local and not self._unattended:
                    from client.local_process import ensure_same_version

                    ensure_same_version(self.environ)
                if self._looked_up:
                    self.reload()  # the keyring gives what is there now, which may be another endpoint's
                self._looked_up = True
                found = load(self.config, self.context)
                if found.kind == "none":
                    found = self._first_sign_in()
                self._credential = found
            return self._credential

    def refresh(self, used: Signing) -> Credential:
        """A session newer than `used`, for all threads and processes with one request to the identity provider.

        Raises:
            FrostError: Refreshing failed; with code SESSION_ENDED when the session is over (exit 3).
        """
        from client.refresh import refreshed

        return refreshed(self, used)

    def start(self) -> bool:
        """Starts the local platform when this is its socket and nobody answers; False when it is another endpoint."""
        if self._unattended or not self.is_local or (self.leaves_stopped and was_stopped(self.environ)):
            return False
        from client.local_process import ensure_running

        ensure_running(self.environ)
        return True

    def adopt(self, credential: Credential | None) -> None:
        """Uses this credential from now on; None looks it up again at the next request."""
        with self.lock:
            self._credential = credential

    def look_again(self) -> None:
        """Looks the credential up again at the next request: another process may have signed in meanwhile.

        A renewed session that could not be written stays: what the file has is older.
        """
        with self.lock:
            if self._credential is not None and self._credential.source != UNSAVED:
                self._credential = None

    def provider(self) -> Provider:
        """The identity provider, asked for once."""
        with self.lock:
            if self._provider is None:
                from client.oidc import discover

                self._provider = discover(self)
            return self._provider

    def reload(self) -> None:
        """Reads the file again: what this process or another one wrote counts from now on.

        Raises:
            FrostError: The context has another endpoint now (exit 6): its credentials are not for this connection's.
        """
        fresh = files.load(self.config.path, environ=self.environ)
        found = fresh.contexts.get(self.context.name)
        if found is None:
            return
        if found.api_endpoint != self.context.api_endpoint:
            raise context_changed(self.context.name)
        self.config, self.context = fresh, found

    def only_if_ready(self) -> Connection:
        """The same connection for asking in passing (completion): it starts nothing and signs in nowhere."""
        passing = Connection(self.config, self.context, self.context_source, self.environ)
        passing._unattended = True
        return passing

    def _first_sign_in(self) -> Credential:
        name = safe(self.context.name)
        if self.context.session_ended:
            raise FrostError(
                f"the session of context {name} has ended",
                code=SESSION_ENDED,
                hint="sign in: frost login",
                exit_code=Exit.NOT_SIGNED_IN,
            )
        if self._unattended or not self.is_local:
            raise FrostError(
                f"nobody is signed in to context {name}",
                code="NOT_SIGNED_IN",
                hint="sign in: frost login",
                exit_code=Exit.NOT_SIGNED_IN,
            )
        from client.login import sign_in_unasked

        return sign_in_unasked(self)


class Staff:
    """The local platform for its owner: requests carry no credential, the socket's peer is known by the system.

    Args:
        environ: Where `HOME` and the platform's variables are read.
        starts: Whether it is started when it does not run; asking about the platform does not start it.
        folder: Where another platform of this machine has its data; that one is never started. Empty: the local one's.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ, *, starts: bool = False, folder: str = "") -> None:
        self.environ = environ
        self.endpoint = Endpoint.parse(endpoint_in(folder, environ) if folder else default_endpoint(environ))
        self._starts = starts and is_own(self.endpoint, environ)

    def credential(self) -> Credential:
        return NONE

    def refresh(self, used: Signing) -> Credential:
        return NONE

    def start(self) -> bool:
        if not self._starts:
            return False
        from client.local_process import ensure_running

        ensure_running(self.environ)
        return True

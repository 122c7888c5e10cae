"""The identity provider of a platform, and the connection that sign-in requires."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping

    from client.auth.credential_store import Credential
    from client.config.reader import Config, Context
    from client.transport.endpoint import Endpoint
    from client.transport.request import Credential as Signing

_SCOPES = ("openid", "profile", "email", "offline_access")
_PROMPTS = ("login", "consent")


class Provider(NamedTuple):
    """Endpoints and parameters of an identity provider. Missing endpoints are empty.

    `resource` is the resource indicator for tokens (RFC 8707), empty if the platform has none. `prompt` requests the
    password, because the platform rejects sign-ins from before `revoke-all`, and consent, which `offline_access`
    requires (OpenID Connect Core 11).
    """

    issuer: str
    client_id: str
    token: str
    authorization: str
    device_authorization: str
    revocation: str
    resource: str = ""
    scope: str = " ".join(_SCOPES)
    prompt: str = " ".join(_PROMPTS)

    @property
    def common_parameters(self) -> dict[str, str]:
        """Return the common parameters of token requests: client and resource."""
        return {"client_id": self.client_id, **({"resource": self.resource} if self.resource else {})}


class Connection(Protocol):
    """A context for sign-in and refresh, implemented in client/connection.py."""

    config: Config
    context: Context
    environ: Mapping[str, str]
    notices: list[str]
    lock: threading.RLock

    @property
    def endpoint(self) -> Endpoint: ...

    def credential(self) -> Credential:
        """Return the credential, loaded on first use."""

    def refresh(self, used: Signing) -> Credential:
        """Return a session newer than `used`."""

    def start(self) -> bool:
        """Start the local platform if it does not run; return False if this connection must not start it."""

    def set_credential(self, credential: Credential | None) -> None:
        """Use this credential from now on; None loads it again at the next request."""

    def reload(self) -> None:
        """Read the configuration file again."""

    def provider(self) -> Provider:
        """Return the identity provider, discovered once."""

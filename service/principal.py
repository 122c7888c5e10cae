"""The authenticated principal of a request."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

PrincipalKind = Literal["session", "api_key", "workload", "staff", "anonymous", "platform"]


@dataclass(frozen=True, slots=True)
class Principal:
    """A principal with a verified credential.

    `user_id` is the signed-in person or the creator of the API key. `tenant_id` and `scopes` are those of a key or
    workload; `rate_limit`, in requests a minute, is that of a key. `last_used_at` is the recorded use of a key or
    session. `peer_uid` is the user id of the peer on the unix socket. `token_ends_at` is the expiry of a session's
    access token in seconds since 1970; `token_hash` is the stored digest of a workload's token.
    """

    kind: PrincipalKind
    request_id: str
    user_id: str | None = None
    email: str | None = None
    session_id: str | None = None
    key_id: str | None = None
    workload_id: str | None = None
    tenant_id: str | None = None
    scopes: tuple[str, ...] = ()
    peer_uid: int | None = None
    expires_at: datetime | None = None
    token_ends_at: float | None = None
    rate_limit: int | None = None
    last_used_at: datetime | None = field(default=None, compare=False)
    token_hash: str | None = field(default=None, repr=False)

    def in_request(self, request_id: str, peer_uid: int | None) -> "Principal":
        """Return the principal in a request. `dataclasses.replace` would take three times as long."""
        return Principal(
            self.kind,
            request_id,
            self.user_id,
            self.email,
            self.session_id,
            self.key_id,
            self.workload_id,
            self.tenant_id,
            self.scopes,
            peer_uid,
            self.expires_at,
            self.token_ends_at,
            self.rate_limit,
            self.last_used_at,
            self.token_hash,
        )

    @property
    def actor_id(self) -> str:
        """The actor in the audit log."""
        if actor := self.user_id or self.workload_id:
            return actor
        return f"uid:{self.peer_uid}" if self.kind == "staff" else self.kind

    @property
    def credential_id(self) -> str | None:
        return self.key_id or self.session_id or self.workload_id


# For changes by the platform, such as in jobs.
PLATFORM = Principal(kind="platform", request_id="platform")

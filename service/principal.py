"""The authenticated principal of a request."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

PrincipalKind = Literal["session", "api_key", "workload", "staff", "anonymous", "platform"]


@dataclass(frozen=True, slots=True)
class Principal:
    """A principal whose credential was verified.

    `user_id` is the signed-in person or the creator of the API key, None for a workload. `tenant_id` is the tenant of a
    key or workload, None for a session. `scopes` are the stored scopes of a key or workload. `peer_uid` is the user id
    of the peer on the unix socket, None over TCP. `token_ends_at` is the expiry of a session's access token in seconds
    since 1970; `token_hash` is the stored digest of a workload's token.
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
    token_hash: str | None = field(default=None, repr=False)

    @property
    def actor_id(self) -> str:
        """Return the actor in the audit log: a person, a workload, `uid:` and the uid of staff, or the kind."""
        if actor := self.user_id or self.workload_id:
            return actor
        return f"uid:{self.peer_uid}" if self.kind == "staff" else self.kind

    @property
    def credential_id(self) -> str | None:
        return self.key_id or self.session_id or self.workload_id


# For changes that the platform makes itself, such as at start or in jobs.
PLATFORM = Principal(kind="platform", request_id="platform")

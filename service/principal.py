"""Who calls: the one value every route is given instead of headers."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

PrincipalKind = Literal["session", "api_key", "workload", "staff", "anonymous", "platform"]


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller whose credential has been checked.

    `user_id` is the person signed in, or the creator of the API key; a workload has none. `tenant_id` is the one tenant
    a key or a workload is bound to, None for a session. `scopes` are theirs, as stored. `peer_uid` is the user id at
    the other end of the unix socket, None over TCP. `token_ends_at` is when a session's access token expires, in
    seconds since 1970; `token_hash` is the stored digest of a workload's token.
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
        """Who answers for what is done: a person, a workload, the uid of staff, or a word."""
        if actor := self.user_id or self.workload_id:
            return actor
        return f"uid:{self.peer_uid}" if self.kind == "staff" else self.kind

    @property
    def credential_id(self) -> str | None:
        return self.key_id or self.session_id or self.workload_id


# What the platform does by itself, e.g. at start or in durable work.
PLATFORM = Principal(kind="platform", request_id="platform")

"""API keys, the answer that holds a secret, and what a key can be allowed. Source: facts 2.1, 2.2."""

from __future__ import annotations

from pydantic import Field

from client.models.base import Instant, Wire


class ApiKey(Wire):
    """An API key, never its secret. `status` is active, revoked or expired; `rate_limit` is requests a minute."""

    id: str
    tenant_id: str = ""
    tenant_name: str = ""
    name: str
    description: str = ""
    key_prefix: str = ""
    scopes: tuple[str, ...] = ()
    rate_limit: int | None = None
    status: str
    created_at: Instant
    expires_at: Instant | None = None
    revoked_at: Instant | None = None
    last_used_at: Instant | None = None
    creator_id: str = ""
    creator_name: str = ""
    creator_email: str = ""


class NewKey(Wire):
    """A key that was made, and its secret in `key`: the only answer that has one (checklist K02)."""

    api_key: ApiKey
    key: str = Field(repr=False)


class RotatedKey(NewKey):
    """The same for a key that took another's place, with so many groups and policies of it."""

    replaced: ApiKey
    grants: int = 0


class GrantableScope(Wire):
    """A scope for a key of the caller in one tenant.

    `held` false: creating is refused. `lacks`: up to five operations of it that the caller's role does not give.
    """

    scope: str
    description: str = ""
    enforced: bool = True
    operations: int = 0
    held: bool = True
    lacks: tuple[str, ...] = ()

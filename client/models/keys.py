"""API keys, responses with a secret, and the scopes that a key can have."""

from __future__ import annotations

from pydantic import Field

from client.models.base import Instant, Wire


class ApiKey(Wire):
    """An API key without its secret. `status` is active, revoked or expired; `rate_limit` is in requests per minute."""

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
    """A new key; `key` is its secret, which no later response contains."""

    api_key: ApiKey
    key: str = Field(repr=False)


class RotatedKey(NewKey):
    """A key that replaces another; `grants` is the number of groups and policies it takes over."""

    replaced: ApiKey
    grants: int = 0


class GrantableScope(Wire):
    """A scope for the principal's keys in a tenant.

    If `held` is false, creating a key with it is refused. `lacks` has up to five of its operations that the principal's
    role does not allow.
    """

    scope: str
    description: str = ""
    enforced: bool = True
    operations: int = 0
    held: bool = True
    lacks: tuple[str, ...] = ()

"""The principal, its organizations and sessions, and API keys with their scopes."""

from __future__ import annotations

from pydantic import Field

from client.models.base import Instant, Wire


class Organization(Wire):
    """An organization with the principal's `role`: owner, admin, member, viewer or regional."""

    id: str
    name: str
    slug: str
    role: str
    created_at: Instant | None = None


class CallerCredential(Wire):
    """The principal's credential. `kind` is session, api_key or workload; sessions have no scopes and no tenant."""

    kind: str
    id: str = ""
    scopes: list[str] | None = None
    tenant_id: str | None = None
    expires_at: Instant | None = None


class Me(Wire):
    """The principal. `tenant_id` is its default tenant, empty if it has none; for a key, its only tenant."""

    id: str
    tenant_id: str = ""
    email: str = ""
    name: str = ""
    created_at: Instant | None = None
    credential: CallerCredential | None = None
    organizations: tuple[Organization, ...] = ()


class CliConfig(Wire):
    """The identity provider for sign-in; tokens are requested for `resource`, if not empty."""

    issuer: str
    client_id: str = ""
    resource: str = ""
    version: str = ""


class Scope(Wire):
    """A scope of API keys, `<service>:<action>`. `enforced` is false if no service checks it."""

    scope: str
    description: str = ""
    enforced: bool = True


class Session(Wire):
    """An active session on a device; `current` marks the session of the request."""

    id: str
    device: str = ""
    place: str = ""
    started_at: Instant
    last_seen_at: Instant | None = None
    expires_at: Instant | None = None
    current: bool = False


class EndedSessions(Wire):
    """The number of sessions that ended."""

    ended: int


class DeletedAccount(Wire):
    """A deleted account, which can be restored until `restorable_until`."""

    email: str
    deleted_at: Instant
    restorable_until: Instant


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

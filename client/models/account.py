"""The caller, its organizations and what a key may be allowed. Source: facts 1.3, 1.5, 2.2; contract: account."""

from __future__ import annotations

from client.models.base import Instant, Wire


class Organization(Wire):
    """An organization and the caller's `role` in it: owner, admin, member, viewer or regional."""

    id: str
    name: str
    slug: str
    role: str
    created_at: Instant | None = None


class CallerCredential(Wire):
    """How the caller is known: `kind` is session, api_key or workload; scopes and tenant not for a session."""

    kind: str
    id: str = ""
    scopes: list[str] | None = None
    tenant_id: str | None = None
    expires_at: Instant | None = None


class Me(Wire):
    """The caller. `tenant_id` is the default tenant, empty when there is none, for a key its one tenant."""

    id: str
    tenant_id: str = ""
    email: str = ""
    name: str = ""
    created_at: Instant | None = None
    credential: CallerCredential | None = None
    organizations: tuple[Organization, ...] = ()


class CliConfig(Wire):
    """The identity provider to sign in at (facts 1.5); its tokens are asked for `resource`, where there is one."""

    issuer: str
    client_id: str = ""
    resource: str = ""
    version: str = ""


class Scope(Wire):
    """Something an API key can be allowed, `<service>:<action>`. `enforced` false: no service asks for it."""

    scope: str
    description: str = ""
    enforced: bool = True


class Session(Wire):
    """A sign-in that is not over, on some device; `current` marks the one that asks."""

    id: str
    device: str = ""
    place: str = ""
    started_at: Instant
    last_seen_at: Instant | None = None
    expires_at: Instant | None = None
    current: bool = False


class EndedSessions(Wire):
    """How many sessions have ended."""

    ended: int


class DeletedAccount(Wire):
    """An account that was deleted, and until when that can be reversed."""

    email: str
    deleted_at: Instant
    restorable_until: Instant

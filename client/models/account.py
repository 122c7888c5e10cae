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
    """How the caller is known: `kind` is session or api_key; scopes and tenant only for a key."""

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
    """The identity provider to sign in at (facts 1.5)."""

    issuer: str
    client_id: str = ""
    version: str = ""


class Scope(Wire):
    """Something an API key can be allowed, `<service>:<action>`."""

    scope: str
    description: str = ""

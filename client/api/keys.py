"""Calls about the principal's own API keys. `client/api/groups.py` has those of a whole tenant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from client.transport.request import Call, Request, new_idempotency_key, path

if TYPE_CHECKING:
    from client.models.keys import ApiKey, GrantableScope, NewKey, RotatedKey
    from client.transport.async_client import AsyncClient
    from client.transport.request import Change

MODEL = "keys.ApiKey"
NEEDS = ("id", "name", "status")


def own() -> Call:
    """List the principal's own keys in all its tenants, newest first."""
    return Call(Request("GET", "/v1/me/api-keys"), "apiKeys", MODEL)


def get(tenant_id: str, key_id: str) -> Call:
    """Get a key: one of the person's own, or the key of this request."""
    return Call(Request("GET", _path(tenant_id, key_id)), model=MODEL, needs=NEEDS)


def create(
    tenant_id: str,
    name: str,
    scopes: Sequence[str],
    *,
    description: str = "",
    expires_at: str | None = None,
    rate_limit: int | None = None,
) -> Call:
    """Create a key. Only this response contains its secret.

    Args:
        tenant_id: The tenant of the key.
        name: 2 to 100 characters.
        scopes: At least one scope.
        description: The purpose of the key.
        expires_at: RFC 3339; None for the platform's default.
        rate_limit: Requests per minute; None for the platform's default.
    """
    body: dict[str, Any] = {"name": name, "scopes": list(scopes)}
    given = {"description": description or None, "expiresAt": expires_at, "rateLimit": rate_limit}
    body |= {member: value for member, value in given.items() if value is not None}
    route = path("/v1/tenants/{}/api-keys", tenant_id)
    request = Request("POST", route, body=body, idempotency_key=new_idempotency_key())
    return Call(request, model="keys.NewKey", needs=("apiKey", "key"))


def update(
    tenant_id: str,
    key_id: str,
    *,
    name: str | None = None,
    description: str | None = None,
    scopes: Sequence[str] | None = None,
    rate_limit: int | None = None,
) -> Call:
    """Update the members that are not None. An empty description removes it; the expiry cannot change."""
    given = {
        "name": name,
        "description": description,
        "scopes": None if scopes is None else list(scopes),
        "rateLimit": rate_limit,
    }
    body = {member: value for member, value in given.items() if value is not None}
    return Call(Request("PATCH", _path(tenant_id, key_id), body=body), model=MODEL, needs=NEEDS)


def revoke(tenant_id: str, key_id: str) -> Call:
    """Revoke a key permanently, from its next request on. Repeating the call has no effect."""
    return Call(Request("POST", f"{_path(tenant_id, key_id)}/revoke"), model=MODEL, needs=NEEDS)


def delete(tenant_id: str, key_id: str) -> Call:
    """Delete a key permanently, with its memberships and policy attachments."""
    return Call(Request("DELETE", _path(tenant_id, key_id)))


def rotate(tenant_id: str, key_id: str, *, expires_at: str | None = None, retire_at: str | None = None) -> Call:
    """Create a key with the settings, memberships and policies of an active key.

    Args:
        tenant_id: The tenant of the key.
        key_id: The key to replace.
        expires_at: Expiry of the new key, RFC 3339; None for the platform's default.
        retire_at: New expiry of the old key, RFC 3339; None leaves it unchanged.
    """
    given = {"expiresAt": expires_at, "retireAt": retire_at}
    body = {member: value for member, value in given.items() if value is not None}
    request = Request("POST", f"{_path(tenant_id, key_id)}/rotate", body=body)
    return Call(request, model="keys.RotatedKey", needs=("apiKey", "key", "replaced"))


def grantable(tenant_id: str) -> Call:
    """List the scopes, with the operations of each that the principal's role in the tenant lacks."""
    return Call(Request("GET", path("/v1/tenants/{}/scopes", tenant_id)), "scopes", "keys.GrantableScope")


def _path(tenant_id: str, key_id: str) -> str:
    return path("/v1/tenants/{}/api-keys/{}", tenant_id, key_id)


class Keys:
    """The calls of this module with models as results."""

    def __init__(self, http: AsyncClient) -> None:
        self._http = http

    async def own(self) -> list[ApiKey]:
        found: list[ApiKey] = await self._http.records(own())
        return found

    async def get(self, tenant_id: str, key_id: str) -> ApiKey:
        found: ApiKey = await self._http.record(get(tenant_id, key_id))
        return found

    async def create(
        self,
        tenant_id: str,
        name: str,
        scopes: Sequence[str],
        *,
        description: str = "",
        expires_at: str | None = None,
        rate_limit: int | None = None,
    ) -> NewKey:
        call = create(tenant_id, name, scopes, description=description, expires_at=expires_at, rate_limit=rate_limit)
        found: NewKey = await self._http.record(call)
        return found

    async def update(
        self,
        tenant_id: str,
        key_id: str,
        *,
        name: str | None = None,
        description: str | None = None,
        scopes: Sequence[str] | None = None,
        rate_limit: int | None = None,
    ) -> Change:
        call = update(tenant_id, key_id, name=name, description=description, scopes=scopes, rate_limit=rate_limit)
        return await self._http.change(call)

    async def revoke(self, tenant_id: str, key_id: str) -> Change:
        return await self._http.change(revoke(tenant_id, key_id))

    async def delete(self, tenant_id: str, key_id: str) -> None:
        await self._http.call(delete(tenant_id, key_id))

    async def rotate(
        self, tenant_id: str, key_id: str, *, expires_at: str | None = None, retire_at: str | None = None
    ) -> RotatedKey:
        call = rotate(tenant_id, key_id, expires_at=expires_at, retire_at=retire_at)
        found: RotatedKey = await self._http.record(call)
        return found

    async def grantable(self, tenant_id: str) -> list[GrantableScope]:
        found: list[GrantableScope] = await self._http.records(grantable(tenant_id))
        return found

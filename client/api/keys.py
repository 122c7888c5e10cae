"""Calls about the caller's own API keys. Source: contract: API key; facts 2.1, 2.2; checklist K.

The keys of a whole tenant, whoever made them, are in client/api/principals.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from client.core import Call, Request, new_idempotency_key, path

if TYPE_CHECKING:
    from client.core import Change
    from client.http import Http
    from client.models.keys import ApiKey, GrantableScope, NewKey, RotatedKey

MODEL = "keys.ApiKey"
NEEDS = ("id", "name", "status")


def own() -> Call:
    """The keys the caller made, in every tenant they may enter, the newest first."""
    return Call(Request("GET", "/v1/me/api-keys"), "apiKeys", MODEL)


def get(tenant_id: str, key_id: str) -> Call:
    """One key: a person's own, or the very key that asks."""
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
    """Makes a key; the answer is the only one with its secret.

    Args:
        tenant_id: The tenant it will be bound to.
        name: 2 to 100 characters.
        scopes: At least one.
        description: What it is for.
        expires_at: RFC 3339; None is the platform's default.
        rate_limit: Requests a minute; None is the platform's default.
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
    """Changes what is given; an empty description clears it, and the expiry never changes."""
    given = {
        "name": name,
        "description": description,
        "scopes": None if scopes is None else list(scopes),
        "rateLimit": rate_limit,
    }
    body = {member: value for member, value in given.items() if value is not None}
    return Call(Request("PATCH", _path(tenant_id, key_id), body=body), model=MODEL, needs=NEEDS)


def revoke(tenant_id: str, key_id: str) -> Call:
    """Has the key refused from its next request on, for good; a second time changes nothing."""
    return Call(Request("POST", f"{_path(tenant_id, key_id)}/revoke"), model=MODEL, needs=NEEDS)


def delete(tenant_id: str, key_id: str) -> Call:
    """Removes a key for good, with its memberships and attachments."""
    return Call(Request("DELETE", _path(tenant_id, key_id)))


def rotate(tenant_id: str, key_id: str, *, expires_at: str | None = None, retire_at: str | None = None) -> Call:
    """Makes a key with everything an active one was given.

    Args:
        tenant_id: The tenant of the key.
        key_id: The key that is to be replaced.
        expires_at: When the new one expires, RFC 3339; None is the platform's default.
        retire_at: When the old one expires from now on; None leaves it as it is.
    """
    given = {"expiresAt": expires_at, "retireAt": retire_at}
    body = {member: value for member, value in given.items() if value is not None}
    request = Request("POST", f"{_path(tenant_id, key_id)}/rotate", body=body)
    return Call(request, model="keys.RotatedKey", needs=("apiKey", "key", "replaced"))


def grantable(tenant_id: str) -> Call:
    """The scopes, with what the caller's role in the tenant lacks of each."""
    return Call(Request("GET", path("/v1/tenants/{}/scopes", tenant_id)), "scopes", "keys.GrantableScope")


def _path(tenant_id: str, key_id: str) -> str:
    return path("/v1/tenants/{}/api-keys/{}", tenant_id, key_id)


class Keys:
    """The same calls for the screens and the library, answered with models."""

    def __init__(self, http: Http) -> None:
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

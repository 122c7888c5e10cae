"""Calls about the principal's own API keys. `client/api/groups.py` has those of a whole tenant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from client.transport.call import Call, Model, Request, new_idempotency_key, no_content, path, record, records

if TYPE_CHECKING:
    from client.models.account import ApiKey, GrantableScope, NewKey, RotatedKey

API_KEY: Model[ApiKey] = Model("account.ApiKey")
NEW_KEY: Model[NewKey] = Model("account.NewKey")
ROTATED_KEY: Model[RotatedKey] = Model("account.RotatedKey")
GRANTABLE_SCOPE: Model[GrantableScope] = Model("account.GrantableScope")

NEEDS = ("id", "name", "status")


def own() -> Call[list[ApiKey]]:
    """List the principal's own keys in all its tenants, newest first."""
    return records(Request("GET", "/v1/me/api-keys"), "apiKeys", API_KEY)


def get(tenant_id: str, key_id: str) -> Call[ApiKey]:
    """Get one of the user's own keys, or the key of the request."""
    return record(Request("GET", _path(tenant_id, key_id)), API_KEY, NEEDS)


def create(
    tenant_id: str,
    name: str,
    scopes: Sequence[str],
    *,
    description: str = "",
    expires_at: str | None = None,
    rate_limit: int | None = None,
) -> Call[NewKey]:
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
    members = {"description": description or None, "expiresAt": expires_at, "rateLimit": rate_limit}
    body |= {member: value for member, value in members.items() if value is not None}
    route = path("/v1/tenants/{}/api-keys", tenant_id)
    request = Request("POST", route, body=body, idempotency_key=new_idempotency_key())
    return record(request, NEW_KEY, ("apiKey", "key"))


def update(
    tenant_id: str,
    key_id: str,
    *,
    name: str | None = None,
    description: str | None = None,
    scopes: Sequence[str] | None = None,
    rate_limit: int | None = None,
) -> Call[ApiKey]:
    """Update the members that are not None. An empty description removes it; the expiry cannot change."""
    members = {
        "name": name,
        "description": description,
        "scopes": None if scopes is None else list(scopes),
        "rateLimit": rate_limit,
    }
    body = {member: value for member, value in members.items() if value is not None}
    return record(Request("PATCH", _path(tenant_id, key_id), body=body), API_KEY, NEEDS)


def revoke(tenant_id: str, key_id: str) -> Call[ApiKey]:
    """Revoke a key permanently, from its next request on. Repeating the call has no effect."""
    return record(Request("POST", f"{_path(tenant_id, key_id)}/revoke"), API_KEY, NEEDS)


def delete(tenant_id: str, key_id: str) -> Call[None]:
    """Delete a key permanently, with its memberships and policy attachments."""
    return no_content(Request("DELETE", _path(tenant_id, key_id)))


def rotate(
    tenant_id: str, key_id: str, *, expires_at: str | None = None, retire_at: str | None = None
) -> Call[RotatedKey]:
    """Create a key with the settings, memberships and policies of an active key.

    Args:
        tenant_id: The tenant of the key.
        key_id: The key to replace.
        expires_at: Expiry of the new key, RFC 3339; None for the platform's default.
        retire_at: New expiry of the old key, RFC 3339; None leaves it unchanged.
    """
    members = {"expiresAt": expires_at, "retireAt": retire_at}
    body = {member: value for member, value in members.items() if value is not None}
    request = Request("POST", f"{_path(tenant_id, key_id)}/rotate", body=body)
    return record(request, ROTATED_KEY, ("apiKey", "key", "replaced"))


def grantable_scopes(tenant_id: str) -> Call[list[GrantableScope]]:
    """List the scopes, with the operations of each that the principal's role in the tenant lacks."""
    return records(Request("GET", path("/v1/tenants/{}/scopes", tenant_id)), "scopes", GRANTABLE_SCOPE)


def _path(tenant_id: str, key_id: str) -> str:
    return path("/v1/tenants/{}/api-keys/{}", tenant_id, key_id)

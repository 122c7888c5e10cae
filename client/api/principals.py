"""Calls about what a policy can be attached to beside groups: a tenant's API keys and workload identities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from client.core import Call, Request, path
from client.pages import MOST, query

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from client.http import Http
    from client.models.principals import Binding


def keys(tenant_id: str) -> Call:
    """The tenant's API keys, whoever made them; never a secret."""
    return Call(Request("GET", path("/v1/tenants/{}/api-keys", tenant_id)), "apiKeys", "key")


def identity_page(tenant_id: str, *, limit: int | None = None, cursor: str = "") -> Call:
    """A page of the tenant's workload identities in the order they were made."""
    route = path("/v1/tenants/{}/workload-identity/bindings", tenant_id)
    return Call(Request("GET", route, query(limit, cursor)), "bindings", "principals.Binding")


class Principals:
    """The same calls for the screens and the library."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def keys(self, tenant_id: str) -> list[dict[str, Any]]:
        """Members id, name, description, keyPrefix, scopes, status, expiresAt, createdAt, lastUsedAt."""
        answer = await self._http.call(keys(tenant_id))
        found: list[dict[str, Any]] = answer["apiKeys"]
        return found

    def identity_pages(self, tenant_id: str) -> AsyncIterator[list[Binding]]:
        """All workload identities, page by page."""
        return self._http.pages(lambda cursor: identity_page(tenant_id, limit=MOST, cursor=cursor))

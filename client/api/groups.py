"""Calls about groups, their members, and principals of a tenant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from client.transport.request import MOST, Call, Request, if_match, new_idempotency_key, path, query

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from client.models.groups import Binding, Group, Member
    from client.transport.async_client import AsyncClient

MODEL = "groups.Group"
NEEDS = ("id", "name")


def page(tenant_id: str, *, limit: int | None = None, cursor: str = "", member: tuple[str, str] | None = None) -> Call:
    """List a page of the tenant's groups, oldest first.

    Args:
        member: Type and id of a member; only its groups.
    """
    of = (("memberType", member[0]), ("memberId", member[1])) if member else ()
    return Call(Request("GET", _groups(tenant_id), query(limit, cursor, *of)), "groups", MODEL)


def get(tenant_id: str, group_id: str) -> Call:
    return Call(Request("GET", _group(tenant_id, group_id)), model=MODEL, needs=NEEDS)


def create(tenant_id: str, name: str, description: str = "") -> Call:
    body = {"name": name, "description": description}
    request = Request("POST", _groups(tenant_id), body=body, idempotency_key=new_idempotency_key())
    return Call(request, model=MODEL, needs=NEEDS)


def update(
    tenant_id: str,
    group_id: str,
    *,
    name: str | None = None,
    description: str | None = None,
    version: int | None = None,
) -> Call:
    """Update the members that are not None.

    Args:
        version: The version that the change is based on; the platform refuses it if there is a newer one.
    """
    given = {"name": name, "description": description}
    body = {member: value for member, value in given.items() if value is not None}
    request = Request("PATCH", _group(tenant_id, group_id), body=body, headers=if_match(version))
    return Call(request, model=MODEL, needs=NEEDS)


def delete(tenant_id: str, group_id: str, version: int | None = None) -> Call:
    """Delete a group with its memberships and policy attachments."""
    return Call(Request("DELETE", _group(tenant_id, group_id), headers=if_match(version)))


def member_page(tenant_id: str, group_id: str, *, limit: int | None = None, cursor: str = "") -> Call:
    """List a page of a group's members in the order they were added."""
    return Call(Request("GET", _members(tenant_id, group_id), query(limit, cursor)), "members", "groups.Member")


def add_member(tenant_id: str, group_id: str, member_type: str, member_id: str) -> Call:
    body = {"memberType": member_type, "memberId": member_id}
    return Call(Request("POST", _members(tenant_id, group_id), body=body))


def remove_member(tenant_id: str, group_id: str, member_type: str, member_id: str) -> Call:
    pair = (("memberType", member_type), ("memberId", member_id))
    return Call(Request("DELETE", _members(tenant_id, group_id), pair))


def _groups(tenant_id: str) -> str:
    return path("/v1/tenants/{}/iam/groups", tenant_id)


def _group(tenant_id: str, group_id: str) -> str:
    return path("/v1/tenants/{}/iam/groups/{}", tenant_id, group_id)


def _members(tenant_id: str, group_id: str) -> str:
    return path("/v1/tenants/{}/iam/groups/{}/members", tenant_id, group_id)


class Groups:
    """The group calls with models as results."""

    def __init__(self, http: AsyncClient) -> None:
        self._http = http

    def pages(self, tenant_id: str, *, member: tuple[str, str] | None = None) -> AsyncIterator[list[Group]]:
        return self._http.pages(lambda cursor: page(tenant_id, limit=MOST, cursor=cursor, member=member))

    async def get(self, tenant_id: str, group_id: str) -> Group:
        found: Group = await self._http.record(get(tenant_id, group_id))
        return found

    async def create(self, tenant_id: str, name: str, description: str = "") -> Group:
        found: Group = await self._http.record(create(tenant_id, name, description))
        return found

    async def update(
        self,
        tenant_id: str,
        group_id: str,
        *,
        name: str | None = None,
        description: str | None = None,
        version: int | None = None,
    ) -> Group:
        """Update the members that are not None. Raises FrostError STALE_VERSION if `version` is not the newest."""
        call = update(tenant_id, group_id, name=name, description=description, version=version)
        found: Group = await self._http.record(call)
        return found

    async def delete(self, tenant_id: str, group_id: str, version: int | None = None) -> None:
        await self._http.call(delete(tenant_id, group_id, version))

    def member_pages(self, tenant_id: str, group_id: str) -> AsyncIterator[list[Member]]:
        return self._http.pages(lambda cursor: member_page(tenant_id, group_id, limit=MOST, cursor=cursor))

    async def add_member(self, tenant_id: str, group_id: str, member_type: str, member_id: str) -> bool:
        """Add a member. Return whether it was new."""
        return (await self._http.change(add_member(tenant_id, group_id, member_type, member_id))).changed

    async def remove_member(self, tenant_id: str, group_id: str, member_type: str, member_id: str) -> None:
        await self._http.call(remove_member(tenant_id, group_id, member_type, member_id))


def keys(tenant_id: str) -> Call:
    """List the tenant's API keys of all creators, without secrets."""
    return Call(Request("GET", path("/v1/tenants/{}/api-keys", tenant_id)), "apiKeys", "key")


def identity_page(tenant_id: str, *, limit: int | None = None, cursor: str = "") -> Call:
    """List a page of the tenant's workload identities, oldest first."""
    route = path("/v1/tenants/{}/workload-identity/bindings", tenant_id)
    return Call(Request("GET", route, query(limit, cursor)), "bindings", "groups.Binding")


class Principals:
    """The calls about principals, for the screens and the library."""

    def __init__(self, http: AsyncClient) -> None:
        self._http = http

    async def keys(self, tenant_id: str) -> list[dict[str, Any]]:
        """Return objects with id, name, description, keyPrefix, scopes, status, expiresAt, createdAt, lastUsedAt."""
        answer = await self._http.call(keys(tenant_id))
        found: list[dict[str, Any]] = answer["apiKeys"]
        return found

    def identity_pages(self, tenant_id: str) -> AsyncIterator[list[Binding]]:
        return self._http.pages(lambda cursor: identity_page(tenant_id, limit=MOST, cursor=cursor))

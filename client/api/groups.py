"""Calls about groups and their members. Source: contract: iam group, iam group member; checklist R, M."""

from __future__ import annotations

from typing import TYPE_CHECKING

from client.core import Call, Request, made_from, new_idempotency_key, path
from client.pages import MOST, query

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from client.http import Http
    from client.models.groups import Group, Member

MODEL = "groups.Group"
NEEDS = ("id", "name")


def page(tenant_id: str, *, limit: int | None = None, cursor: str = "", member: tuple[str, str] | None = None) -> Call:
    """A page of the tenant's groups in the order they were made.

    Args:
        member: Type and id; only the groups it is a member of.
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
    """Changes what is not None.

    Args:
        version: The version this change was made from; the platform refuses it when there is a newer one.
    """
    given = {"name": name, "description": description}
    body = {member: value for member, value in given.items() if value is not None}
    request = Request("PATCH", _group(tenant_id, group_id), body=body, headers=made_from(version))
    return Call(request, model=MODEL, needs=NEEDS)


def delete(tenant_id: str, group_id: str, version: int | None = None) -> Call:
    """Removes a group, its membership and what was attached to it."""
    return Call(Request("DELETE", _group(tenant_id, group_id), headers=made_from(version)))


def member_page(tenant_id: str, group_id: str, *, limit: int | None = None, cursor: str = "") -> Call:
    """A page of a group's members in the order they were added."""
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
    """The same calls for the screens and the library, answered with models."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def pages(self, tenant_id: str, *, member: tuple[str, str] | None = None) -> AsyncIterator[list[Group]]:
        """All groups, or those of one member (type, id), page by page."""
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
        """Changes what is not None. Raises FrostError STALE_VERSION when `version` is no longer the newest."""
        call = update(tenant_id, group_id, name=name, description=description, version=version)
        found: Group = await self._http.record(call)
        return found

    async def delete(self, tenant_id: str, group_id: str, version: int | None = None) -> None:
        await self._http.call(delete(tenant_id, group_id, version))

    def member_pages(self, tenant_id: str, group_id: str) -> AsyncIterator[list[Member]]:
        """All members of a group, page by page."""
        return self._http.pages(lambda cursor: member_page(tenant_id, group_id, limit=MOST, cursor=cursor))

    async def add_member(self, tenant_id: str, group_id: str, member_type: str, member_id: str) -> bool:
        """Whether it was not a member before."""
        return (await self._http.change(add_member(tenant_id, group_id, member_type, member_id))).changed

    async def remove_member(self, tenant_id: str, group_id: str, member_type: str, member_id: str) -> None:
        await self._http.call(remove_member(tenant_id, group_id, member_type, member_id))

"""Calls about groups, their members, and principals of a tenant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from client.transport.call import (
    Call,
    Model,
    Request,
    if_match,
    new_idempotency_key,
    no_content,
    page_query,
    path,
    record,
    records,
)

if TYPE_CHECKING:
    from client.models.account import ApiKey
    from client.models.iam import Binding, Group, Member

GROUP: Model[Group] = Model("iam.Group")
MEMBER: Model[Member] = Model("iam.Member")
BINDING: Model[Binding] = Model("iam.Binding")
API_KEY: Model[ApiKey] = Model("account.ApiKey")

NEEDS = ("id", "name")


def page(
    tenant_id: str, *, limit: int | None = None, cursor: str = "", member: tuple[str, str] | None = None
) -> Call[list[Group]]:
    """List a page of the tenant's groups, oldest first.

    Args:
        member: Type and id of a member; only its groups.
    """
    of = (("memberType", member[0]), ("memberId", member[1])) if member else ()
    return records(Request("GET", _groups(tenant_id), page_query(limit, cursor, *of)), "groups", GROUP)


def get(tenant_id: str, group_id: str) -> Call[Group]:
    return record(Request("GET", _group(tenant_id, group_id)), GROUP, NEEDS)


def create(tenant_id: str, name: str, description: str = "") -> Call[Group]:
    body = {"name": name, "description": description}
    request = Request("POST", _groups(tenant_id), body=body, idempotency_key=new_idempotency_key())
    return record(request, GROUP, NEEDS)


def update(
    tenant_id: str,
    group_id: str,
    *,
    name: str | None = None,
    description: str | None = None,
    version: int | None = None,
) -> Call[Group]:
    """Update the members that are not None.

    Args:
        version: The version that the change is based on; the platform refuses it if there is a newer one.
    """
    members = {"name": name, "description": description}
    body = {member: value for member, value in members.items() if value is not None}
    request = Request("PATCH", _group(tenant_id, group_id), body=body, headers=if_match(version))
    return record(request, GROUP, NEEDS)


def delete(tenant_id: str, group_id: str, version: int | None = None) -> Call[None]:
    """Delete a group with its memberships and policy attachments."""
    return no_content(Request("DELETE", _group(tenant_id, group_id), headers=if_match(version)))


def member_page(tenant_id: str, group_id: str, *, limit: int | None = None, cursor: str = "") -> Call[list[Member]]:
    """List a page of a group's members in the order they were added."""
    return records(Request("GET", _members(tenant_id, group_id), page_query(limit, cursor)), "members", MEMBER)


def add_member(tenant_id: str, group_id: str, member_type: str, member_id: str) -> Call[None]:
    body = {"memberType": member_type, "memberId": member_id}
    return no_content(Request("POST", _members(tenant_id, group_id), body=body))


def remove_member(tenant_id: str, group_id: str, member_type: str, member_id: str) -> Call[None]:
    pair = (("memberType", member_type), ("memberId", member_id))
    return no_content(Request("DELETE", _members(tenant_id, group_id), pair))


def _groups(tenant_id: str) -> str:
    return path("/v1/tenants/{}/iam/groups", tenant_id)


def _group(tenant_id: str, group_id: str) -> str:
    return path("/v1/tenants/{}/iam/groups/{}", tenant_id, group_id)


def _members(tenant_id: str, group_id: str) -> str:
    return path("/v1/tenants/{}/iam/groups/{}/members", tenant_id, group_id)


def keys(tenant_id: str) -> Call[list[ApiKey]]:
    """List the tenant's API keys of all creators, without secrets."""
    return records(Request("GET", path("/v1/tenants/{}/api-keys", tenant_id)), "apiKeys", API_KEY)


def identity_page(tenant_id: str, *, limit: int | None = None, cursor: str = "") -> Call[list[Binding]]:
    """List a page of the tenant's workload identities, oldest first."""
    route = path("/v1/tenants/{}/workload-identity/bindings", tenant_id)
    return records(Request("GET", route, page_query(limit, cursor)), "bindings", BINDING)

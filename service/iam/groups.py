"""Groups and their members over HTTP."""

from collections.abc import Mapping
from typing import Annotated, Any
from uuid import uuid4

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection
from starlette.responses import Response

from service import errors, validation
from service.api.changes import change, resolve_idempotency_key
from service.api.dependencies import IdempotencyKey, IfMatch, PageParamsDep, PlatformDep, TenantContextDep, page_of
from service.api.protected_route import protected_router
from service.api.responses import audit_in_tenant, created, etag, no_content, or_404, with_etag
from service.audit.entries import AuditEvent
from service.authz.context import TenantContext
from service.authz.endpoints import GROUP, GROUPS
from service.context import Platform
from service.db.engine import Record
from service.errors import ApiError
from service.iam import affected_principals, author_check, group_queries, representations
from service.iam.attachments import require_principal
from service.json_bodies import JSONResponse

router = protected_router("groups")


class NewGroup(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(description="1 to 128 characters; unique in the tenant, in any letter case")
    description: str = ""


class GroupChange(BaseModel):
    """Body that changes a group; missing members keep their value."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str | None = None
    description: str | None = None


class NewMember(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    member_type: str = Field(alias="memberType", description="api_key or workload_identity")
    member_id: str = Field(alias="memberId")


@router.post(GROUPS, operation_id="createGroup", status_code=201)
def create_group(
    context: TenantContextDep, platform: PlatformDep, body: NewGroup, idempotency_key: IdempotencyKey = None
) -> JSONResponse:
    """Create an empty group. A repeated request with the same `Idempotency-Key` returns the same group."""
    tenant_id, now, new_id = context.tenant_id, platform.clock.now(), str(uuid4())
    name, description = validation.display_name(body.name, "name"), validation.description(body.description)
    compared = _compare_names(platform, tenant_id, name)
    with change(platform, context) as (connection, context):
        group_id = resolve_idempotency_key(
            connection, context, idempotency_key, AuditEvent.GROUP_CREATE, (tenant_id, name, description), new_id, now
        )
        if group_id == new_id:
            require_free(connection, tenant_id, name, None, compared)
            group_queries.add(
                connection,
                {
                    "id": group_id,
                    "tenant_id": tenant_id,
                    "name": name,
                    "description": description,
                    "created_by": context.principal.user_id,
                    "created_at": now,
                    "updated_at": now,
                },
            )
            audit_in_tenant(connection, context, AuditEvent.GROUP_CREATE, f"group:{group_id}", now, {"name": name})
        group = _whole(connection, or_404(group_queries.get(connection, tenant_id, group_id)))
        return created(group, GROUP, headers=etag(group), tenant_id=tenant_id, group_id=group_id)


@router.get(GROUPS, operation_id="listGroups")
def list_groups(
    context: TenantContextDep,
    platform: PlatformDep,
    paging: PageParamsDep,
    member_type: Annotated[str | None, Query(alias="memberType")] = None,
    member_id: Annotated[str | None, Query(alias="memberId")] = None,
) -> JSONResponse:
    """List the groups of a tenant in order of creation, optionally only those of one member."""
    tenant_id = context.tenant_id
    member = validation.paired_filter(("memberType", member_type), ("memberId", member_id), validation.MEMBER_TYPES)
    page = page_of(platform, paging, "groups", tenant_id, *(member or ()))
    with platform.database.read() as connection:
        rows = group_queries.page(connection, tenant_id, member, page.after, page.limit)
    rows, cursor = page.cut(rows, "created_at", "id")
    return JSONResponse({"groups": [representations.group(row) for row in rows], "nextCursor": cursor})


@router.get(GROUP, operation_id="getGroup")
def get_group(context: TenantContextDep, platform: PlatformDep, group_id: str) -> JSONResponse:
    """Return a group with at most 200 members; `membersTruncated` is true if there are more."""
    with platform.database.read() as connection:
        return with_etag(_whole(connection, get_group_or_404(connection, context, group_id)))


@router.patch(GROUP, operation_id="updateGroup")
def update_group(
    context: TenantContextDep, platform: PlatformDep, group_id: str, body: GroupChange, if_match: IfMatch = None
) -> JSONResponse:
    """Change the name or description of a group. Unchanged values create no new version."""
    tenant_id, now = context.tenant_id, platform.clock.now()
    if body.name is None and body.description is None:
        raise errors.invalid_input("nothing to change: give name or description", reason="nothing_to_change")
    values = {}
    if body.name is not None:
        values["name"] = validation.display_name(body.name, "name")
    if body.description is not None:
        values["description"] = validation.description(body.description)
    compared = _compare_names(platform, tenant_id, values["name"]) if "name" in values else {}
    with change(platform, context) as (connection, context):
        before = get_group_or_404(connection, context, group_id)
        require_fresh(connection, before, if_match)
        changes = {name: value for name, value in values.items() if getattr(before, name) != value}
        if "name" in changes:
            require_free(connection, tenant_id, changes["name"], before, compared)
        if changes:
            group_queries.change(connection, before, changes, now)
            details = {name: {"from": getattr(before, name), "to": value} for name, value in changes.items()}
            audit_in_tenant(connection, context, AuditEvent.GROUP_UPDATE, f"group:{group_id}", now, details)
        return with_etag(_whole(connection, get_group_or_404(connection, context, group_id)), changed=bool(changes))


@router.delete(GROUP, operation_id="deleteGroup", status_code=204)
def delete_group(context: TenantContextDep, platform: PlatformDep, group_id: str, if_match: IfMatch = None) -> Response:
    """Delete a group with its memberships and attachments, but not its members and policies."""
    tenant_id, now = context.tenant_id, platform.clock.now()
    with change(platform, context) as (connection, context):
        group = get_group_or_404(connection, context, group_id)
        require_fresh(connection, group, if_match)
        members = group_queries.members(connection, group_id)
        affected_principals.check_remove_members(
            connection, author_check.author_of(connection, platform, context), group, members
        )
        group_queries.remove(connection, tenant_id, group_id)
        details = {"name": group.name, "members": len(members), "policies": group.policy_count}
        audit_in_tenant(connection, context, AuditEvent.GROUP_DELETE, f"group:{group_id}", now, details)
    return no_content()


@router.post(f"{GROUP}/members", operation_id="addGroupMember", status_code=204)
def add_group_member(context: TenantContextDep, platform: PlatformDep, group_id: str, body: NewMember) -> Response:
    """Add an API key or workload identity. The policies of the group apply from its next request."""
    tenant_id, now = context.tenant_id, platform.clock.now()
    kind, member_id = validation.require_choice("memberType", body.member_type, validation.MEMBER_TYPES), body.member_id

    def require_authority(connection: Connection) -> None:
        get_group_or_404(connection, context, group_id)
        require_principal(connection, tenant_id, kind, member_id)
        affected_principals.check_add_member(
            connection, author_check.author_of(connection, platform, context), group_id, kind, member_id
        )

    # Cache the check for the write transaction.
    with platform.database.read() as connection:
        require_authority(connection)
    with change(platform, context) as (connection, context):
        require_authority(connection)
        values = {"group_id": group_id, "member_type": kind, "member_id": member_id}
        added = group_queries.add_member(
            connection, values | {"tenant_id": tenant_id, "added_by": context.principal.user_id, "added_at": now}
        )
        if added:
            details = {"memberType": kind, "memberId": member_id}
            audit_in_tenant(connection, context, AuditEvent.GROUP_MEMBER_ADD, f"group:{group_id}", now, details)
    return no_content(changed=added)


@router.get(f"{GROUP}/members", operation_id="listGroupMembers")
def list_group_members(
    context: TenantContextDep, platform: PlatformDep, paging: PageParamsDep, group_id: str
) -> JSONResponse:
    """List the members of a group in order of addition."""
    tenant_id = context.tenant_id
    page = page_of(platform, paging, "members", tenant_id, group_id)
    with platform.database.read() as connection:
        get_group_or_404(connection, context, group_id)
        rows = group_queries.member_page(connection, tenant_id, group_id, page.after, page.limit)
    rows, cursor = page.cut(rows, "added_at", "member_type", "member_id")
    return JSONResponse({"members": [representations.member(row) for row in rows], "nextCursor": cursor})


@router.delete(f"{GROUP}/members", operation_id="removeGroupMember", status_code=204)
def remove_group_member(
    context: TenantContextDep,
    platform: PlatformDep,
    group_id: str,
    member_type: Annotated[str, Query(alias="memberType")],
    member_id: Annotated[str, Query(alias="memberId")],
) -> Response:
    """Remove a principal from a group. A workload identity without other grants is then inert."""
    tenant_id, now = context.tenant_id, platform.clock.now()
    kind = validation.require_choice("memberType", member_type, validation.MEMBER_TYPES)
    with change(platform, context) as (connection, context):
        group = get_group_or_404(connection, context, group_id)
        if not validation.is_id(member_id) or not group_queries.is_member(connection, group_id, kind, member_id):
            raise errors.not_found()
        affected_principals.check_remove_members(
            connection, author_check.author_of(connection, platform, context), group, [(kind, member_id)]
        )
        group_queries.remove_member(connection, tenant_id, group_id, kind, member_id)
        details = {"memberType": kind, "memberId": member_id}
        audit_in_tenant(connection, context, AuditEvent.GROUP_MEMBER_REMOVE, f"group:{group_id}", now, details)
    return no_content()


def _whole(connection: Connection, group: Record) -> dict[str, Any]:
    return representations.whole_group(group, group_queries.first_members(connection, group.tenant_id, group.id))


def get_group_or_404(connection: Connection, context: TenantContext, group_id: str) -> Record:
    """Return the group of the path, or raise the flat 404."""
    return or_404(group_queries.get(connection, context.tenant_id, group_id) if validation.is_id(group_id) else None)


def _compare_names(platform: Platform, tenant_id: str, name: str) -> Mapping[str, bool]:
    with platform.database.read() as connection:
        return group_queries.compare_names(connection, tenant_id, name)


def require_free(
    connection: Connection, tenant_id: str, name: str, before: Record | None, compared: Mapping[str, bool]
) -> None:
    """Refuse the name of another group of the tenant, or a name that is easily confused with it.

    Case, compatibility characters and invisible characters do not make a name another one. Groups that have such names
    already keep them.

    Args:
        before: The group to rename; None for a new one.
        compared: As for `similar_name`.

    Raises:
        ApiError: 409 GROUP_NAME_TAKEN, with the id of the other group.
    """
    holder, similar = group_queries.named(connection, tenant_id, name), None
    if holder is None:
        own = before.name if before is not None else None
        similar = group_queries.similar_name(connection, tenant_id, name, own, compared)
        holder = None if similar is None else group_queries.named(connection, tenant_id, similar)
    if holder is None or (before is not None and holder == before.id):
        return
    has = "has this name" if similar is None else f'has the name "{similar}", which is too similar'
    raise ApiError(
        409,
        "GROUP_NAME_TAKEN",
        f"another group of this tenant {has}: {holder}",
        details={"groupId": holder} | ({} if similar is None else {"name": similar}),
        hint="choose another name, or use that group",
    )


def require_fresh(connection: Connection, group: Record, if_match: str | None) -> None:
    """Refuse a write from an older version, with the current group and the members changed since."""
    expected = validation.expected_version(if_match)
    if expected is not None and expected != group.version:
        then = group_queries.texts_at(connection, group, expected)
        changed = [member for member, value in sorted(then.items()) if value != getattr(group, member)]
        validation.require_version(
            expected, group.version, {"changed": changed, "resource": representations.group(group)}
        )

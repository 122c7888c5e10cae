"""Routes of the default tags of a tenant and their history."""

from typing import Annotated, Any

from fastapi import Depends, Header
from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict
from starlette.responses import JSONResponse

from service.api.changes import change
from service.api.pagination import PageParams, page_of, page_params
from service.api.protected_route import protected_router
from service.api.responses import CHANGED, audit_in_tenant
from service.authz.authorize import AuthorizationContext, get_context
from service.authz.route_policies import DEFAULT_TAGS
from service.clock import wire_time
from service.context import Platform, platform_of
from service.db.engine import Record
from service.default_tags import queries as store
from service.default_tags import validation as rules
from service.validation import expected_version, require_version

router = protected_router("default tags")
OBJECT_OF_TEXTS: JsonDict = {"type": "object", "additionalProperties": {"type": "string"}}

Granted = Annotated[AuthorizationContext, Depends(get_context)]
Here = Annotated[Platform, Depends(platform_of)]
Paging = Annotated[PageParams, Depends(page_params)]
IfMatch = Annotated[str | None, Header(alias="If-Match", description="The version this write was made from")]


class TagSet(BaseModel):
    """The body that replaces the tags. `tags` is required, so that a misspelt member does not clear them."""

    model_config = ConfigDict(extra="forbid", strict=True)

    tags: Any = Field(json_schema_extra=OBJECT_OF_TEXTS)


@router.get(DEFAULT_TAGS)
def get_default_tags(access: Granted, platform: Here) -> JSONResponse:
    """Return the tags that new resources get; `{}` if there are none."""
    with platform.database.read() as connection:
        row = store.get(connection, str(access.tenant_id))
    return tags_response(row.tags, row.version)


@router.put(DEFAULT_TAGS)
def put_default_tags(access: Granted, platform: Here, body: TagSet, if_match: IfMatch = None) -> JSONResponse:
    """Replace all default tags. Existing resources do not change."""
    tenant_id, now = str(access.tenant_id), platform.clock.now()
    tags = rules.read_set(body.tags)
    expected = expected_version(if_match)
    with change(platform, access) as (connection, access):
        before = store.get(connection, tenant_id)
        require_version(expected, before.version, {"tags": rules.in_order(before.tags)})
        if tags == before.tags:
            return tags_response(tags, before.version, changed=False)
        number = before.version + 1
        store.change(connection, tenant_id, number, tags, access.caller.user_id, now)
        details = {"from": before.tags, "to": tags, "version": number}
        audit_in_tenant(connection, access, "default_tags.update", f"tenant:{tenant_id}", now, details)
    return tags_response(tags, number, changed=True)


@router.get(DEFAULT_TAGS + "/history")
def list_default_tag_versions(access: Granted, platform: Here, paging: Paging) -> JSONResponse:
    """List the versions of the default tags, newest first, with the person who changed them."""
    tenant_id = str(access.tenant_id)
    page = page_of(platform, paging, "default-tag-versions", tenant_id)
    with platform.database.read() as connection:
        current = store.get(connection, tenant_id).version
        rows = store.version_page(connection, tenant_id, page.after[0] if page.after else None, page.limit)
    rows, cursor = page.cut(rows, "version")
    return JSONResponse({"versions": [version(row, current) for row in rows], "nextCursor": cursor})


def version(row: Record, current: int) -> dict[str, Any]:
    """Return a version as JSON."""
    return {
        "version": row.version,
        "tags": rules.in_order(row.tags),
        "changedAt": wire_time(row.changed_at),
        "changedBy": store.person(row, row.changed_by),
        "current": row.version == current,
    }


def tags_response(tags: dict[str, str], number: int, *, changed: bool | None = None) -> JSONResponse:
    """Return the tags with their ETag; `changed` is set after a write."""
    headers = {"ETag": f'"{number}"'}
    if changed is not None:
        headers[CHANGED] = "true" if changed else "false"
    return JSONResponse({"tags": rules.in_order(tags)}, headers=headers)

"""Routes of a tenant's default tags and their history."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from service.api.changes import change
from service.api.dependencies import IfMatch, PageParamsDep, PlatformDep, TenantContextDep
from service.api.pagination import page_of
from service.api.protected_route import protected_router
from service.api.responses import CHANGED, audit_in_tenant
from service.audit.entries import AuditEvent
from service.authz.paths import DEFAULT_TAGS
from service.clock import wire_time
from service.db.engine import Record
from service.default_tags import queries as store
from service.default_tags import tag_rules
from service.json_bodies import JSONResponse
from service.validation import expected_version, require_version

router = protected_router("default tags")
OBJECT_OF_TEXTS: JsonDict = {"type": "object", "additionalProperties": {"type": "string"}}


class TagSet(BaseModel):
    """`tags` is required, so that a misspelt member does not clear them."""

    model_config = ConfigDict(extra="forbid", strict=True)

    tags: Any = Field(json_schema_extra=OBJECT_OF_TEXTS)


@router.get(DEFAULT_TAGS, operation_id="getDefaultTags")
def get_default_tags(context: TenantContextDep, platform: PlatformDep) -> JSONResponse:
    """Return the tags that new resources get; `{}` for none."""
    with platform.database.read() as connection:
        row = store.get_tags(connection, context.tenant_id)
    return tags_response(row.tags, row.version)


@router.put(DEFAULT_TAGS, operation_id="putDefaultTags")
def put_default_tags(
    context: TenantContextDep, platform: PlatformDep, body: TagSet, if_match: IfMatch = None
) -> JSONResponse:
    """Replace all default tags. Existing resources do not change."""
    tenant_id, now = context.tenant_id, platform.clock.now()
    tags = tag_rules.read_set(body.tags)
    expected = expected_version(if_match)
    with change(platform, context) as (connection, context):
        before = store.get_tags(connection, tenant_id)
        require_version(expected, before.version, {"tags": tag_rules.in_order(before.tags)})
        if tags == before.tags:
            return tags_response(tags, before.version, changed=False)
        number = before.version + 1
        store.store_version(connection, tenant_id, number, tags, context.principal.user_id, now)
        details = {"from": before.tags, "to": tags, "version": number}
        audit_in_tenant(connection, context, AuditEvent.DEFAULT_TAGS_UPDATE, f"tenant:{tenant_id}", now, details)
    return tags_response(tags, number, changed=True)


@router.get(f"{DEFAULT_TAGS}/history", operation_id="listDefaultTagVersions")
def list_default_tag_versions(context: TenantContextDep, platform: PlatformDep, paging: PageParamsDep) -> JSONResponse:
    """List the versions of the default tags, newest first, with their authors."""
    tenant_id = context.tenant_id
    page = page_of(platform, paging, "default-tag-versions", tenant_id)
    with platform.database.read() as connection:
        current = store.get_tags(connection, tenant_id).version
        rows = store.version_page(connection, tenant_id, page.after[0] if page.after else None, page.limit)
    rows, cursor = page.cut(rows, "version")
    return JSONResponse({"versions": [version(row, current) for row in rows], "nextCursor": cursor})


def version(row: Record, current: int) -> dict[str, Any]:
    return {
        "version": row.version,
        "tags": tag_rules.in_order(row.tags),
        "changedAt": wire_time(row.changed_at),
        "changedBy": store.person(row, row.changed_by),
        "current": row.version == current,
    }


def tags_response(tags: dict[str, str], number: int, *, changed: bool | None = None) -> JSONResponse:
    """Return the tags with their ETag; `changed` is set after a write."""
    headers = {"ETag": f'"{number}"'}
    if changed is not None:
        headers[CHANGED] = "true" if changed else "false"
    return JSONResponse({"tags": tag_rules.in_order(tags)}, headers=headers)

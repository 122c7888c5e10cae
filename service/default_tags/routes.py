"""Default tags of a tenant over HTTP, and what they were. platform facts 2.7; checklist D01 to D32"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict
from starlette.responses import JSONResponse

from service.api.changes import change
from service.api.dependencies import IfMatch, PageParamsDep, PlatformDep, TenantContextDep
from service.api.pagination import page_of
from service.api.protected_route import protected_router
from service.api.responses import CHANGED, audit_in_tenant
from service.audit.events import AuditEvent
from service.authz.paths import DEFAULT_TAGS
from service.clock import wire_time
from service.db.engine import Record
from service.default_tags import queries as store
from service.default_tags import validation as rules
from service.validation import expected_version, require_version

router = protected_router("default tags")
OBJECT_OF_TEXTS: JsonDict = {"type": "object", "additionalProperties": {"type": "string"}}


class TagSet(BaseModel):
    """The body that replaces the set; a body without `tags` is refused, so that no typing error clears it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    tags: Any = Field(json_schema_extra=OBJECT_OF_TEXTS)


@router.get(DEFAULT_TAGS, operation_id="getDefaultTags")
def get_default_tags(context: TenantContextDep, platform: PlatformDep) -> JSONResponse:
    """The tags new resources get, `{}` when there are none."""
    with platform.database.read() as connection:
        row = store.get(connection, context.tenant_id)
    return tagged(row.tags, row.version)


@router.put(DEFAULT_TAGS, operation_id="putDefaultTags")
def put_default_tags(
    context: TenantContextDep, platform: PlatformDep, body: TagSet, if_match: IfMatch = None
) -> JSONResponse:
    """Replace the whole set; nothing is written when one tag is bad. No resource that exists changes."""
    tenant_id, now = context.tenant_id, platform.clock.now()
    wanted = rules.read_set(body.tags)
    expected = expected_version(if_match)
    with change(platform, context) as (connection, context):
        before = store.get(connection, tenant_id)
        require_version(expected, before.version, {"tags": rules.in_order(before.tags)})
        if wanted == before.tags:
            return tagged(wanted, before.version, changed=False)
        number = before.version + 1
        store.change(connection, tenant_id, number, wanted, context.principal.user_id, now)
        details = {"from": before.tags, "to": wanted, "version": number}
        audit_in_tenant(connection, context, AuditEvent.DEFAULT_TAGS_UPDATE, f"tenant:{tenant_id}", now, details)
    return tagged(wanted, number, changed=True)


@router.get(f"{DEFAULT_TAGS}/history", operation_id="listDefaultTagVersions")
def list_default_tag_versions(context: TenantContextDep, platform: PlatformDep, paging: PageParamsDep) -> JSONResponse:
    """What the set was, newest first, with who changed it."""
    tenant_id = context.tenant_id
    page = page_of(platform, paging, "default-tag-versions", tenant_id)
    with platform.database.read() as connection:
        current = store.get(connection, tenant_id).version
        rows = store.version_page(connection, tenant_id, page.after[0] if page.after else None, page.limit)
    rows, cursor = page.cut(rows, "version")
    return JSONResponse({"versions": [version(row, current) for row in rows], "nextCursor": cursor})


def version(row: Record, current: int) -> dict[str, Any]:
    """One version of the set, on the wire."""
    return {
        "version": row.version,
        "tags": rules.in_order(row.tags),
        "changedAt": wire_time(row.changed_at),
        "changedBy": store.person(row, row.changed_by),
        "current": row.version == current,
    }


def tagged(tags: dict[str, str], number: int, *, changed: bool | None = None) -> JSONResponse:
    """The set with its entity tag; `changed` says of a write whether there was anything to change."""
    headers = {"ETag": f'"{number}"'}
    if changed is not None:
        headers[CHANGED] = "true" if changed else "false"
    return JSONResponse({"tags": rules.in_order(tags)}, headers=headers)

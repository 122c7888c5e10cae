"""Routes of a tenant's default tags: their history, and applies to existing resources with preview, list and undo."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Depends
from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict
from sqlalchemy import Connection, RowMapping
from starlette.requests import Request

from client.models import strict_json
from client.models.apply_counts import separate_unlisted
from service import errors
from service.api.changes import change
from service.api.dependencies import IfMatch, PageParamsDep, PlatformDep, TenantContextDep, page_of
from service.api.protected_route import protected_router
from service.api.request_body import parse_body
from service.api.responses import CHANGED, audit_in_tenant
from service.audit.entries import AuditEvent
from service.authz.context import TenantContext
from service.authz.endpoints import DEFAULT_TAGS
from service.clock import wire_time
from service.context import Platform
from service.db.engine import Record
from service.default_tags import apply_job, tag_rules
from service.default_tags import queries as store
from service.default_tags.apply_batch import TagChange
from service.errors import ApiError
from service.jobs.queries import OPEN, open_run
from service.jobs.worker import WorkerDep
from service.json_bodies import JSONResponse
from service.validation import expected_version, require_version

router = protected_router("default tags")
OBJECT_OF_TEXTS: JsonDict = {"type": "object", "additionalProperties": {"type": "string"}}
NO_MEMBERS = {
    "requestBody": {
        "required": False,
        "content": {"application/json": {"schema": {"type": "object", "additionalProperties": False}}},
    }
}


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


class TagPreview(BaseModel):
    """The body of a preview; `tags` defaults to the stored tags."""

    model_config = ConfigDict(extra="forbid", strict=True)

    # A missing member and null differ: null is refused.
    tags: Any = Field(default=None, json_schema_extra=OBJECT_OF_TEXTS)


class Undo(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    preview: bool = Field(description="Return the effect without changes")


async def no_members(request: Request) -> None:
    """Check that the body is empty or `{}`.

    Raises:
        ApiError: 400 INVALID_INPUT.
    """
    try:
        value = await parse_body(request, lambda body: strict_json.loads(body) if body.strip() else {})
    except ValueError as error:
        raise errors.invalid_input(f"invalid request body: {error}", reason="invalid_json") from None
    if not isinstance(value, dict):
        raise errors.invalid_input("this request takes no body; send none, or {}", reason="unexpected_body")
    for member in value:
        name = member[:100]
        raise errors.invalid_input(
            f'invalid request body: unknown member "{name}"; send no body, or {{}}',
            member=name,
            reason="unknown_member",
        )


@router.post(
    f"{DEFAULT_TAGS}/apply",
    operation_id="applyDefaultTags",
    status_code=202,
    dependencies=[Depends(no_members)],
    openapi_extra=NO_MEMBERS,
)
def apply_default_tags(context: TenantContextDep, platform: PlatformDep, worker: WorkerDep) -> JSONResponse:
    """Start to add the current default tags to every resource that lacks them. The body is empty or `{}`.

    In the result, `examined` is the sum of `updated`, `unchanged`, `skipped` and `failed`, which count resources. A
    type whose resources could not be listed adds 1 to `unlisted`, and to `failures` an entry with an empty
    `resourceId`. The same applies to `byType` and previews.
    """
    tenant_id = context.tenant_id
    with change(platform, context) as (connection, context):
        row = store.get_tags(connection, tenant_id)
        tag_rules.require_provisioned(row.status)
        tag_rules.require_good(row.tags)
        job = TagChange(tenant_id, tag_rules.in_order(row.tags))
        run_id, document = plan_run(
            connection, platform, context, job, AuditEvent.DEFAULT_TAGS_APPLY, {"tags": job.tags}
        )
    worker.submit(run_id)
    return JSONResponse(document, 202)


@router.post(f"{DEFAULT_TAGS}/preview", operation_id="previewDefaultTags")
def preview_default_tags(context: TenantContextDep, platform: PlatformDep, body: TagPreview) -> JSONResponse:
    """Return the result that an apply of these tags, or of the stored tags, would have now."""
    tenant_id = context.tenant_id
    tags = tag_rules.read_set(body.tags) if "tags" in body.model_fields_set else None
    with platform.database.read() as connection:
        row = store.get_tags(connection, tenant_id)
        tag_rules.require_provisioned(row.status)
        job = TagChange(tenant_id, tag_rules.in_order(row.tags) if tags is None else tags)
        return JSONResponse(apply_job.preview(connection, job))


@router.get(f"{DEFAULT_TAGS}/runs", operation_id="listDefaultTagRuns")
def list_default_tag_runs(context: TenantContextDep, platform: PlatformDep) -> JSONResponse:
    """List the tenant's latest ten applies and undos, newest first."""
    with platform.database.read() as connection:
        rows = store.list_latest_runs(connection, context.tenant_id, apply_job.KIND)
    return JSONResponse({"runs": [run(row, rows) for row in rows]})


@router.post(DEFAULT_TAGS + "/runs/{run_id}/undo", operation_id="undoDefaultTagRun", status_code=202)
def undo_default_tag_run(
    context: TenantContextDep, platform: PlatformDep, worker: WorkerDep, run_id: str, body: Undo
) -> JSONResponse:
    """Start to remove the tags that a run added, unless changed since. With `preview`, only return the result."""
    tenant_id = context.tenant_id
    if body.preview:
        with platform.database.read() as connection:
            tag_rules.require_provisioned(store.get_tags(connection, tenant_id).status)
            return JSONResponse(apply_job.preview(connection, undo_of(connection, tenant_id, run_id)))
    with change(platform, context) as (connection, context):
        tag_rules.require_provisioned(store.get_tags(connection, tenant_id).status)
        require_none_open(connection, tenant_id)
        job = undo_of(connection, tenant_id, run_id)
        undo_id, document = plan_run(
            connection, platform, context, job, AuditEvent.DEFAULT_TAGS_UNDO, {"undoes": run_id}
        )
    worker.submit(undo_id)
    return JSONResponse(document, 202)


def plan_run(
    connection: Connection,
    platform: Platform,
    context: TenantContext,
    job: TagChange,
    event: AuditEvent,
    details: Mapping[str, Any],
) -> tuple[str, dict[str, Any]]:
    """Plan a run, with its audit entry; return its id and the response.

    Raises:
        ApiError: 409 APPLY_IN_PROGRESS.
    """
    now = platform.clock.now()
    require_none_open(connection, job.tenant_id)
    run_id = apply_job.plan(
        connection, job, started_by=context.principal.user_id, at=now, key_id=context.principal.key_id
    )
    audit_in_tenant(connection, context, event, f"tenant:{job.tenant_id}", now, {"runId": run_id, **details})
    return run_id, {
        "operationId": apply_job.operation_id(job.tenant_id, job.undoes),
        "runId": run_id,
        "status": "pending",
        "resourceType": apply_job.RESOURCE_TYPE,
        "createdAt": wire_time(now),
    }


def require_none_open(connection: Connection, tenant_id: str) -> None:
    """Check that the tenant has no open run. Call it inside `change`.

    Raises:
        ApiError: 409 APPLY_IN_PROGRESS with the run id.
    """
    if row := open_run(connection, tenant_id, apply_job.KIND):
        raise ApiError(
            409,
            "APPLY_IN_PROGRESS",
            "an apply of this tenant's default tags is already in progress",
            operationId=row["operation_id"],
            runId=row["run_id"],
        )


def undo_of(connection: Connection, tenant_id: str, run_id: str) -> TagChange:
    """Return the job that undoes a run.

    Raises:
        ApiError: 404 if the run is not among the latest, 409 NOTHING_TO_UNDO without a log.
    """
    rows = store.list_latest_runs(connection, tenant_id, apply_job.KIND)
    row = next((row for row in rows if row["run_id"] == run_id), None)
    if row is None:
        raise errors.not_found()
    if not row["has_undo_log"]:
        raise ApiError(
            409,
            "NOTHING_TO_UNDO",
            "this run has no tags left to undo",
            details={"undoneBy": undone_by(row, rows)},
        )
    return TagChange(tenant_id, tag_rules.in_order(row["snapshot"]["tags"]), undoes=run_id)


def run(row: RowMapping, rows: Sequence[RowMapping]) -> dict[str, Any]:
    undoes = row["snapshot"]["undoes"]
    return {
        "runId": row["run_id"],
        "kind": "apply" if undoes is None else "undo",
        "status": row["status"],
        "startedAt": wire_time(row["started_at"] or row["created_at"]),
        "completedAt": wire_time(row["completed_at"]) if row["completed_at"] else None,
        "appliedTags": tag_rules.in_order(row["snapshot"]["tags"]),
        "summary": separate_unlisted(row["counts"]["summary"]),
        "startedBy": store.person(row, row["started_by"]),
        # A run that ended early keeps its changes.
        "undoable": row["has_undo_log"] and row["status"] not in OPEN,
        "undoneBy": undone_by(row, rows),
        "undoes": undoes,
    }


def undone_by(row: RowMapping, rows: Sequence[RowMapping]) -> str | None:
    """Return the newest undo of a run, unless failed or cancelled; it is newer, so `rows` includes it."""
    for other in rows:
        if other["snapshot"]["undoes"] == row["run_id"] and other["status"] not in ("failed", "cancelled"):
            return str(other["run_id"])
    return None

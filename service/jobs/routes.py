"""Routes of operations and of the event stream."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping
from starlette.responses import StreamingResponse

from client.models.apply_counts import separate_unlisted
from service.api.dependencies import ContextDep, PlatformDep, TenantContextDep
from service.api.enforcement import load_grants, target_of
from service.api.protected_route import protected_router
from service.audit import entries
from service.audit.entries import AuditEvent
from service.authz.context import TenantContext
from service.authz.endpoints import OPERATIONS, TENANT, Permission
from service.clock import wire_time
from service.context import Platform
from service.errors import ApiError, operation_not_found
from service.http_server.request_metrics import spread
from service.http_server.work_queues import reject_request
from service.jobs import queries
from service.jobs.event_stream import MAX_PER_PRINCIPAL, EventHub, Stream, TooManyOfPrincipal, TooManyStreams
from service.jobs.job import cancel
from service.jobs.queries import OPEN, STALLED_AFTER
from service.jobs.worker import WorkerDep
from service.json_bodies import JSONResponse
from service.principals import grants

KEEPALIVE_SECONDS = 15.0
MAX_STREAM_SECONDS = 300.0
RETRY_AFTER_SECONDS = 10
# Either permits reading the results of applies.
RESULT_PERMISSIONS = (Permission.ORGANIZATIONS_DEFAULT_TAGS_READ, Permission.ORGANIZATIONS_DEFAULT_TAGS_APPLY)

router = protected_router("operations")


@router.get(OPERATIONS, operation_id="listOperations")
def list_operations(context: TenantContextDep, platform: PlatformDep) -> JSONResponse:
    """List the tenant's newest 50 operations, newest first."""
    now = platform.clock.now()
    with platform.database.read() as connection:
        rows = queries.of_tenant(connection, context.tenant_id)
        with_result = can_read_results(platform, connection, context)
    return JSONResponse({"operations": [operation(row, now, with_result=with_result) for row in rows]})


@router.get(OPERATIONS + "/{operation_id}", operation_id="getOperation")
def get_operation(operation_id: str, context: TenantContextDep, platform: PlatformDep) -> JSONResponse:
    """Return an operation by its run id, or the latest run of an operation id."""
    with platform.database.read() as connection:
        row = queries.find(connection, context.tenant_id, operation_id)
        if row is None:
            raise operation_not_found()
        with_result = can_read_results(platform, connection, context)
    return JSONResponse(operation(row, platform.clock.now(), with_result=with_result))


def can_read_results(platform: Platform, connection: Connection, context: TenantContext) -> bool:
    """Return whether the principal may read results of applies: people always, machines with a permission.

    Progress needs no permission.
    """
    if context.principal.kind == "session":
        return True
    ready = load_grants(platform, connection, context)
    return any(
        ready.decide(action, target_of(action, ready.principal), context.facts).allowed for action in RESULT_PERMISSIONS
    )


@router.get("/api/v1/platform/operations", operation_id="listPlatformOperations")
def list_platform_operations(platform: PlatformDep) -> JSONResponse:
    """List all open operations, oldest first, then the newest 50 ended ones."""
    with platform.database.read() as connection:
        rows = queries.of_platform(connection)
    return JSONResponse({"operations": [operation_of_platform(row, platform.clock.now()) for row in rows]})


@router.post("/api/v1/platform/operations/{operation_id}/cancel", operation_id="cancelOperation")
def cancel_operation(
    operation_id: str,
    context: ContextDep,
    platform: PlatformDep,
    worker: WorkerDep,
) -> JSONResponse:
    """Cancel an open operation of any tenant, by its run id, or the latest run of an operation id."""
    now = platform.clock.now()
    with platform.database.write() as connection:
        row = queries.find_anywhere(connection, operation_id)
        if row is None:
            raise operation_not_found()
        cancel(connection, row, now)
        entries.record(
            connection,
            context.principal,
            event=AuditEvent.OPERATION_CANCEL,
            target=f"operation:{row['run_id']}",
            organization_id=grants.organization_id_of(connection, row["tenant_id"]),
            tenant_id=row["tenant_id"],
            details={"operationId": row["operation_id"], "kind": row["kind"]},
            at=now,
        )
        cancelled = queries.locked(connection, row["run_id"])
        assert cancelled is not None
        document = operation(cancelled, now)
    worker.cancel(row["run_id"])
    return JSONResponse(document)


@router.get(f"{TENANT}/events", operation_id="streamEvents")
async def stream_events(
    context: TenantContextDep,
    platform: PlatformDep,
    worker: WorkerDep,
) -> StreamingResponse:
    """Stream the signals of the tenant for at most five minutes; then the client reconnects.

    The stream ends earlier if the credential expires or is revoked, the person loses access to the tenant, or the
    platform stops.
    """
    principal = context.principal
    seconds = MAX_STREAM_SECONDS
    if principal.expires_at is not None:
        seconds = min(seconds, (principal.expires_at - platform.clock.now()).total_seconds())
    hub = worker.events
    try:
        stream = hub.open(principal, context.tenant_id)
    except TooManyOfPrincipal:
        raise ApiError(
            429,
            "rate_limited",
            f"you have {MAX_PER_PRINCIPAL} open event streams, the maximum per user",
            details={
                "cap": "event_streams",
                "limit": MAX_PER_PRINCIPAL,
                "used": MAX_PER_PRINCIPAL,
                "retryAfterSeconds": RETRY_AFTER_SECONDS,
            },
            hint="close some streams, or poll the operation",
            headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
        ) from None
    except TooManyStreams:
        reject_request(platform.request_metrics.rejections, "event_streams")
        raise ApiError(
            503,
            "SERVICE_UNAVAILABLE",
            "too many event streams are open",
            hint="poll the operation instead",
            headers={"Retry-After": str(round(spread(RETRY_AFTER_SECONDS)))},
        ) from None
    return StreamingResponse(
        _events(hub, stream, seconds),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
    )


async def _events(
    hub: EventHub, stream: Stream, seconds: float, keepalive_seconds: float = KEEPALIVE_SECONDS
) -> AsyncIterator[str]:
    """Yield the text of a stream, and comments that reveal dead connections."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    try:
        while not stream.ended and (left := end - loop.time()) > 0:
            text = await stream.next(min(keepalive_seconds, left))
            if text:
                yield text
            elif text is None:
                yield ": keepalive\n\n"
    finally:
        hub.leave(stream)


def operation(row: RowMapping, now: datetime, *, with_result: bool = True) -> dict[str, Any]:
    """Return an operation as JSON. `error`, `errorCode`, `result` and `counts` may be absent.

    `counts` has the progress of an apply by type, with `totals` at its start. `stalled` marks an open operation without
    progress for a minute.

    Args:
        with_result: False omits the result, which names tags and resources.
    """
    document: dict[str, Any] = {
        "operationId": row["operation_id"],
        "runId": row["run_id"],
        "status": row["status"],
        "resourceType": row["resource_type"],
        "resourceId": row["resource_id"],
        "tenantId": row["tenant_id"],
        "kind": row["kind"],
        "progress": row["progress"],
        "currentStep": row["current_step"],
        "steps": row["steps"],
        "createdAt": wire_time(row["created_at"]),
        "startedAt": _maybe(row["started_at"]),
        "completedAt": _maybe(row["completed_at"]),
        "updatedAt": wire_time(row["updated_at"]),
        "seq": row["seq"],
        "stalled": row["status"] in OPEN and now - row["updated_at"] >= STALLED_AFTER,
        "startedBy": row["started_by"],
    }
    if "byType" in row["counts"]:
        document["counts"] = _in_order(row["counts"], row) | {"totals": row["snapshot"].get("totals", {})}
    for name, column in (("error", "error"), ("errorCode", "error_code")):
        if row[column] is not None:
            document[name] = row[column]
    if with_result and row["result"] is not None:
        in_order = _in_order(row["result"], row) if "counts" in document else {}
        document["result"] = row["result"] | in_order
    return document


def _in_order(counts: Mapping[str, Any], row: RowMapping) -> dict[str, Any]:
    """Return progress with types in the order of the run, which JSON columns lose."""
    by_type = counts["byType"]
    in_order = {kind: separate_unlisted(by_type[kind]) for kind in row["counts"]["order"] if kind in by_type}
    return {"summary": separate_unlisted(counts["summary"]), "byType": in_order}


def operation_of_platform(row: RowMapping, now: datetime) -> dict[str, Any]:
    return operation(row, now) | {"tenantName": row["tenant_name"]}


def _maybe(instant: datetime | None) -> str | None:
    return None if instant is None else wire_time(instant)

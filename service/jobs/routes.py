"""Operations of a tenant and of the platform, and the event stream. contract: operations, event stream

Operations as they go over the wire. contract: operations
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping
from starlette.responses import JSONResponse, StreamingResponse

from service.api.dependencies import ContextDep, PlatformDep, TenantContextDep
from service.api.enforcement import load_grants, target_of
from service.api.protected_route import protected_router
from service.audit import entries
from service.authz.context import TenantContext
from service.clock import wire_time
from service.context import Platform
from service.errors import ApiError, operation_not_found
from service.jobs import queries
from service.jobs.cancellation import cancel
from service.jobs.dependencies import WorkerDep
from service.jobs.event_stream import MAX_PER_PRINCIPAL, EventHub, Stream, TooManyOfPrincipal, TooManyStreams
from service.jobs.queries import OPEN, STILL
from service.principals import grants

KEEPALIVE_SECONDS = 15.0
LONGEST_STREAM_SECONDS = 300.0
RETRY_AFTER_SECONDS = 10
# Whoever may do one of these may know what an apply did.
OF_DEFAULT_TAGS = ("organizations:default-tags:read", "organizations:default-tags:apply")

router = protected_router("operations")


@router.get("/api/v1/tenants/{tenant_id}/operations")
def list_operations(context: TenantContextDep, platform: PlatformDep) -> JSONResponse:
    """The tenant's operations, newest first, at most 50."""
    now = platform.clock.now()
    with platform.database.read() as connection:
        rows = queries.of_tenant(connection, context.tenant_id)
        told = may_know_results(platform, connection, context)
    return JSONResponse({"operations": [operation(row, now, with_result=told) for row in rows]})


@router.get("/api/v1/tenants/{tenant_id}/operations/{operation_id}")
def get_operation(operation_id: str, context: TenantContextDep, platform: PlatformDep) -> JSONResponse:
    """One operation by its run id, or the latest run of an operation id; never another tenant's."""
    with platform.database.read() as connection:
        row = queries.find(connection, context.tenant_id, operation_id)
        if row is None:
            raise operation_not_found()
        told = may_know_results(platform, connection, context)
    return JSONResponse(operation(row, platform.clock.now(), with_result=told))


def may_know_results(platform: Platform, connection: Connection, context: TenantContext) -> bool:
    """Whether the caller may know what an apply did: a machine, where it may read default tags or apply them.

    How far an operation is, everybody in the tenant may know. contract: Authentication 4
    """
    if context.principal.kind == "session":
        return True
    ready = load_grants(platform, connection, context)
    return any(
        ready.decide(action, target_of(action, ready.principal), context.facts).allowed for action in OF_DEFAULT_TAGS
    )


@router.get("/api/v1/platform/operations")
def list_platform_operations(platform: PlatformDep) -> JSONResponse:
    """Every open operation, oldest first, then the newest 50 that are over."""
    with platform.database.read() as connection:
        rows = queries.of_platform(connection)
    return JSONResponse({"operations": [operation_of_platform(row, platform.clock.now()) for row in rows]})


@router.post("/api/v1/platform/operations/{operation_id}/cancel")
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
            operation="operation.cancel",
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


@router.get("/api/v1/tenants/{tenant_id}/events")
async def stream_events(
    context: TenantContextDep,
    platform: PlatformDep,
    worker: WorkerDep,
) -> StreamingResponse:
    """Signals of the tenant, for five minutes at most: then the reader opens another stream.

    It ends sooner when the credential expires, its session is ended or its key revoked, its person is gone or may not
    enter the tenant any more, or the platform stops.
    """
    caller = context.principal
    seconds = LONGEST_STREAM_SECONDS
    if caller.expires_at is not None:
        seconds = min(seconds, (caller.expires_at - platform.clock.now()).total_seconds())
    signals = worker.signals
    try:
        stream = signals.open(caller, context.tenant_id)
    except TooManyOfPrincipal:
        raise ApiError(
            429,
            "rate_limited",
            f"you have {MAX_PER_PRINCIPAL} event streams open, which is as many as one person may",
            details={
                "cap": "event_streams",
                "limit": MAX_PER_PRINCIPAL,
                "used": MAX_PER_PRINCIPAL,
                "retryAfterSeconds": RETRY_AFTER_SECONDS,
            },
            hint="close some of them, or read the operation now and then instead",
            headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
        ) from None
    except TooManyStreams:
        raise ApiError(
            503,
            "SERVICE_UNAVAILABLE",
            "no event stream is free at the moment",
            hint="read the operation now and then instead",
            headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
        ) from None
    return StreamingResponse(
        _events(signals, stream, seconds),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
    )


async def _events(signals: EventHub, stream: Stream, seconds: float) -> AsyncIterator[str]:
    """The stream's text, with a comment whenever nothing was said for 15 s so that dead connections are noticed."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    try:
        while not stream.ended and (left := end - loop.time()) > 0:
            text = await stream.next(min(KEEPALIVE_SECONDS, left))
            if text:
                yield text
            elif text is None:
                yield ": keepalive\n\n"
    finally:
        signals.leave(stream)


def operation(row: RowMapping, now: datetime, *, with_result: bool = True) -> dict[str, Any]:
    """One operation. `error`, `errorCode`, `result` and `counts` are there only when there is one.

    `with_result` False leaves the result out: tags and resources are named in it, which not everybody may know.
    `counts` of an apply has the `totals` it found at its beginning beside what it counted, by type: how far it is.
    `stalled` flags an open one whose `seq` has not moved for a minute: it may be waiting, or nobody may be at it.
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
        "stalled": row["status"] in OPEN and now - row["updated_at"] >= STILL,
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
    """The counts of an apply, its types in the order they are gone through, which a database need not keep."""
    by_type = {kind: counts["byType"][kind] for kind in row["counts"]["order"] if kind in counts["byType"]}
    return {"summary": counts["summary"], "byType": by_type}


def operation_of_platform(row: RowMapping, now: datetime) -> dict[str, Any]:
    """One operation as the platform's staff see it: with its tenant's name."""
    return operation(row, now) | {"tenantName": row["tenant_name"]}


def _maybe(instant: datetime | None) -> str | None:
    return None if instant is None else wire_time(instant)

"""Operations as they go over the wire. contract: operations"""

from datetime import datetime
from typing import Any

from sqlalchemy import RowMapping

from service.clock import wire_time
from service.operations.store import OPEN, STILL


def operation(row: RowMapping, now: datetime) -> dict[str, Any]:
    """One operation. `error`, `errorCode`, `result` and `counts` are there only when there is one.

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
        document["counts"] = {name: row["counts"][name] for name in ("summary", "byType")}
    for name, column in (("error", "error"), ("errorCode", "error_code"), ("result", "result")):
        if row[column] is not None:
            document[name] = row[column]
    return document


def operation_of_platform(row: RowMapping, now: datetime) -> dict[str, Any]:
    """One operation as the platform's staff see it: with its tenant's name."""
    return operation(row, now) | {"tenantName": row["tenant_name"]}


def _maybe(instant: datetime | None) -> str | None:
    return None if instant is None else wire_time(instant)

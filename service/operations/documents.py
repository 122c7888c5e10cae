"""Operations as they go over the wire. contract: operations"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import RowMapping

from service.clock import wire_time
from service.operations.store import OPEN, STILL


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

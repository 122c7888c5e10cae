"""Calls of the operator, available only on the platform's own socket."""

from __future__ import annotations

from typing import TYPE_CHECKING

from client.transport.call import Call, Model, Request, member_record, page_query, path, record, records

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from client.models.platform import (
        AuditExport,
        AuditVerdict,
        PlatformStatus,
        RestoredAccount,
        SegmentState,
        Stopping,
    )
    from client.models.quotas import QuotaRequest
    from client.models.tenants import Operation

PLATFORM_STATUS: Model[PlatformStatus] = Model("platform.PlatformStatus")
OPERATION: Model[Operation] = Model("tenants.Operation")
AUDIT_VERDICT: Model[AuditVerdict] = Model("platform.AuditVerdict")
AUDIT_EXPORT: Model[AuditExport] = Model("platform.AuditExport")
SEGMENT_STATE: Model[SegmentState] = Model("platform.SegmentState")
STOPPING: Model[Stopping] = Model("platform.Stopping")
RESTORED_ACCOUNT: Model[RestoredAccount] = Model("platform.RestoredAccount")
QUOTA_REQUEST: Model[QuotaRequest] = Model("quotas.QuotaRequest")


def status() -> Call[PlatformStatus]:
    """Get the status of the platform: version, data and load."""
    request = Request("GET", "/v1/platform/status", authenticated=False)
    return record(request, PLATFORM_STATUS, ("version", "pid"))


def operations() -> Call[list[Operation]]:
    """List operations of all tenants: open ones first, then the newest 50."""
    return records(Request("GET", "/v1/platform/operations", authenticated=False), "operations", OPERATION)


def cancel_operation(operation_id: str) -> Call[Operation]:
    """Cancel an open operation of any tenant by its operation id (the latest run) or its run id."""
    request = Request("POST", path("/v1/platform/operations/{}/cancel", operation_id), authenticated=False)
    return record(request, OPERATION, ("operationId", "status"))


def verify_audit() -> Call[AuditVerdict]:
    """Verify the chain of the whole audit log."""
    request = Request("GET", "/v1/platform/audit/verify", authenticated=False)
    return record(request, AUDIT_VERDICT, ("entries", "ok", "head"), nullable=("firstBad",))


def export_audit(before: str, after: int = 0) -> Call[AuditExport]:
    """Export entries after number `after` and before an instant, as many as fit in a response."""
    request = Request(
        "GET", "/v1/platform/audit/export", (("before", before), ("after", str(after))), authenticated=False
    )
    return record(request, AUDIT_EXPORT, nullable=("segment", "lines"))


def drop_audit(segment: Mapping[str, Any]) -> Call[SegmentState]:
    """Remove the oldest entries from the audit log, with the proof of their export."""
    request = Request("POST", "/v1/platform/audit/drop", body=dict(segment), authenticated=False)
    return record(request, SEGMENT_STATE, ("first", "last", "dropped"))


def verify_audit_segment(segment: Mapping[str, Any]) -> Call[SegmentState]:
    """Verify the proof of exported entries, and that the audit log continues them."""
    request = Request("POST", "/v1/platform/audit/verify-segment", body=dict(segment), authenticated=False)
    return record(request, SEGMENT_STATE, ("first", "last", "dropped"), reads=True)


def stop() -> Call[Stopping]:
    """Stop the platform. Running operations pause at a step and continue after the next start."""
    return record(Request("POST", "/v1/platform/stop", authenticated=False), STOPPING, ("status",))


def restore_account(email: str) -> Call[RestoredAccount]:
    """Restore a deleted account within 30 days. Its sessions remain ended, its keys revoked."""
    request = Request("POST", "/v1/platform/accounts/restore", body={"email": email}, authenticated=False)
    return record(request, RESTORED_ACCOUNT, ("id", "email"))


def quota_request_page(status: str = "", *, limit: int | None = None, cursor: str = "") -> Call[list[QuotaRequest]]:
    """List a page of the organizations' quota requests, newest first; with one status, or all ("")."""
    query = page_query(limit, cursor, *((("status", status),) if status else ()))
    request = Request("GET", "/v1/platform/quota-requests", query, authenticated=False)
    return records(request, "requests", QUOTA_REQUEST)


def review_quota(request_id: str, *, approve: bool, note: str | None = None) -> Call[QuotaRequest]:
    """Decide a pending request. An approval sets the organization's limit."""
    body = {"decision": "approve" if approve else "reject", **({} if note is None else {"note": note})}
    route = path("/v1/platform/quota-requests/{}/review", request_id)
    request = Request("POST", route, body=body, authenticated=False)
    return member_record(request, "request", QUOTA_REQUEST)

"""Calls of the operator, available only on the platform's own socket."""

from __future__ import annotations

from typing import TYPE_CHECKING

from client.transport.request import MOST, Call, Request, path, query

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from typing import Any

    from client.models.operations import Operation
    from client.models.platform import AuditVerdict, PlatformStatus
    from client.models.quotas import QuotaRequest
    from client.transport.async_client import AsyncClient


def status() -> Call:
    """Get the status of the platform: version, data and load."""
    request = Request("GET", "/v1/platform/status", authenticated=False)
    return Call(request, model="platform.PlatformStatus", needs=("version", "pid"))


def operations() -> Call:
    """List operations of all tenants: open ones first, then the newest 50."""
    return Call(Request("GET", "/v1/platform/operations", authenticated=False), "operations", "operations.Operation")


def cancel_operation(operation_id: str) -> Call:
    """Cancel an open operation of any tenant by its operation id (the latest run) or its run id."""
    request = Request("POST", path("/v1/platform/operations/{}/cancel", operation_id), authenticated=False)
    return Call(request, model="operations.Operation", needs=("operationId", "status"))


def verify_audit() -> Call:
    """Verify the chain of the whole audit log."""
    request = Request("GET", "/v1/platform/audit/verify", authenticated=False)
    return Call(request, model="platform.AuditVerdict", needs=("entries", "ok", "head"), nullable=("firstBad",))


def export_audit(before: str, after: int = 0) -> Call:
    """Export entries after number `after` and before an instant, as many as fit in a response."""
    request = Request(
        "GET", "/v1/platform/audit/export", (("before", before), ("after", str(after))), authenticated=False
    )
    return Call(request, model="platform.AuditExport", nullable=("segment", "lines"))


def drop_audit(segment: Mapping[str, Any]) -> Call:
    """Remove the oldest entries from the audit log, with the proof of their export."""
    request = Request("POST", "/v1/platform/audit/drop", body=dict(segment), authenticated=False)
    return Call(request, model="platform.SegmentState", needs=("first", "last", "dropped"))


def verify_audit_segment(segment: Mapping[str, Any]) -> Call:
    """Verify the proof of exported entries, and that the audit log continues them."""
    request = Request("POST", "/v1/platform/audit/verify-segment", body=dict(segment), authenticated=False)
    return Call(request, model="platform.SegmentState", needs=("first", "last", "dropped"), reads=True)


def stop() -> Call:
    """Stop the platform. Running operations pause at a step and continue after the next start."""
    return Call(Request("POST", "/v1/platform/stop", authenticated=False), model="platform.Stopping", needs=("status",))


def restore_account(email: str) -> Call:
    """Restore a deleted account within 30 days. Its sessions remain ended, its keys revoked."""
    request = Request("POST", "/v1/platform/accounts/restore", body={"email": email}, authenticated=False)
    return Call(request, model="platform.RestoredAccount", needs=("id", "email"))


def quota_request_page(status: str = "", *, limit: int | None = None, cursor: str = "") -> Call:
    """List a page of the organizations' quota requests, newest first; with one status, or all ("")."""
    chosen = (("status", status),) if status else ()
    asked = query(limit, cursor, *chosen)
    request = Request("GET", "/v1/platform/quota-requests", asked, authenticated=False)
    return Call(request, "requests", "quotas.QuotaRequest")


def review_quota(request_id: str, *, approve: bool, note: str | None = None) -> Call:
    """Decide a pending request. An approval sets the organization's limit."""
    body = {"decision": "approve" if approve else "reject", **({} if note is None else {"note": note})}
    route = path("/v1/platform/quota-requests/{}/review", request_id)
    request = Request("POST", route, body=body, authenticated=False)
    return Call(request, model="quotas.RequestAnswer", needs=("request",))


class Platform:
    """The calls of this module with models as results."""

    def __init__(self, http: AsyncClient) -> None:
        self._http = http

    async def status(self) -> PlatformStatus:
        found: PlatformStatus = await self._http.record(status())
        return found

    async def operations(self) -> list[Operation]:
        found: list[Operation] = await self._http.records(operations())
        return found

    async def cancel_operation(self, operation_id: str) -> Operation:
        found: Operation = await self._http.record(cancel_operation(operation_id))
        return found

    async def verify_audit(self) -> AuditVerdict:
        found: AuditVerdict = await self._http.record(verify_audit())
        return found

    def quota_requests(self, status: str = "") -> AsyncIterator[list[QuotaRequest]]:
        return self._http.pages(lambda cursor: quota_request_page(status, limit=MOST, cursor=cursor))

    async def review_quota(self, request_id: str, *, approve: bool, note: str | None = None) -> QuotaRequest:
        found: QuotaRequest = (await self._http.record(review_quota(request_id, approve=approve, note=note))).request
        return found

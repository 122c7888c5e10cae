"""Calls of the platform's staff, answered on the platform's own socket only. Source: design: The local platform."""

from __future__ import annotations

from typing import TYPE_CHECKING

from client.core import Call, Request, path
from client.pages import MOST, query

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from client.http import Http
    from client.models.operations import Operation
    from client.models.platform import AuditVerdict, PlatformStatus
    from client.models.quotas import QuotaRequest


def status() -> Call:
    """The running platform: which program, on what data, with how much to do."""
    request = Request("GET", "/v1/platform/status", authenticated=False)
    return Call(request, model="platform.PlatformStatus", needs=("version", "pid"))


def operations() -> Call:
    """Operations of all tenants: open ones first, then the newest 50."""
    return Call(Request("GET", "/v1/platform/operations", authenticated=False), "operations", "operations.Operation")


def cancel_operation(operation_id: str) -> Call:
    """Cancels an open operation of any tenant, by its operation id (the latest run) or its run id."""
    request = Request("POST", path("/v1/platform/operations/{}/cancel", operation_id), authenticated=False)
    return Call(request, model="operations.Operation", needs=("operationId", "status"))


def verify_audit() -> Call:
    """Reads the whole audit log and checks its chain."""
    request = Request("GET", "/v1/platform/audit/verify", authenticated=False)
    return Call(request, model="platform.AuditVerdict", needs=("entries", "ok", "head"), nullable=("firstBad",))


def stop() -> Call:
    """Asks the platform to stop; running operations park at a step and go on at the next start."""
    return Call(Request("POST", "/v1/platform/stop", authenticated=False), model="platform.Stopping", needs=("status",))


def restore_account(email: str) -> Call:
    """Brings a deleted account back, within 30 days; its sessions stay ended and its keys revoked."""
    request = Request("POST", "/v1/platform/accounts/restore", body={"email": email}, authenticated=False)
    return Call(request, model="platform.RestoredAccount", needs=("id", "email"))


def quota_request_page(status: str = "", *, limit: int | None = None, cursor: str = "") -> Call:
    """A page of the organizations' requests for other limits, newest first; of one status, or all of them ("")."""
    chosen = (("status", status),) if status else ()
    asked = query(limit, cursor, *chosen)
    request = Request("GET", "/v1/platform/quota-requests", asked, authenticated=False)
    return Call(request, "requests", "quotas.QuotaRequest")


def review_quota(request_id: str, *, approve: bool, note: str | None = None) -> Call:
    """Decides a pending request. Approving it sets the organization's limit."""
    body = {"decision": "approve" if approve else "reject", **({} if note is None else {"note": note})}
    route = path("/v1/platform/quota-requests/{}/review", request_id)
    request = Request("POST", route, body=body, authenticated=False)
    return Call(request, model="quotas.RequestAnswer", needs=("request",))


class Platform:
    """The same calls for the screens and the library, answered with models."""

    def __init__(self, http: Http) -> None:
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
        """The organizations' requests, of one status or all of them, newest first, page by page."""
        return self._http.pages(lambda cursor: quota_request_page(status, limit=MOST, cursor=cursor))

    async def review_quota(self, request_id: str, *, approve: bool, note: str | None = None) -> QuotaRequest:
        found: QuotaRequest = (await self._http.record(review_quota(request_id, approve=approve, note=note))).request
        return found

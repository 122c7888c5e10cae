"""Routes on which operators review quota requests of organizations, over the unix socket only."""

from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from service.api.dependencies import ContextDep, PageParamsDep, PlatformDep
from service.api.pagination import page_of
from service.api.protected_route import protected_router
from service.api.responses import or_404
from service.audit import entries
from service.audit.entries import AuditEvent
from service.authz.paths import PLATFORM_QUOTA_REQUESTS
from service.db.engine import Record
from service.db.revisions import lock_domains
from service.errors import ApiError
from service.json_response import JSONResponse
from service.quotas import limits, request_queries, request_rules
from service.quotas.request_queries import OF_ORGANIZATION, PENDING, request
from service.validation import is_id

router = protected_router("platform")
STATUS_BY_DECISION = {"approve": "approved", "reject": "rejected"}

Status = Annotated[Literal["pending", "approved", "rejected"] | None, Query(description="default: all")]


class Review(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    decision: Literal["approve", "reject"]
    note: str | None = Field(None, description="message to the requester; 1 to 500 characters")


@router.get(PLATFORM_QUOTA_REQUESTS, operation_id="listQuotaRequestsForReview")
def list_quota_requests_for_review(
    context: ContextDep, platform: PlatformDep, paging: PageParamsDep, status: Status = None
) -> JSONResponse:
    """List the requests of all organizations, newest first."""
    page = page_of(platform, paging, "quota-requests for review", status or "")
    with platform.database.read() as connection:
        rows = request_queries.for_review(connection, status, page.after, page.limit)
    rows, cursor = page.cut(rows, "created_at", "id")
    return JSONResponse({"requests": [to_json(row) for row in rows], "nextCursor": cursor})


@router.post(PLATFORM_QUOTA_REQUESTS + "/{request_id}/review", operation_id="reviewQuotaRequest")
def review_quota_request(context: ContextDep, platform: PlatformDep, request_id: str, body: Review) -> JSONResponse:
    """Approve or reject a pending request. An approved limit is in force at once."""
    now, status = platform.clock.now(), STATUS_BY_DECISION[body.decision]
    note = None if body.note is None else request_rules.reason(body.note, "note")
    with platform.database.write() as connection:
        # As each request of the organization does.
        lock_domains(connection, [get_request_or_404(connection, request_id).organization_id])
        row = get_request_or_404(connection, request_id)
        if row.status != PENDING:
            raise ApiError(
                409,
                "QUOTA_REQUEST_DECIDED",
                "this request is already decided",
                details={"status": row.status, "decision": row.decision},
            )
        decision = {"status": status, "decision": note or status, "decided_at": now, "decided_by": "staff"}
        request_queries.decide(connection, request_id, decision)
        if status == "approved":
            limits.set_organization_limit(connection, row.organization_id, row.resource_type, row.limit)
        entries.record(
            connection,
            context.principal,
            event=AuditEvent.QUOTA_REQUEST_REVIEW,
            target=f"quota_request:{request_id}",
            organization_id=row.organization_id,
            details={"resourceType": row.resource_type, "from": row.limit_before, "to": row.limit, "status": status},
            at=now,
        )
        return JSONResponse({"request": to_json(get_request_or_404(connection, request_id))})


def get_request_or_404(connection: Connection, request_id: str) -> Record:
    """Return a request of an organization.

    Raises:
        ApiError: 404, also for a tenant's request.
    """
    row = or_404(request_queries.one(connection, request_id) if is_id(request_id) else None)
    return or_404(row if row.scope == OF_ORGANIZATION else None)


def to_json(row: Record) -> dict[str, Any]:
    return request(row._asdict()) | {"organizationName": row.organization_name}

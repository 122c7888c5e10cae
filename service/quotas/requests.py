"""Routes of quota requests and their review.

A tenant's request is decided at once. An organization's waits for a review by operators, over the unix socket only.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import uuid4

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from service.account.queries import person
from service.api.changes import change, resolve_idempotency_key
from service.api.dependencies import (
    ContextDep,
    IdempotencyKey,
    OrganizationContextDep,
    PageParamsDep,
    PlatformDep,
    TenantContextDep,
    page_of,
)
from service.api.protected_route import protected_router
from service.api.responses import CHANGED, or_404
from service.audit import entries
from service.audit.entries import AuditEvent
from service.authn.rate_limit import whole_seconds
from service.authz.context import AuthorizationContext
from service.authz.endpoints import ORGANIZATION_QUOTA_REQUESTS, PLATFORM_QUOTA_REQUESTS, TENANT_QUOTA_REQUESTS
from service.catalogue.resource_types import QuotaType
from service.db.engine import Record
from service.db.revisions import lock_domains
from service.db.tables import MICROSECOND
from service.errors import ApiError
from service.json_bodies import JSONResponse
from service.quotas import limits, quota_request
from service.quotas.quota_request import (
    MAX_REQUESTS_PER_HOUR,
    OF_ORGANIZATION,
    OF_TENANT,
    PENDING,
    UNCHANGED,
    WAITING,
    Decision,
    request_json,
)
from service.validation import is_id

router = protected_router("quotas")
review_router = protected_router("platform")
STATUS_BY_DECISION = {"approve": "approved", "reject": "rejected"}

Status = Annotated[Literal["pending", "approved", "rejected"] | None, Query(description="default: all")]


class NewRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    resource_type: str = Field(alias="resourceType")
    limit: int = Field(description="the new limit, not an increment, in the unit of the resource type; 0 to 2^53")
    reason: str = Field(description="1 to 500 characters")


@dataclass(frozen=True, slots=True)
class LimitChange:
    id: str
    quota: QuotaType
    limit: int
    reason: str
    at: datetime

    @property
    def resource_type(self) -> str:
        return self.quota.resource_type


@router.post(TENANT_QUOTA_REQUESTS, operation_id="requestTenantQuota", status_code=201)
def request_tenant_quota(
    context: TenantContextDep, platform: PlatformDep, body: NewRequest, idempotency_key: IdempotencyKey = None
) -> JSONResponse:
    """Request another limit for the tenant. An approved limit is in force at once.

    A request for the current limit returns 200 and is not stored.
    """
    tenant_id, organization_id = context.tenant_id, context.organization_id
    draft = parse_request(body, platform.clock.now())
    with change(platform, context) as (connection, context):
        draft, earlier = resolve_idempotent(
            connection, context, AuditEvent.QUOTA_REQUEST_CREATE, draft, idempotency_key
        )
        if earlier:
            return earlier
        current = limits.limits_of(connection, tenant_id)[draft.resource_type]
        if draft.limit == current:
            return unchanged(connection, context, draft)
        require_rate(connection, tenant_id, draft.at)
        maximum = or_404(limits.organization_limits(connection, organization_id)[draft.resource_type])
        allocated = limits.allocated(connection, organization_id)[draft.resource_type]
        bound = quota_request.requestable(current, maximum, allocated)
        quota_request.require_within_bound(draft.quota, current, draft.limit, bound)
        # Only a lower limit depends on the use; reading it is slow.
        lowers = draft.limit < current
        use = limits.uses(connection, [tenant_id], [draft.quota])[tenant_id][draft.resource_type] if lowers else None
        decision = quota_request.decide(current, draft.limit, use)
        if decision.status == "approved":
            limits.set_limit(connection, tenant_id, draft.resource_type, draft.limit)
        return add_request(connection, context, AuditEvent.QUOTA_REQUEST_CREATE, draft, current, decision)


@router.get(TENANT_QUOTA_REQUESTS, operation_id="listTenantQuotaRequests")
def list_tenant_quota_requests(context: TenantContextDep, platform: PlatformDep, paging: PageParamsDep) -> JSONResponse:
    """List the tenant's requests, newest first; for people also the organization's pending requests."""
    tenant_id = context.tenant_id
    organization_id = context.organization_id if context.principal.kind == "session" else None
    page = page_of(platform, paging, "quota-requests", tenant_id, organization_id or "")
    with platform.database.read() as connection:
        rows = quota_request.requests_of_tenant(connection, tenant_id, organization_id, page.after, page.limit)
    rows, cursor = page.cut(rows, "created_at", "id")
    return JSONResponse({"requests": [request_json(row._asdict()) for row in rows], "nextCursor": cursor})


@router.post(ORGANIZATION_QUOTA_REQUESTS, operation_id="requestOrganizationQuota", status_code=201)
def request_organization_quota(
    context: OrganizationContextDep, platform: PlatformDep, body: NewRequest, idempotency_key: IdempotencyKey = None
) -> JSONResponse:
    """Request another limit for the organization, for review. Each resource type may have a single pending request."""
    organization_id = context.organization_id
    draft = parse_request(body, platform.clock.now())
    with change(platform, context) as (connection, context):
        draft, earlier = resolve_idempotent(
            connection, context, AuditEvent.QUOTA_REQUEST_CREATE_ORGANIZATION, draft, idempotency_key
        )
        if earlier:
            return earlier
        current = or_404(limits.organization_limits(connection, organization_id)[draft.resource_type])
        if draft.limit == current:
            return unchanged(connection, context, draft)
        pending = quota_request.pending_request(connection, organization_id, draft.resource_type)
        if pending:
            raise quota_request.already_pending(pending.id, pending.limit)
        return add_request(connection, context, AuditEvent.QUOTA_REQUEST_CREATE_ORGANIZATION, draft, current, WAITING)


@router.get(ORGANIZATION_QUOTA_REQUESTS, operation_id="listOrganizationQuotaRequests")
def list_organization_quota_requests(
    context: OrganizationContextDep, platform: PlatformDep, paging: PageParamsDep
) -> JSONResponse:
    """List the requests for the organization, newest first."""
    organization_id = context.organization_id
    page = page_of(platform, paging, "quota-requests", organization_id)
    with platform.database.read() as connection:
        rows = quota_request.requests_of_organization(connection, organization_id, page.after, page.limit)
    rows, cursor = page.cut(rows, "created_at", "id")
    return JSONResponse({"requests": [request_json(row._asdict()) for row in rows], "nextCursor": cursor})


def parse_request(body: NewRequest, now: datetime) -> LimitChange:
    """Validate a request and give it an id.

    Raises:
        ApiError: 400 UNKNOWN_RESOURCE_TYPE, QUOTA_NOT_REQUESTABLE, INVALID_INPUT.
    """
    quota = quota_request.requested_type(body.resource_type)
    limit, reason = quota_request.requested_limit(body.limit), quota_request.reason(body.reason)
    return LimitChange(str(uuid4()), quota, limit, reason, now)


def resolve_idempotent(
    connection: Connection, context: AuthorizationContext, event: AuditEvent, draft: LimitChange, key: str | None
) -> tuple[LimitChange, JSONResponse | None]:
    """Return the draft with its final id, and the response to an earlier request with the same key."""
    content = (
        str(context.tenant_id or context.organization_id),
        draft.resource_type,
        str(draft.limit),
        draft.reason,
    )
    draft = replace(
        draft,
        id=resolve_idempotency_key(connection, context, key, event, content, draft.id, draft.at),
    )
    row = quota_request.find_request(connection, draft.id)
    return draft, None if row is None else JSONResponse({"request": request_json(row._asdict())}, 201)


def require_rate(connection: Connection, tenant_id: str, now: datetime) -> None:
    """Check the rate of the tenant's requests.

    Raises:
        ApiError: 429 QUOTA_REQUESTS_LIMITED.
    """
    until = quota_request.next_allowed_at(connection, tenant_id, MAX_REQUESTS_PER_HOUR, now)
    if until is not None:
        raise quota_request.too_many(whole_seconds((until - now) // MICROSECOND))


def row_of(context: AuthorizationContext, draft: LimitChange, current: int, decision: Decision) -> dict[str, Any]:
    pending = decision.status == "pending"
    return {
        "id": draft.id,
        "scope": OF_TENANT if context.tenant_id else OF_ORGANIZATION,
        "organization_id": context.organization_id,
        "tenant_id": context.tenant_id,
        "resource_type": draft.resource_type,
        "limit_before": current,
        "limit": draft.limit,
        "reason": draft.reason,
        "status": decision.status,
        "decision": None if pending else decision.decision,
        "details": decision.details,
        "requested_by": context.principal.user_id,
        "created_at": draft.at,
        "decided_at": None if pending else draft.at,
        "decided_by": None if pending else "platform",
    }


def unchanged(connection: Connection, context: AuthorizationContext, draft: LimitChange) -> JSONResponse:
    """Return the response to a request for the current limit; it is not stored."""
    row = row_of(context, replace(draft, id=""), draft.limit, UNCHANGED)
    requester = person(connection, context.principal.user_id)
    names = {"requester_name": requester.name, "requester_email": requester.email}
    return JSONResponse({"request": request_json(row | names)}, headers={CHANGED: "false"})


def add_request(
    connection: Connection,
    context: AuthorizationContext,
    event: AuditEvent,
    draft: LimitChange,
    current: int,
    decision: Decision,
) -> JSONResponse:
    """Store a request with its audit entry. A denial is audited as `refused`."""
    quota_request.add_request(connection, row_of(context, draft, current, decision))
    entries.record(
        connection,
        context.principal,
        event=event,
        target=f"quota_request:{draft.id}",
        outcome="refused" if decision.status == "denied" else "done",
        organization_id=context.organization_id,
        tenant_id=context.tenant_id,
        details={
            "resourceType": draft.resource_type,
            "from": current,
            "to": draft.limit,
            "status": decision.status,
        },
        at=draft.at,
    )
    row = or_404(quota_request.find_request(connection, draft.id))
    return JSONResponse({"request": request_json(row._asdict())}, 201, {CHANGED: "true"})


class Review(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    decision: Literal["approve", "reject"]
    note: str | None = Field(None, description="message to the requester; 1 to 500 characters")


@review_router.get(PLATFORM_QUOTA_REQUESTS, operation_id="listQuotaRequestsForReview")
def list_quota_requests_for_review(
    context: ContextDep, platform: PlatformDep, paging: PageParamsDep, status: Status = None
) -> JSONResponse:
    """List the requests of all organizations, newest first."""
    page = page_of(platform, paging, "quota-requests for review", status or "")
    with platform.database.read() as connection:
        rows = quota_request.requests_for_review(connection, status, page.after, page.limit)
    rows, cursor = page.cut(rows, "created_at", "id")
    return JSONResponse({"requests": [to_json(row) for row in rows], "nextCursor": cursor})


@review_router.post(PLATFORM_QUOTA_REQUESTS + "/{request_id}/review", operation_id="reviewQuotaRequest")
def review_quota_request(context: ContextDep, platform: PlatformDep, request_id: str, body: Review) -> JSONResponse:
    """Approve or reject a pending request. An approved limit is in force at once."""
    now, status = platform.clock.now(), STATUS_BY_DECISION[body.decision]
    note = None if body.note is None else quota_request.reason(body.note, "note")
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
        quota_request.store_decision(connection, request_id, decision)
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
    row = or_404(quota_request.find_request(connection, request_id) if is_id(request_id) else None)
    return or_404(row if row.scope == OF_ORGANIZATION else None)


def to_json(row: Record) -> dict[str, Any]:
    return request_json(row._asdict()) | {"organizationName": row.organization_name}


router.routes.extend(review_router.routes)

"""Requests for other limits over HTTP. contract: quota request; checklist U

A tenant's is decided at once, within what its organization's limit leaves; an organization's waits for the platform's
staff (`review_routes`).
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection
from starlette.responses import JSONResponse

from service.account.queries import person
from service.api.changes import change
from service.api.dependencies import (
    IdempotencyKey,
    OrganizationContextDep,
    PageParamsDep,
    PlatformDep,
    TenantContextDep,
)
from service.api.idempotency import resolve_idempotency_key
from service.api.pagination import page_of
from service.api.protected_route import protected_router
from service.api.responses import CHANGED, or_404
from service.audit import entries
from service.audit.events import AuditEvent
from service.authn.rate_limit import whole_seconds
from service.authz.context import AuthorizationContext
from service.authz.paths import ORGANIZATION_QUOTA_REQUESTS, TENANT_QUOTA_REQUESTS
from service.catalogue.quota_types import QuotaType
from service.db.tables import MICROSECOND
from service.quotas import limits, queries, request_queries, request_validation, usage
from service.quotas.request_queries import OF_ORGANIZATION, OF_TENANT, request
from service.quotas.request_validation import MAX_REQUESTS_PER_HOUR, Decision

router = protected_router("quotas")
WAITING = Decision("pending", "waits for review by the platform's staff")
UNCHANGED = Decision("approved", "that is the limit already")


class NewRequest(BaseModel):
    """The body that requests another limit."""

    model_config = ConfigDict(extra="forbid", strict=True)

    resource_type: str = Field(alias="resourceType")
    limit: int = Field(description="the new limit, not an increment, in the unit of the resource type; 0 to 2^53")
    reason: str = Field(description="1 to 500 characters")


@dataclass(frozen=True, slots=True)
class LimitChange:
    """A request that is well formed, on its way."""

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
    """Ask for another limit of the tenant: decided at once, and in force from then on if it is approved.

    The limit it has already is answered with 200, and nothing is stored.
    """
    tenant_id, organization_id = context.tenant_id, context.organization_id
    wish = parse_request(body, platform.clock.now())
    with change(platform, context, lock_organization=True) as (connection, context):
        wish, answered = resolve_idempotent(connection, context, AuditEvent.QUOTA_REQUEST_CREATE, wish, idempotency_key)
        if answered:
            return answered
        current = queries.limits_of(connection, tenant_id)[wish.resource_type]
        if wish.limit == current:
            return unchanged(connection, context, wish)
        require_rate(connection, tenant_id, wish.at)
        at_most = or_404(queries.organization_limits(connection, organization_id)[wish.resource_type])
        allocated = queries.allocated(connection, organization_id)[wish.resource_type]
        bound = limits.requestable(current, at_most, allocated)
        request_validation.require_within_bound(wish.quota, current, wish.limit, bound)
        # Counting takes time, and a raise does not depend on it.
        lowers = wish.limit < current
        use = usage.uses(connection, [tenant_id], [wish.quota])[tenant_id][wish.resource_type] if lowers else None
        verdict = request_validation.decide(current, wish.limit, use)
        if verdict.status == "approved":
            queries.set_limit(connection, tenant_id, wish.resource_type, wish.limit)
        return add_request(connection, context, AuditEvent.QUOTA_REQUEST_CREATE, wish, current, verdict)


@router.get(TENANT_QUOTA_REQUESTS, operation_id="listTenantQuotaRequests")
def list_tenant_quota_requests(context: TenantContextDep, platform: PlatformDep, paging: PageParamsDep) -> JSONResponse:
    """The tenant's requests, and to people its organization's pending ones too; newest first."""
    tenant_id = context.tenant_id
    organization_id = context.organization_id if context.principal.kind == "session" else None
    page = page_of(platform, paging, "quota-requests", tenant_id, organization_id or "")
    with platform.database.read() as connection:
        rows = request_queries.of_tenant(connection, tenant_id, organization_id, page.after, page.limit)
    rows, cursor = page.cut(rows, "created_at", "id")
    return JSONResponse({"requests": [request(row._asdict()) for row in rows], "nextCursor": cursor})


@router.post(ORGANIZATION_QUOTA_REQUESTS, operation_id="requestOrganizationQuota", status_code=201)
def request_organization_quota(
    context: OrganizationContextDep, platform: PlatformDep, body: NewRequest, idempotency_key: IdempotencyKey = None
) -> JSONResponse:
    """Ask for another limit of the organization, higher or lower: it waits for review, one for each resource type."""
    organization_id = context.organization_id
    wish = parse_request(body, platform.clock.now())
    with change(platform, context, lock_organization=True) as (connection, context):
        wish, answered = resolve_idempotent(
            connection, context, AuditEvent.QUOTA_REQUEST_CREATE_ORGANIZATION, wish, idempotency_key
        )
        if answered:
            return answered
        current = or_404(queries.organization_limits(connection, organization_id)[wish.resource_type])
        if wish.limit == current:
            return unchanged(connection, context, wish)
        pending = request_queries.pending(connection, organization_id, wish.resource_type)
        if pending:
            raise request_validation.already_pending(pending.id, pending.limit)
        return add_request(connection, context, AuditEvent.QUOTA_REQUEST_CREATE_ORGANIZATION, wish, current, WAITING)


@router.get(ORGANIZATION_QUOTA_REQUESTS, operation_id="listOrganizationQuotaRequests")
def list_organization_quota_requests(
    context: OrganizationContextDep, platform: PlatformDep, paging: PageParamsDep
) -> JSONResponse:
    """The requests made for the organization, newest first."""
    organization_id = context.organization_id
    page = page_of(platform, paging, "quota-requests", organization_id)
    with platform.database.read() as connection:
        rows = request_queries.of_organization(connection, organization_id, page.after, page.limit)
    rows, cursor = page.cut(rows, "created_at", "id")
    return JSONResponse({"requests": [request(row._asdict()) for row in rows], "nextCursor": cursor})


def parse_request(body: NewRequest, now: datetime) -> LimitChange:
    """What a body asks for, under a new id.

    Raises:
        Refusal: 400 UNKNOWN_RESOURCE_TYPE, QUOTA_NOT_REQUESTABLE, INVALID_INPUT.
    """
    quota = request_validation.requested_type(body.resource_type)
    limit, reason = request_validation.requested_limit(body.limit), request_validation.reason(body.reason)
    return LimitChange(str(uuid4()), quota, limit, reason, now)


def resolve_idempotent(
    connection: Connection, context: AuthorizationContext, event: AuditEvent, wish: LimitChange, key: str | None
) -> tuple[LimitChange, JSONResponse | None]:
    """The wish under the id it has for good, and the answer to an earlier one under the same key, if there was one."""
    same = (str(context.tenant_id or context.organization_id), wish.resource_type, str(wish.limit), wish.reason)
    wish = replace(wish, id=resolve_idempotency_key(connection, context, key, event, same, wish.id, wish.at))
    row = request_queries.one(connection, wish.id)
    return wish, None if row is None else JSONResponse({"request": request(row._asdict())}, 201)


def require_rate(connection: Connection, tenant_id: str, now: datetime) -> None:
    """Refuse more requests of a tenant than fit into an hour. hostile D07

    Raises:
        Refusal: 429 QUOTA_REQUESTS_LIMITED.
    """
    until = request_queries.hour_full_until(connection, tenant_id, MAX_REQUESTS_PER_HOUR, now)
    if until is not None:
        raise request_validation.too_many(whole_seconds((until - now) // MICROSECOND))


def row_of(context: AuthorizationContext, wish: LimitChange, current: int, verdict: Decision) -> dict[str, Any]:
    """A request as it is stored."""
    waits = verdict.status == "pending"
    return {
        "id": wish.id,
        "scope": OF_TENANT if context.tenant_id else OF_ORGANIZATION,
        "organization_id": context.organization_id,
        "tenant_id": context.tenant_id,
        "resource_type": wish.resource_type,
        "limit_before": current,
        "limit": wish.limit,
        "reason": wish.reason,
        "status": verdict.status,
        "decision": None if waits else verdict.decision,
        "details": verdict.details,
        "requested_by": context.principal.user_id,
        "created_at": wish.at,
        "decided_at": None if waits else wish.at,
        "decided_by": None if waits else "platform",
    }


def unchanged(connection: Connection, context: AuthorizationContext, wish: LimitChange) -> JSONResponse:
    """The answer to a request for the limit there is: nothing of it is kept, it has no id. checklist U18"""
    row = row_of(context, replace(wish, id=""), wish.limit, UNCHANGED)
    caller = person(connection, context.principal.user_id)
    named = {"requester_name": caller.name, "requester_email": caller.email}
    return JSONResponse({"request": request(row | named)}, headers={CHANGED: "false"})


def add_request(
    connection: Connection,
    context: AuthorizationContext,
    event: AuditEvent,
    wish: LimitChange,
    current: int,
    verdict: Decision,
) -> JSONResponse:
    """Keep a request and its audit entry; the answer to it. A denied one is a refused change in the log."""
    request_queries.add(connection, row_of(context, wish, current, verdict))
    entries.record(
        connection,
        context.principal,
        event=event,
        target=f"quota_request:{wish.id}",
        outcome="refused" if verdict.status == "denied" else "done",
        organization_id=context.organization_id,
        tenant_id=context.tenant_id,
        details={
            "resourceType": wish.resource_type,
            "from": current,
            "to": wish.limit,
            "status": verdict.status,
        },
        at=wish.at,
    )
    row = or_404(request_queries.one(connection, wish.id))
    return JSONResponse({"request": request(row._asdict())}, 201, {CHANGED: "true"})

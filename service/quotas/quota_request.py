"""A quota request: validation, decision, the bound without review, SQL and JSON."""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, and_, insert, or_, select, update

from service import errors, validation
from service.catalogue.resource_types import QuotaType, quota_types
from service.clock import wire_time
from service.db.engine import Record
from service.db.statements import KeysetKey, after_key, records
from service.db.tables import organizations, quota_requests, users
from service.errors import ApiError
from service.quotas.limits import Use

MAX_REASON_LENGTH = 500
MAX_LIMIT = 2**53
# Per tenant, so that its history cannot be flooded.
MAX_REQUESTS_PER_HOUR = 100
Status = Literal["approved", "denied", "pending", "rejected"]
PENDING = "pending"
OF_TENANT, OF_ORGANIZATION = "tenant", "organization"
_ORDER = (quota_requests.c.created_at, quota_requests.c.id)

_REQUEST = (
    select(
        quota_requests,
        users.c.name.label("requester_name"),
        users.c.email.label("requester_email"),
        organizations.c.name.label("organization_name"),
    )
    .join(users, users.c.id == quota_requests.c.requested_by)
    .join(organizations, organizations.c.id == quota_requests.c.organization_id)
)


def requested_type(name: str) -> QuotaType:
    """Return a quota type by its exact name.

    Raises:
        ApiError: 400 UNKNOWN_RESOURCE_TYPE with the known types, QUOTA_NOT_REQUESTABLE.
    """
    names = [quota.resource_type for quota in quota_types().values()]
    if name not in names:
        near = [other for other in names if other == name.lower()] or get_close_matches(name, names, n=3)
        raise ApiError(
            400,
            "UNKNOWN_RESOURCE_TYPE",
            "this resource type has no quota",
            details={"suggestions": near, "known": names},
        )
    quota = quota_types()[name]
    if quota.organization is None:
        raise ApiError(
            400,
            "QUOTA_NOT_REQUESTABLE",
            f"a limit of {quota.title} cannot be requested",
            details={"resourceType": name},
            hint="contact support",
        )
    return quota


def requested_limit(limit: int) -> int:
    """Check the range of a limit; JSON numbers above 2^53 lose precision.

    Raises:
        ApiError: 400 INVALID_INPUT.
    """
    if not 0 <= limit <= MAX_LIMIT:
        raise errors.invalid_input(
            f"limit must be 0 to {MAX_LIMIT}", member="limit", reason="range", min=0, max=MAX_LIMIT
        )
    return limit


def reason(text: str, member: str = "reason") -> str:
    """Validate and normalize the reason of a request: NFC, trimmed, 1 to 500 characters.

    Raises:
        ApiError: 400 INVALID_INPUT with reason `blank`, `too_long` or `character`.
    """
    normalized = unicodedata.normalize("NFC", text).strip()
    if not validation.visible(normalized) and not validation.has_control(normalized):
        raise errors.invalid_input(f"{member} must not be blank", member=member, reason="blank")
    if len(normalized) > MAX_REASON_LENGTH:
        raise errors.invalid_input(
            f"{member} has at most {MAX_REASON_LENGTH} characters",
            member=member,
            reason="too_long",
            max=MAX_REASON_LENGTH,
        )
    if validation.has_control(normalized, allowed=validation.LINE_BREAKS):
        raise errors.invalid_input(
            f"{member} must not contain control or formatting characters", member=member, reason="character"
        )
    return normalized


def too_many(wait: int) -> ApiError:
    """Return the error for the rate limit; `wait` is in seconds."""
    return ApiError(
        429,
        "QUOTA_REQUESTS_LIMITED",
        f"a tenant may make {MAX_REQUESTS_PER_HOUR} quota requests in an hour",
        details={"cap": MAX_REQUESTS_PER_HOUR, "retryAfterSeconds": wait},
        headers={"Retry-After": str(wait)},
    )


@dataclass(frozen=True, slots=True)
class Decision:
    """`decision` is the reason as text, `details` its figures."""

    status: Status
    decision: str
    details: Mapping[str, Any] | None = None


WAITING = Decision("pending", "waits for review by the platform's operator")
UNCHANGED = Decision("approved", "the limit is unchanged")


def decide(current: int, limit: int, use: Use | None) -> Decision:
    """Decide on a limit that needs no review.

    Args:
        use: Use by the tenant; None if unknown.
    """
    if limit >= current:
        return Decision("approved", "within the limit that needs no review")
    if use is None:
        return Decision("denied", "the current use is unknown", {"reason": "usage_unknown"})
    if use.total > limit:
        creating = f" ({use.creating} being created)" if use.creating else ""
        figures = {"used": use.total, "creating": use.creating, "limit": limit}
        return Decision("denied", f"{use.total} in use{creating}: more than {limit}", figures)
    return Decision("approved", "the current use fits the new limit")


def require_within_bound(quota: QuotaType, current: int, limit: int, bound: int) -> None:
    """Check that a tenant may get a limit without review.

    Raises:
        ApiError: 409 QUOTA_BOUND_EXCEEDED.
    """
    if limit > bound:
        raise ApiError(
            409,
            "QUOTA_BOUND_EXCEEDED",
            f"without review, the limit of this tenant can be raised to {bound}, not to {limit}",
            details={
                "resourceType": quota.resource_type,
                "limit": limit,
                "requestable": bound,
                "current": current,
            },
            hint="request it for the organization: --org",
        )


def already_pending(request_id: str, limit: int) -> ApiError:
    """Return the error for a second pending request for a resource type."""
    return ApiError(
        409,
        "QUOTA_REQUEST_PENDING",
        "a request of this organization for this resource type is waiting for review",
        details={"requestId": request_id, "limit": limit},
        hint="wait for its review",
    )


def requestable(limit: int, organization_limit: int, allocated: int) -> int:
    """Return the highest limit without review: the tenant's limit plus the unallocated rest of its organization's.

    Args:
        allocated: Sum of the limits of all tenants.
    """
    return limit + max(0, organization_limit - allocated)


def add_request(connection: Connection, values: Mapping[str, Any]) -> None:
    connection.execute(insert(quota_requests).values(**values))


def find_request(connection: Connection, request_id: str) -> Record | None:
    """Return a request by id. The caller must check its tenant or organization."""
    return connection.execute(_REQUEST.where(quota_requests.c.id == request_id)).one_or_none()


def pending_request(connection: Connection, organization_id: str, resource_type: str) -> Record | None:
    return connection.execute(
        _REQUEST.where(
            quota_requests.c.organization_id == organization_id,
            quota_requests.c.resource_type == resource_type,
            quota_requests.c.status == PENDING,
        )
    ).one_or_none()


def requests_of_tenant(
    connection: Connection, tenant_id: str, organization_id: str | None, after: KeysetKey | None, limit: int
) -> Sequence[Record]:
    """Return the requests of a tenant and, if set, the pending requests of an organization."""
    condition: ColumnElement[bool] = quota_requests.c.tenant_id == tenant_id
    if organization_id is not None:
        pending = and_(quota_requests.c.organization_id == organization_id, quota_requests.c.status == PENDING)
        condition = or_(condition, pending)
    return _page(connection, condition, after, limit)


def requests_of_organization(
    connection: Connection, organization_id: str, after: KeysetKey | None, limit: int
) -> Sequence[Record]:
    condition = and_(quota_requests.c.scope == OF_ORGANIZATION, quota_requests.c.organization_id == organization_id)
    return _page(connection, condition, after, limit)


def requests_for_review(
    connection: Connection, status: str | None, after: KeysetKey | None, limit: int
) -> Sequence[Record]:
    condition = quota_requests.c.scope == OF_ORGANIZATION
    return _page(
        connection, condition if status is None else and_(condition, quota_requests.c.status == status), after, limit
    )


def _page(
    connection: Connection, condition: ColumnElement[bool], after: KeysetKey | None, limit: int
) -> Sequence[Record]:
    """Return at most `limit` + 1 requests, newest first."""
    query = _REQUEST.where(condition)
    if after is not None:
        query = query.where(after_key(_ORDER, after, newest_first=True))
    newest_first = (column.desc() for column in _ORDER)
    return list(records(connection, query.order_by(*newest_first).limit(limit + 1)))


def next_allowed_at(connection: Connection, tenant_id: str, maximum: int, now: datetime) -> datetime | None:
    """Return when a tenant may make its next request, at most `maximum` per hour; None for now."""
    hour = timedelta(hours=1)
    earliest = connection.scalar(
        select(quota_requests.c.created_at)
        .where(quota_requests.c.tenant_id == tenant_id, quota_requests.c.created_at > now - hour)
        .order_by(quota_requests.c.created_at.desc())
        .offset(maximum - 1)
        .limit(1)
    )
    return None if earliest is None else earliest + hour


def store_decision(connection: Connection, request_id: str, values: Mapping[str, Any]) -> None:
    connection.execute(update(quota_requests).where(quota_requests.c.id == request_id).values(**values))


def request_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request as JSON; `from` is the limit before the request."""
    return {
        "id": row["id"],
        "scope": row["scope"],
        "tenantId": row["tenant_id"],
        "organizationId": row["organization_id"],
        "resourceType": row["resource_type"],
        "unit": quota_types()[row["resource_type"]].unit,
        "from": row["limit_before"],
        "limit": row["limit"],
        "reason": row["reason"],
        "status": row["status"],
        "decision": row["decision"],
        "details": row["details"],
        "requestedBy": {"id": row["requested_by"], "name": row["requester_name"], "email": row["requester_email"]},
        "createdAt": wire_time(row["created_at"]),
        "decidedAt": None if row["decided_at"] is None else wire_time(row["decided_at"]),
        "decidedBy": row["decided_by"],
    }

"""Decisions on tenants' quota requests, and the bound without review."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from service.catalogue.quota_types import QuotaType
from service.errors import ApiError
from service.quotas.limits import Use

Status = Literal["approved", "denied", "pending", "rejected"]


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

"""Decisions about requests for other limits, without the database and without HTTP. contract: quota request"""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

from service import errors, validation
from service.catalogue.quota_types import QuotaType, quota_types
from service.errors import ApiError
from service.quotas.limits import Use

MAX_REASON_LENGTH = 500
MAX_LIMIT = 2**53
# Requests a tenant may make in an hour, whatever became of them: its history cannot be flooded. hostile D07
MAX_REQUESTS_PER_HOUR = 100
# Line breaks are what reasons are written with; the rest of the controls has no business in one.
_ALLOWED = "\n\t\u2028\u2029"

Status = Literal["approved", "denied", "pending", "rejected"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a request at once: `decision` says why, `details` in figures."""

    status: Status
    decision: str
    details: Mapping[str, Any] | None = None


def decide(current: int, asked: int, use: Use | None) -> Decision:
    """The verdict on another limit for a tenant that is within what it may be raised to. checklist U13 to U17

    Args:
        use: of the tenant now, what is being created included; None is unknown.
    """
    if asked >= current:
        return Decision("approved", "within what this tenant may be raised to without review")
    if use is None:
        return Decision("denied", "what is in use is not known at the moment", {"reason": "usage_unknown"})
    if use.total > asked:
        made = f" ({use.creating} being created)" if use.creating else ""
        figures = {"used": use.total, "creating": use.creating, "limit": asked}
        return Decision("denied", f"{use.total} in use{made}: more than {asked}", figures)
    return Decision("approved", "nothing in use is above the new limit")


def requested_type(name: str) -> QuotaType:
    """The quota type a request names, letter for letter.

    Raises:
        ApiError: 400 UNKNOWN_RESOURCE_TYPE with the types there are, QUOTA_NOT_REQUESTABLE. checklist U08, U12
    """
    known = [quota.resource_type for quota in quota_types().values()]
    if name not in known:
        near = [other for other in known if other == name.lower()] or get_close_matches(name, known, n=3)
        raise ApiError(
            400,
            "UNKNOWN_RESOURCE_TYPE",
            "there is no quota of this resource type",
            details={"suggestions": near, "known": known},
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
    """A limit that can be stored and read back by everybody. checklist U06, U07

    Raises:
        ApiError: 400 INVALID_INPUT.
    """
    if not 0 <= limit <= MAX_LIMIT:
        raise errors.invalid_input(
            f"limit must be 0 to {MAX_LIMIT}", member="limit", reason="range", min=0, max=MAX_LIMIT
        )
    return limit


def reason(text: str, member: str = "reason") -> str:
    """The reason of a request as it is kept: NFC, trimmed, 1 to 500 characters. checklist U02

    Raises:
        ApiError: 400 INVALID_INPUT with reason `blank`, `too_long` or `character`.
    """
    kept = unicodedata.normalize("NFC", text).strip()
    if not validation.visible(kept) and not validation.has_control(kept):
        raise errors.invalid_input(f"{member} must not be blank", member=member, reason="blank")
    if len(kept) > MAX_REASON_LENGTH:
        raise errors.invalid_input(
            f"{member} has at most {MAX_REASON_LENGTH} characters",
            member=member,
            reason="too_long",
            max=MAX_REASON_LENGTH,
        )
    if validation.has_control(kept, allowed=_ALLOWED):
        raise errors.invalid_input(
            f"{member} must not hold control or formatting characters", member=member, reason="character"
        )
    return kept


def require_within_bound(quota: QuotaType, current: int, asked: int, bound: int) -> None:
    """Refuse a raise that needs the organization's review. checklist U09 to U11

    Raises:
        ApiError: 409 QUOTA_BOUND_EXCEEDED.
    """
    if asked > bound:
        raise ApiError(
            409,
            "QUOTA_BOUND_EXCEEDED",
            f"without review this tenant may be raised to {bound}, not to {asked}",
            details={
                "resourceType": quota.resource_type,
                "limit": asked,
                "requestable": bound,
                "current": current,
            },
            hint="request it for the organization: --org",
        )


def already_pending(request_id: str, limit: int) -> ApiError:
    """The refusal of a second request of an organization for one resource type. checklist U21"""
    return ApiError(
        409,
        "QUOTA_REQUEST_PENDING",
        "a request of this organization for this resource type is waiting for review",
        details={"requestId": request_id, "limit": limit},
        hint="wait for its review",
    )


def too_many(wait: int) -> ApiError:
    """The refusal of one request more than a tenant may make in an hour; it fits `wait` seconds later."""
    return ApiError(
        429,
        "QUOTA_REQUESTS_LIMITED",
        f"a tenant may make {MAX_REQUESTS_PER_HOUR} quota requests in an hour",
        details={"cap": MAX_REQUESTS_PER_HOUR, "retryAfterSeconds": wait},
        headers={"Retry-After": str(wait)},
    )

"""Validation of quota requests."""

import unicodedata
from difflib import get_close_matches

from service import errors, validation
from service.catalogue.quota_types import QuotaType, quota_types
from service.errors import ApiError

MAX_REASON_LENGTH = 500
MAX_LIMIT = 2**53
# Per tenant, so that its history cannot be flooded.
MAX_REQUESTS_PER_HOUR = 100


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

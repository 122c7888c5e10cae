"""Validation of API keys: name, scopes, expiry and rate limit."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from difflib import get_close_matches

from client.models.validation import MAX_API_KEY_NAME, MAX_RATE_LIMIT, MIN_API_KEY_NAME
from service import errors, validation
from service.authz.decisions import CatalogueSnapshot, holding, listed
from service.clock import wire_time
from service.errors import ApiError
from service.validation import require_distinct

DEFAULT_LIFETIME = timedelta(days=365)
MAX_YEARS = 2
DEFAULT_RATE_LIMIT = 600
MAX_SCOPES = 100


def name(text: str) -> str:
    """Return a name of 2 to 100 characters, in NFC, without invisible characters, trimmed.

    Raises:
        ApiError: 400 INVALID_API_KEY_NAME with details {reason, min, max}.
    """
    normalized = validation.visible(text)
    if MIN_API_KEY_NAME <= len(normalized) <= MAX_API_KEY_NAME:
        return normalized
    raise ApiError(
        400,
        "INVALID_API_KEY_NAME",
        f"name must be {MIN_API_KEY_NAME} to {MAX_API_KEY_NAME} characters after invisible characters are removed"
        " and the text is normalised",
        details={
            "reason": "too_short" if len(normalized) < MIN_API_KEY_NAME else "too_long",
            "min": MIN_API_KEY_NAME,
            "max": MAX_API_KEY_NAME,
        },
    )


def scopes(values: Sequence[str], catalogue: CatalogueSnapshot) -> list[str]:
    """Validate scopes: 1 to 100 listed scopes or operations of the catalogue.

    Raises:
        ApiError: 400, also for duplicates and wildcards over all services.
    """
    if not values:
        raise errors.invalid_input("at least one scope is required", member="scopes", reason="too_few", min=1)
    if len(values) > MAX_SCOPES:
        raise errors.invalid_input(
            f"a key has at most {MAX_SCOPES} scopes", member="scopes", reason="too_many", max=MAX_SCOPES
        )
    require_distinct(list(values))
    listed_scopes = listed()
    for scope in values:
        if scope.partition(":")[0].strip() == "*":
            raise ApiError(
                400,
                "WILDCARD_SCOPE_NOT_ALLOWED",
                "a key cannot have a wildcard over all services",
                details={"scope": scope},
                hint="name the services, such as compute:*",
            )
        if scope not in listed_scopes and scope not in catalogue.levels:
            near = get_close_matches(scope.strip().lower(), sorted(listed_scopes), n=3)
            raise ApiError(
                400,
                "INVALID_SCOPE",
                f"there is no such scope{': did you mean ' + ' or '.join(near) + '?' if near else ''}",
                details={"scope": scope, "suggestions": near},
                hint="list the scopes: frost account api-key scopes",
            )
    return list(values)


def require_permitted_scopes(
    role: str | None, tenant_id: str, scopes: Sequence[str], catalogue: CatalogueSnapshot
) -> None:
    """Check that a role permits each scope.

    Raises:
        ApiError: 403 SCOPE_EXCEEDS_AUTHOR with the first scope it does not permit and the missing operations.
    """
    for scope in scopes:
        granted = holding(role, scope, tenant_id, catalogue)
        if not granted.permitted:
            raise ApiError(
                403,
                "SCOPE_EXCEEDS_AUTHOR",
                f"a key cannot exceed its creator: your role does not have {scope}",
                details={"scope": scope, "lacks": list(granted.lacks)},
                hint="omit the scope, or ask a user who has the scope",
            )


def expiry(text: str | None, now: datetime, member: str = "expiresAt") -> datetime:
    """Parse an expiry (RFC 3339), by default 365 days from now.

    Args:
        member: of the body, for the error.

    Raises:
        ApiError: 400 for an invalid timestamp, an instant in the past, or more than two calendar years from now.
    """
    if text is None:
        return now + DEFAULT_LIFETIME
    instant = validation.instant(text, member)
    if instant <= now:
        raise ApiError(
            400,
            "API_KEY_EXPIRY_IN_PAST",
            "a key cannot expire before its creation",
            details={"expiresAt": wire_time(instant), "now": wire_time(now)},
        )
    latest = latest_expiry(now)
    if instant > latest:
        raise ApiError(
            400,
            "API_KEY_LIFETIME_EXCEEDS_MAX",
            f"a key is valid for at most {MAX_YEARS} years: until {wire_time(latest)}",
            details={"expiresAt": wire_time(instant), "latest": wire_time(latest)},
        )
    return instant


def latest_expiry(now: datetime) -> datetime:
    """Return the same time two calendar years from now; 28 February for the 29th."""
    try:
        return now.replace(year=now.year + MAX_YEARS)
    except ValueError:
        return now.replace(year=now.year + MAX_YEARS, day=28)


def rate_limit(value: int | None) -> int:
    """Return a rate limit in requests per minute, by default 600, or raise 400 INVALID_INPUT."""
    if value is None:
        return DEFAULT_RATE_LIMIT
    if not 1 <= value <= MAX_RATE_LIMIT:
        raise errors.invalid_input(
            f"rateLimit must be 1 to {MAX_RATE_LIMIT} requests per minute",
            member="rateLimit",
            reason="range",
            min=1,
            max=MAX_RATE_LIMIT,
        )
    return value

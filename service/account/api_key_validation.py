"""What an API key may be: its name, scopes, expiry and rate limit. contract: API key, Limits; checklist K04 to K33"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches

from service import errors, validation
from service.authz.decisions import CatalogueSnapshot
from service.authz.scopes import holding, listed
from service.clock import wire_time
from service.errors import ApiError
from service.validation import require_distinct

NAME_MIN, NAME_MAX = 2, 100
LIFETIME = timedelta(days=365)
LONGEST_YEARS = 2
RATE_LIMIT, RATE_LIMIT_MAX = 600, 60_000
MAX_SCOPES = 100
_INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-5][0-9])", re.ASCII
)


def name(text: str) -> str:
    """A key's name as it is kept: NFC, without invisible characters, trimmed, 2 to 100 characters. checklist K46

    Raises:
        ApiError: 400 INVALID_API_KEY_NAME with details {reason, min, max}.
    """
    kept = validation.visible(text)
    if NAME_MIN <= len(kept) <= NAME_MAX:
        return kept
    raise ApiError(
        400,
        "INVALID_API_KEY_NAME",
        f"name must be {NAME_MIN} to {NAME_MAX} characters after invisible characters are removed"
        " and the text is normalised",
        details={"reason": "too_short" if len(kept) < NAME_MIN else "too_long", "min": NAME_MIN, "max": NAME_MAX},
    )


def scopes(given: Sequence[str], known: CatalogueSnapshot) -> list[str]:
    """Return the scopes of a key in their order: listed scopes, or operations of the catalogue.

    Raises:
        ApiError: 400 for no scope, a scope given twice, a wildcard over services, or an unknown scope; nothing is
            corrected (A11).
    """
    wanted = list(given)
    if not wanted:
        raise errors.invalid_input("at least one scope is required", member="scopes", reason="too_few", min=1)
    if len(wanted) > MAX_SCOPES:
        raise errors.invalid_input(
            f"a key has at most {MAX_SCOPES} scopes", member="scopes", reason="too_many", max=MAX_SCOPES
        )
    require_distinct(wanted)
    known_scopes = listed()
    for scope in wanted:
        if scope.partition(":")[0].strip() == "*":
            raise ApiError(
                400,
                "WILDCARD_SCOPE_NOT_ALLOWED",
                "a key cannot have a wildcard over all services",
                details={"scope": scope},
                hint="name the services, such as compute:*",
            )
        if scope not in known_scopes and scope not in known.levels:
            near = get_close_matches(scope.strip().lower(), sorted(known_scopes), n=3)
            raise ApiError(
                400,
                "INVALID_SCOPE",
                f"there is no such scope{': did you mean ' + ' or '.join(near) + '?' if near else ''}",
                details={"scope": scope, "suggestions": near},
                hint="list the scopes: frost account api-key scopes",
            )
    return wanted


def require_held(role: str | None, tenant_id: str, wanted: Sequence[str], known: CatalogueSnapshot) -> None:
    """Refuse scopes of which their giver holds nothing in the tenant.

    Raises:
        ApiError: 403 SCOPE_EXCEEDS_AUTHOR naming the first scope at fault and operations of it that are missing.
    """
    for scope in wanted:
        found = holding(role, scope, tenant_id, known)
        if not found.held:
            raise ApiError(
                403,
                "SCOPE_EXCEEDS_AUTHOR",
                f"a key cannot exceed its creator: your role does not hold {scope}",
                details={"scope": scope, "lacks": list(found.lacks)},
                hint="leave the scope out, or ask somebody who holds it",
            )


def expiry(text: str | None, now: datetime, member: str = "expiresAt") -> datetime:
    """When a key made now expires: 365 days on, or the instant asked for, at most two calendar years on.

    A fraction of a second is cut to microseconds, never rounded up. `member` is where the text stood.

    Raises:
        ApiError: 400 for what is no full RFC 3339 timestamp, for the past, and API_KEY_LIFETIME_EXCEEDS_MAX.
    """
    if text is None:
        return now + LIFETIME
    instant = read_instant(text)
    if instant is None:
        raise errors.invalid_input(
            f"{member} must be an RFC 3339 timestamp with a zone, such as 2027-01-31T23:59:59Z",
            member=member,
            reason="timestamp",
        )
    if instant <= now:
        raise ApiError(
            400,
            "API_KEY_EXPIRY_IN_PAST",
            "a key cannot expire before it is made",
            details={"expiresAt": wire_time(instant), "now": wire_time(now)},
        )
    latest = latest_expiry(now)
    if instant > latest:
        raise ApiError(
            400,
            "API_KEY_LIFETIME_EXCEEDS_MAX",
            f"a key lives at most {LONGEST_YEARS} years: until {wire_time(latest)}",
            details={"expiresAt": wire_time(instant), "latest": wire_time(latest)},
        )
    return instant


def latest_expiry(now: datetime) -> datetime:
    """The same day and time two calendar years on; of 29 February the 28th."""
    try:
        return now.replace(year=now.year + LONGEST_YEARS)
    except ValueError:
        return now.replace(year=now.year + LONGEST_YEARS, day=28)


def read_instant(text: str) -> datetime | None:
    """A full RFC 3339 timestamp in UTC; None for everything else. hostile E15"""
    if not _INSTANT.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def rate_limit(given: int | None) -> int:
    """Requests a minute. checklist K33

    Raises:
        ApiError: 400 INVALID_INPUT.
    """
    if given is None:
        return RATE_LIMIT
    if not 1 <= given <= RATE_LIMIT_MAX:
        raise errors.invalid_input(
            f"rateLimit must be 1 to {RATE_LIMIT_MAX} requests a minute",
            member="rateLimit",
            reason="range",
            min=1,
            max=RATE_LIMIT_MAX,
        )
    return given

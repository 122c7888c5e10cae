"""What is said of a key that was refused: the input at fault, in the words of who typed it (checklist K05 to K30)."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from client import expiry
from client.errors import FrostError
from client.records import parse_time, time_text
from client.text import safe

_SCOPE_CELLS = 100


@contextmanager
def explained(expires: str | None) -> Iterator[None]:
    """Has a refusal name the scope or the date at fault.

    Args:
        expires: `--expires` as it was typed.
    """
    try:
        yield
    except FrostError as error:
        details = error.details or {}
        match error.code:
            case "WILDCARD_SCOPE_NOT_ALLOWED" | "INVALID_SCOPE":
                error.message = f"scope {_scope(details)}: {error.message}"
            case "SCOPE_EXCEEDS_AUTHOR":
                lacks = ", ".join(safe(one, _SCOPE_CELLS) for one in details.get("lacks") or ())
                error.message += f" (it lacks {lacks})" if lacks else ""
            case "API_KEY_LIFETIME_EXCEEDS_MAX":
                _name_latest(error, expires, details)
            case "API_KEY_EXPIRY_IN_PAST":
                error.message = f"--expires {safe(expires, 60)} is in the past: {time_text(details.get('expiresAt'))}"
            case "SECRET_ALREADY_SHOWN":
                _name_lost(error, details)
        raise


@contextmanager
def still_active(key_id: str) -> Iterator[None]:
    """Has the failure to revoke an old key say that a new one is there already."""
    try:
        yield
    except FrostError as error:
        error.message = f"the new key is made, the old one still works: {error.message}"
        error.hint = f"frost account api-key revoke {key_id}"
        raise


def _scope(details: Mapping[str, Any]) -> str:
    return f'"{safe(details.get("scope"), _SCOPE_CELLS)}"'


def _name_latest(error: FrostError, expires: str | None, details: Mapping[str, Any]) -> None:
    """The latest date or instant that would have been taken, in the form that was typed."""
    latest = parse_time(details.get("latest"))
    if latest is None or expires is None:
        return
    best = time_text(details.get("latest")) if "T" in expires.upper() else expiry.last_day(latest).isoformat()
    error.message = f"--expires {safe(expires, 60)} is too late: a key lives at most 2 years"
    error.hint = f"the latest is {best}"


def _name_lost(error: FrostError, details: Mapping[str, Any]) -> None:
    """An answer that never came made a key: nobody has its secret."""
    made = safe(details.get("apiKeyId"), 80)
    error.message = f"the key {made} was made, but its secret was lost on the way and cannot be shown again"
    error.hint = f"frost account api-key delete {made}, and create it again"

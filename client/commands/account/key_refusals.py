"""Errors of API keys, with the flag, the scope or the date at fault."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from client import times
from client.errors import Exit, FrostError
from client.tables.columns import parse_time, time_text
from client.text import safe
from client.transport.request import NOT_LISTENING

_CELLS = 100
_FLAGS = {"name": "--name", "description": "--description", "scopes": "--scopes", "rateLimit": "--rate-limit"}


@contextmanager
def explained(expires: str | None) -> Iterator[None]:
    """Has a refusal name the flag, the scope or the date at fault.

    Args:
        expires: `--expires` as it was typed.
    """
    try:
        yield
    except FrostError as error:
        details = error.details or {}
        match error.code:
            case "INVALID_INPUT" | "INVALID_API_KEY_NAME":
                flag = _FLAGS.get(str(details.get("member", "name")))
                error.message = f"{flag}: {error.message}" if flag else error.message
            case "WILDCARD_SCOPE_NOT_ALLOWED" | "INVALID_SCOPE":
                error.message = f'--scopes: "{safe(details.get("scope"), _CELLS)}": {error.message}'
            case "SCOPE_EXCEEDS_AUTHOR":
                first, *others = _texts(details.get("lacks")) or [""]
                error.message += f" (it lacks {first}{' and more' if others else ''})" if first else ""
            case "API_KEY_LIFETIME_EXCEEDS_MAX" if expires is not None:
                _name_latest(error, expires, details)
            case "API_KEY_EXPIRY_IN_PAST":
                _name_past(error, expires, details)
            case "SECRET_ALREADY_SHOWN":
                _name_lost(error, details)
            case _ if error.exit_code == Exit.UNREACHABLE and error.code != NOT_LISTENING:
                error.hint = "the key may have been created; list your keys: frost account api-key list"
        raise


@contextmanager
def still_active(key_id: str) -> Iterator[None]:
    """Has the failure to revoke an old key say that a new one is there already."""
    try:
        yield
    except FrostError as error:
        error.message = f"the new key was created, but the old one is still valid: {error.message}"
        error.hint = f"frost account api-key revoke {key_id}"
        raise


def _texts(found: object) -> list[str]:
    return [safe(one, _CELLS) for one in found] if isinstance(found, list) else []


def _name_latest(error: FrostError, expires: str, details: Mapping[str, Any]) -> None:
    """Name the latest valid date or time, in the form of `expires`."""
    latest = parse_time(details.get("latest"))
    if latest is None:
        return
    error.message = f"--expires: {expires} is too late: a key is valid for at most 2 years"
    dated = times.is_date(expires)
    error.hint = f"the latest value is {times.last_day(latest).isoformat() if dated else times.wire(latest)}"


def _name_past(error: FrostError, expires: str | None, details: Mapping[str, Any]) -> None:
    if expires is None:
        error.message = "the overlap has already ended by the platform's clock"
        error.hint = (
            f"the platform's time is {time_text(details.get('now'))}; set this machine's clock, or use --overlap 0"
        )
        return
    error.message = f"--expires: {expires} is in the past: it means {safe(details.get('expiresAt'), 40)}"


def _name_lost(error: FrostError, details: Mapping[str, Any]) -> None:
    """Report a key whose secret was lost with a failed response."""
    made = safe(details.get("apiKeyId"), 80)
    error.message = f"key {made} was made, but its secret was lost on the way and cannot be shown again"
    error.hint = f"frost account api-key delete {made}, and create it again"

"""Errors of key requests as problems of form fields."""

from typing import NamedTuple

from client import times
from client.errors import Exit, FrostError
from client.tables.columns import parse_time
from client.text import safe

_CELLS = 60
_MEMBERS = {"name": "name", "description": "description", "scopes": "scopes", "rateLimit": "rate", "expiresAt": "until"}
_CODES = {
    "INVALID_API_KEY_NAME": "name",
    "WILDCARD_SCOPE_NOT_ALLOWED": "scopes",
    "INVALID_SCOPE": "scopes",
    "SCOPE_EXCEEDS_AUTHOR": "scopes",
    "API_KEY_LIFETIME_EXCEEDS_MAX": "until",
    "API_KEY_EXPIRY_IN_PAST": "until",
}


class Problem(NamedTuple):
    """A problem of a form. `field` is name, description, rate, until, scopes, or "" for the whole form."""

    field: str
    words: str


def problem(error: FrostError) -> Problem:
    details = error.details or {}
    field = _CODES.get(error.code) or _MEMBERS.get(str(details.get("member")), "")
    scope = safe(details.get("scope"), _CELLS)
    match error.code:
        case "SCOPE_EXCEEDS_AUTHOR":
            lacks = details.get("lacks")
            example = f", for one {safe(lacks[0], _CELLS)}" if isinstance(lacks, list) and lacks else ""
            words = f"{scope}: your role does not give all of it{example}"
        case "WILDCARD_SCOPE_NOT_ALLOWED" | "INVALID_SCOPE":
            words = f"{scope}: {error.message}"
        case "API_KEY_LIFETIME_EXCEEDS_MAX":
            words = f"a key lives at most 2 years: the latest is {_latest(details.get('latest'))}"
        case "API_KEY_EXPIRY_IN_PAST":
            words = f"that is over: by the platform's clock it is {_second(details.get('now'))}"
        case "SECRET_ALREADY_SHOWN":
            words = (
                f"key {safe(details.get('apiKeyId'), _CELLS)} was made, but its secret was lost on the way:"
                " delete it and make another one"
            )
        case _:
            words = error.message
            if error.exit_code is Exit.UNREACHABLE:
                words += "; whether the key was made is seen in the list"
            elif error.exit_code is Exit.NOT_SIGNED_IN:
                words = f"nothing was sent: {error.message}"
    return Problem(field, words)


def _latest(value: object) -> str:
    """Return the latest permitted time and the last day that ends before it."""
    latest = parse_time(value)
    if latest is None:
        return safe(value, _CELLS)
    return f"{_second(value)}, or {times.last_day(latest).isoformat()}"


def _second(value: object) -> str:
    """Return a time as it can be typed, to the second."""
    moment = parse_time(value)
    return safe(value, _CELLS) if moment is None else times.wire(moment.replace(microsecond=0))

"""Errors of API key requests: the member at fault and the message. Text from the platform is escaped."""

from typing import NamedTuple

from client import times
from client.errors import Exit, FrostError
from client.tables.columns import parse_time
from client.text import safe
from client.transport.request import NOT_LISTENING

_CELLS = 100
_MEMBERS = {
    "INVALID_API_KEY_NAME": "name",
    "WILDCARD_SCOPE_NOT_ALLOWED": "scopes",
    "INVALID_SCOPE": "scopes",
    "SCOPE_EXCEEDS_AUTHOR": "scopes",
    "API_KEY_LIFETIME_EXCEEDS_MAX": "expiresAt",
    "API_KEY_EXPIRY_IN_PAST": "expiresAt",
}


class KeyProblem(NamedTuple):
    """The problem of a request to create or change a key. `member` is the member of the body at fault, "" for none."""

    member: str
    message: str


def key_problem(error: FrostError) -> KeyProblem:
    details = error.details or {}
    member = _MEMBERS.get(error.code) or str(details.get("member") or "")
    scope = safe(details.get("scope"), _CELLS)
    match error.code:
        case "SCOPE_EXCEEDS_AUTHOR":
            lacks = details.get("lacks")
            missing = [safe(one, _CELLS) for one in lacks] if isinstance(lacks, list) else []
            more = " and more" if len(missing) > 1 else ""
            message = f"your role does not grant {missing[0]}{more}" if missing else error.message
            return KeyProblem(member, f"{scope}: {message}")
        case "WILDCARD_SCOPE_NOT_ALLOWED" | "INVALID_SCOPE":
            return KeyProblem(member, f"{scope}: {error.message}")
        case "API_KEY_LIFETIME_EXCEEDS_MAX":
            return KeyProblem(member, f"a key is valid for at most 2 years: until {_latest(details.get('latest'))}")
        case "API_KEY_EXPIRY_IN_PAST":
            now = _second(details.get("now"))
            return KeyProblem(member, f"the expiry is in the past: the platform's time is {now}")
        case "SECRET_ALREADY_SHOWN":
            key_id = safe(details.get("apiKeyId"), _CELLS)
            return KeyProblem(
                "", f"key {key_id} was created, but its secret was lost: delete the key and create another"
            )
    return KeyProblem(member, error.message)


def may_exist(error: FrostError) -> bool:
    """Return whether the key may have been created although the request failed."""
    return error.exit_code is Exit.UNREACHABLE and error.code != NOT_LISTENING


def _latest(value: object) -> str:
    """Return the latest permitted time and the last local day that ends before it."""
    latest = parse_time(value)
    return safe(value, _CELLS) if latest is None else f"{_second(value)}, or {times.last_day(latest).isoformat()}"


def _second(value: object) -> str:
    """Return a time to the second, in the form that users type."""
    moment = parse_time(value)
    return safe(value, _CELLS) if moment is None else times.wire(moment.replace(microsecond=0))

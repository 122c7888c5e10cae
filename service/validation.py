"""Validation of request values."""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from client.models.validation import LINE_BREAKS as LINE_BREAKS
from client.models.validation import MAX_DESCRIPTION_LENGTH, without_invisible
from client.models.validation import has_control as has_control
from client.policy.instants import InvalidTime, parse_instant
from service import errors
from service.catalogue.operations import enforced_scopes
from service.errors import ApiError

MAX_NAME_LENGTH = 128
MAX_SLUG_LENGTH = 48
MAX_ID_LENGTH = 64
"""Of a UUID in any of its forms."""
MAX_CACHED_IDS = 4_096
MEMBER_TYPES = ("api_key", "workload_identity")
ATTACHEE_TYPES = (*MEMBER_TYPES, "group")
PRINCIPAL_TYPES = (*MEMBER_TYPES, "user")
# Letters that NFKD does not decompose into ASCII letters.
_FOLDED = str.maketrans(
    {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "ł": "l", "ħ": "h", "ı": "i", "ŋ": "n"}
)
_UUID = re.compile(
    r"(?:urn:uuid:)?(\{)?([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})(?(1)\})",
    re.IGNORECASE | re.ASCII,
)
_IF_MATCH = re.compile(r'(?:"([0-9]{1,9})"|\*)', re.ASCII)
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)


def display_name(text: str, member: str = "displayName") -> str:
    """Return a name of 1 to 128 characters in NFC, trimmed. `member` is its member in the request.

    Raises:
        ApiError: 400 INVALID_INPUT with details {reason, min, max}; reason is `too_short`, `too_long` or `character`.
    """
    name = stored_name(text, member)
    if not visible(name):
        raise _invalid_name(member, "character", "must contain a visible character")
    return name


def stored_name(text: str, member: str = "name") -> str:
    """Return a name for a lookup, like `display_name`. It may be invisible, because earlier versions allowed that."""
    name = unicodedata.normalize("NFC", text).strip()
    if has_control(name):
        raise _invalid_name(member, "character", "must not contain control or formatting characters")
    if not name:
        raise _invalid_name(member, "too_short", f"must be 1 to {MAX_NAME_LENGTH} characters")
    if len(name) > MAX_NAME_LENGTH:
        raise _invalid_name(member, "too_long", f"must be 1 to {MAX_NAME_LENGTH} characters")
    return name


def visible(text: str) -> str:
    """Return a text in NFC without invisible characters, trimmed."""
    return unicodedata.normalize("NFC", without_invisible(text)).strip()


def _invalid_name(member: str, reason: str, message: str) -> ApiError:
    return errors.invalid_input(f"{member} {message}", member=member, reason=reason, min=1, max=MAX_NAME_LENGTH)


def slug(name: str) -> str:
    """Return a slug of 1 to 48 lower-case ASCII letters, digits and single hyphens: `Web Shop` becomes `web-shop`.

    A name without such characters (`東京`) becomes `tenant`.
    """
    decomposed = unicodedata.normalize("NFKD", name.lower().translate(_FOLDED))
    plain = "".join(character for character in decomposed if not unicodedata.combining(character))
    words = re.findall(r"[a-z0-9]+", plain.lower())
    return "-".join(words)[:MAX_SLUG_LENGTH].rstrip("-") or "tenant"


def free_slug(base: str, taken: frozenset[str]) -> str:
    """Return the first free slug of `base`, `base-2`, `base-3`, …, shortened to fit."""
    candidate, number = base, 1
    while candidate in taken:
        number += 1
        suffix = f"-{number}"
        candidate = base[: MAX_SLUG_LENGTH - len(suffix)].rstrip("-") + suffix
    return candidate


def description(text: str) -> str:
    """Return a description of at most 1,024 characters in NFC, or raise 400 INVALID_INPUT."""
    normalized = unicodedata.normalize("NFC", text)
    if len(normalized) > MAX_DESCRIPTION_LENGTH:
        raise errors.invalid_input(
            f"description has at most {MAX_DESCRIPTION_LENGTH} characters",
            member="description",
            reason="too_long",
            max=MAX_DESCRIPTION_LENGTH,
        )
    if has_control(normalized, allowed=LINE_BREAKS):
        raise errors.invalid_input(
            "description must not contain control or formatting characters", member="description", reason="character"
        )
    return normalized


def require_choice(member: str, value: str, choices: Sequence[str]) -> str:
    """Return the value, or raise 400 INVALID_INPUT if it is not a choice."""
    if value not in choices:
        raise errors.invalid_input(f"{member} must be one of {', '.join(choices)}", member=member, known=list(choices))
    return value


def paired_filter(
    type_parameter: tuple[str, str | None], id_parameter: tuple[str, str | None], types: Sequence[str]
) -> tuple[str, str] | None:
    """Return type and id of a filter by two parameters, each a name and a value; None if both are missing.

    An invalid id becomes "", which matches no row, because PostgreSQL rejects some texts.

    Raises:
        ApiError: 400 INVALID_INPUT for a single parameter or an unknown type.
    """
    (type_name, type_), (id_name, identifier) = type_parameter, id_parameter
    if type_ is None and identifier is None:
        return None
    if type_ is None or identifier is None:
        missing = type_name if type_ is None else id_name
        raise errors.invalid_input(f"{type_name} and {id_name} are used together", member=missing, reason="missing")
    return require_choice(type_name, type_, types), identifier if is_id(identifier) else ""


def expected_version(header: str | None) -> int | None:
    """Return the version of an `If-Match` header; None without the header or for `*`.

    Raises:
        ApiError: 400 INVALID_INPUT if it is not a single entity tag of the platform.
    """
    if header is None:
        return None
    match = _IF_MATCH.fullmatch(header.strip())
    if match is None:
        raise errors.invalid_input('If-Match must be a version in quotes, such as "3", or *', member="If-Match")
    return int(match[1]) if match[1] else None


def require_version(expected: int | None, current: int, details: Mapping[str, Any]) -> None:
    """Raise 412 STALE_VERSION with `details` if the versions differ."""
    if expected is not None and expected != current:
        raise ApiError(
            412,
            "STALE_VERSION",
            f"the current version is {current}, not {expected}",
            details={"expected": expected, "current": current, **details},
            hint="read the current version, and repeat the change",
            headers={"ETag": f'"{current}"'},
        )


def canonical_id(text: str, noun: str) -> str:
    """Return a UUID in canonical form: lower case, with hyphens (RFC 9562 4).

    Upper case, braces, the prefix `urn:uuid:` and missing hyphens are accepted.

    Raises:
        ApiError: 400 INVALID_INPUT with the noun, such as `tenant`.
    """
    canonical = _canonical(text)
    if canonical is None:
        raise errors.invalid_input(f"invalid {noun} ID")
    return canonical


def is_id(text: str) -> bool:
    """Return whether a text is a UUID in canonical form."""
    return _canonical(text) == text


def _canonical(text: str) -> str | None:
    return _parsed_id(text) if len(text) <= MAX_ID_LENGTH else None


@lru_cache(MAX_CACHED_IDS)
def _parsed_id(text: str) -> str | None:
    match = _UUID.fullmatch(text)
    return None if match is None else "-".join(match.groups()[1:]).lower()


def scopes(names: Sequence[str]) -> list[str]:
    """Validate the scopes of a workload identity.

    Raises:
        ApiError: 400 for a duplicate, a wildcard, or a scope that no service enforces.
    """
    require_distinct(names)
    valid = [name for name in enforced_scopes() if not name.endswith("*")]
    for scope in names:
        if "*" in scope:
            raise ApiError(
                400,
                "WILDCARD_SCOPE_NOT_ALLOWED",
                "a workload identity cannot have a wildcard scope",
                details={"scope": scope},
                hint="name the scopes one by one",
            )
        if scope not in valid:
            suggestions = get_close_matches(scope, valid, n=3)
            raise ApiError(
                400,
                "INVALID_SCOPE",
                "no service requires this scope",
                details={"scope": scope, "suggestions": suggestions},
            )
    return list(names)


def require_distinct(scopes: Sequence[str]) -> None:
    """Raise 400 INVALID_INPUT for a duplicate scope. If duplicates were dropped, Terraform would report drift."""
    for scope, number in Counter(scopes).items():
        if number > 1:
            raise errors.invalid_input(
                f"the scope {scope[:100]} is repeated; give each scope once",
                member="scopes",
                reason="duplicate",
                scope=scope[:100],
            )


def instant(text: str, member: str) -> datetime:
    """Return an RFC 3339 time as UTC, or raise 400 INVALID_INPUT, which names the limit that it exceeds."""
    try:
        return parse_instant(text)
    except InvalidTime as error:
        raise errors.invalid_input(f"{member} {error}", member=member, reason="timestamp") from None


def dns_label(member: str, text: str) -> str:
    """Return a DNS label (RFC 1123), or raise 400: 1 to 63 of a-z, 0-9 and -, without - at the ends."""
    if _LABEL.fullmatch(text) is None:
        raise errors.invalid_input(f"{member} must be a DNS label (a-z, 0-9, -)", member=member, reason="dns_label")
    return text


def dns_subdomain(member: str, text: str) -> str:
    """Return a DNS subdomain (RFC 1123), or raise 400: labels joined by dots, at most 253 characters."""
    if len(text) > 253 or not all(map(_LABEL.fullmatch, text.split("."))):
        raise errors.invalid_input(
            f"{member} must be a DNS subdomain (labels of a-z, 0-9, - with dots between)",
            member=member,
            reason="dns_subdomain",
        )
    return text

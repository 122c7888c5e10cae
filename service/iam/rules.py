"""Decisions about groups, policies and identities that need neither the database nor HTTP."""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any
from uuid import UUID

from service import errors, names
from service.errors import Refusal
from service.world.catalogue import enforced_scopes

DESCRIPTION_MAX = 1_024
MEMBER_TYPES = ("api_key", "workload_identity")
ATTACHEE_TYPES = (*MEMBER_TYPES, "group")
PRINCIPAL_TYPES = (*MEMBER_TYPES, "user")
_IF_MATCH = re.compile(r'(?:"([0-9]{1,9})"|\*)', re.ASCII)
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
# Line breaks are part of a description; other controls are not.
_ALLOWED = "\n\t\u2028\u2029"


def description(text: str) -> str:
    """A description as it is kept: NFC, at most 1,024 characters.

    Raises:
        Refusal: 400 INVALID_INPUT.
    """
    kept = unicodedata.normalize("NFC", text)
    if len(kept) > DESCRIPTION_MAX:
        raise errors.invalid_input(
            f"description has at most {DESCRIPTION_MAX} characters",
            member="description",
            reason="too_long",
            max=DESCRIPTION_MAX,
        )
    if names.has_control(kept, allowed=_ALLOWED):
        raise errors.invalid_input(
            "description must not hold control or formatting characters", member="description", reason="character"
        )
    return kept


def one_of(member: str, value: str, known: Sequence[str]) -> str:
    """A value of a fixed vocabulary.

    Raises:
        Refusal: 400 INVALID_INPUT naming the values.
    """
    if value not in known:
        raise errors.invalid_input(f"{member} must be one of {', '.join(known)}", member=member, known=list(known))
    return value


def together(
    first: tuple[str, str | None], second: tuple[str, str | None], known: Sequence[str]
) -> tuple[str, str] | None:
    """A filter of two members that are used together, or not at all. An id that is none is "", which nobody has.

    Raises:
        Refusal: 400 INVALID_INPUT.
    """
    (kind_name, kind), (id_name, identifier) = first, second
    if kind is None and identifier is None:
        return None
    if kind is None or identifier is None:
        missing = kind_name if kind is None else id_name
        raise errors.invalid_input(f"{kind_name} and {id_name} are used together", member=missing, reason="missing")
    # A database need not take every text there is.
    return one_of(kind_name, kind, known), identifier if is_id(identifier) else ""


def expected_version(header: str | None) -> int | None:
    """The version an `If-Match` header insists on; None when any will do.

    Raises:
        Refusal: 400 INVALID_INPUT for a header that is no single entity tag of ours.
    """
    if header is None:
        return None
    match = _IF_MATCH.fullmatch(header.strip())
    if match is None:
        raise errors.invalid_input('If-Match must be a version in quotes, such as "3", or *', member="If-Match")
    return int(match[1]) if match[1] else None


def require_version(expected: int | None, current: int, details: Mapping[str, Any]) -> None:
    """Refuse a write that was made from an older version, saying what changed since.

    Raises:
        Refusal: 412 STALE_VERSION.
    """
    if expected is not None and expected != current:
        raise Refusal(
            412,
            "STALE_VERSION",
            f"this is version {current} now, not {expected}",
            details={"expected": expected, "current": current, **details},
            hint="read it again, and repeat the change on what is there now",
            headers={"ETag": f'"{current}"'},
        )


def is_id(text: str) -> bool:
    """Whether a text can be the id of anything here; what is not is simply not found."""
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def scopes(given: Sequence[str]) -> list[str]:
    """Return the scopes of a workload identity in their order.

    Raises:
        Refusal: 400 for a scope given twice, a wildcard, or a scope that no service enforces.
    """
    require_distinct(given)
    listed = [name for name in enforced_scopes() if not name.endswith("*")]
    for scope in given:
        if "*" in scope:
            raise Refusal(
                400,
                "WILDCARD_SCOPE_NOT_ALLOWED",
                "a workload identity takes no wildcard scope",
                details={"scope": scope},
                hint="name the scopes one by one",
            )
        if scope not in listed:
            near = get_close_matches(scope, listed, n=3)
            raise Refusal(
                400,
                "INVALID_SCOPE",
                "no service asks for this scope",
                details={"scope": scope, "suggestions": near},
            )
    return list(given)


def require_distinct(scopes: Sequence[str]) -> None:
    """Refuse a scope that is given twice: a stored list that differs from the given one looks like drift to Terraform.

    Raises:
        Refusal: 400 INVALID_INPUT with the scope.
    """
    for scope, number in Counter(scopes).items():
        if number > 1:
            raise errors.invalid_input(
                f"the scope {scope[:100]} is given twice; give each scope once",
                member="scopes",
                reason="duplicate",
                scope=scope[:100],
            )


def dns_label(member: str, text: str) -> str:
    """A DNS-1123 label: 1 to 63 of a-z, 0-9 and -, not at the ends."""
    if _LABEL.fullmatch(text) is None:
        raise errors.invalid_input(f"{member} must be a DNS label (a-z, 0-9, -)", member=member, reason="dns_label")
    return text


def dns_subdomain(member: str, text: str) -> str:
    """A DNS-1123 subdomain: labels with dots between, 253 characters at most."""
    if len(text) > 253 or not all(map(_LABEL.fullmatch, text.split("."))):
        raise errors.invalid_input(
            f"{member} must be a DNS subdomain (labels of a-z, 0-9, - with dots between)",
            member=member,
            reason="dns_subdomain",
        )
    return text

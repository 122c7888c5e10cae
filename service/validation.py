"""The characters of names and other texts, and the slugs made from names. contract: Tenant; checklist T05, T06

Decisions about groups, policies and identities that need neither the database nor HTTP.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from client.models.names import CONTROL
from client.models.names import has_control as has_control
from service import errors
from service.catalogue.operations import enforced_scopes
from service.errors import ApiError

MAX_NAME_LENGTH = 128
MAX_SLUG_LENGTH = 48
# Code points drawn as nothing whose category is a letter, a mark or a symbol: default-ignorable ones and blanks.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\U00016fe4") | frozenset(
    map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
)
# Letters whose ASCII form is not a letter plus marks; NFKD leaves them whole.
_FOLDED = str.maketrans(
    {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "ł": "l", "ħ": "h", "ı": "i", "ŋ": "n"}
)


def display_name(text: str, member: str = "displayName") -> str:
    """The name as it is kept: NFC, trimmed, 1 to 128 characters. `member` is what the request calls it.

    Raises:
        Refusal: 400 INVALID_INPUT with details {reason, min, max}; reason is `too_short`, `too_long` or `character`.
    """
    name = stored_name(text, member)
    if not visible(name):
        raise _refused(member, "character", "must hold a visible character")
    return name


def stored_name(text: str, member: str = "name") -> str:
    """The name by which something is looked up. Names stored by earlier versions may hold no visible character.

    Raises:
        Refusal: as `display_name`, except for such a name.
    """
    name = unicodedata.normalize("NFC", text).strip()
    if has_control(name):
        raise _refused(member, "character", "must not hold control or formatting characters")
    if not name:
        raise _refused(member, "too_short", f"must be 1 to {MAX_NAME_LENGTH} characters")
    if len(name) > MAX_NAME_LENGTH:
        raise _refused(member, "too_long", f"must be 1 to {MAX_NAME_LENGTH} characters")
    return name


def visible(text: str) -> str:
    """Return a text without characters that are drawn as nothing, and without surrounding blanks."""
    kept = (c for c in text if c not in _BLANK and unicodedata.category(c) not in CONTROL)
    return unicodedata.normalize("NFC", "".join(kept)).strip()


def _refused(member: str, reason: str, message: str) -> ApiError:
    return errors.invalid_input(f"{member} {message}", member=member, reason=reason, min=1, max=MAX_NAME_LENGTH)


def slug(name: str) -> str:
    """Lower-case ASCII letters, digits and single hyphens, 1 to 48 characters: `Web Shop` is `web-shop`.

    A name without any letter or digit that ASCII knows (`東京`) is `tenant`.
    """
    decomposed = unicodedata.normalize("NFKD", name.lower().translate(_FOLDED))
    plain = "".join(character for character in decomposed if not unicodedata.combining(character))
    words = re.findall(r"[a-z0-9]+", plain.lower())
    return "-".join(words)[:MAX_SLUG_LENGTH].rstrip("-") or "tenant"


def free_slug(wanted: str, taken: frozenset[str]) -> str:
    """The slug itself, else the first free of `wanted-2`, `wanted-3`, …, cut so that the number fits."""
    candidate, number = wanted, 1
    while candidate in taken:
        number += 1
        suffix = f"-{number}"
        candidate = wanted[: MAX_SLUG_LENGTH - len(suffix)].rstrip("-") + suffix
    return candidate


MAX_DESCRIPTION_LENGTH = 1_024
MEMBER_TYPES = ("api_key", "workload_identity")
ATTACHEE_TYPES = (*MEMBER_TYPES, "group")
PRINCIPAL_TYPES = (*MEMBER_TYPES, "user")
_UUID = re.compile(
    r"(?:urn:uuid:)?(\{)?([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})(?(1)\})",
    re.IGNORECASE | re.ASCII,
)
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
    if len(kept) > MAX_DESCRIPTION_LENGTH:
        raise errors.invalid_input(
            f"description has at most {MAX_DESCRIPTION_LENGTH} characters",
            member="description",
            reason="too_long",
            max=MAX_DESCRIPTION_LENGTH,
        )
    if has_control(kept, allowed=_ALLOWED):
        raise errors.invalid_input(
            "description must not hold control or formatting characters", member="description", reason="character"
        )
    return kept


def require_choice(member: str, value: str, known: Sequence[str]) -> str:
    """A value of a fixed vocabulary.

    Raises:
        Refusal: 400 INVALID_INPUT naming the values.
    """
    if value not in known:
        raise errors.invalid_input(f"{member} must be one of {', '.join(known)}", member=member, known=list(known))
    return value


def paired_filter(
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
    return require_choice(kind_name, kind, known), identifier if is_id(identifier) else ""


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
        raise ApiError(
            412,
            "STALE_VERSION",
            f"this is version {current} now, not {expected}",
            details={"expected": expected, "current": current, **details},
            hint="read it again, and repeat the change on what is there now",
            headers={"ETag": f'"{current}"'},
        )


def canonical_id(text: str, noun: str) -> str:
    """Return an id in canonical form: lower case, with hyphens. RFC 9562, 4

    Upper case, braces, the prefix `urn:uuid:` and missing hyphens are accepted.

    Args:
        noun: what the id is of, for the message (`tenant`).

    Raises:
        ApiError: 400 INVALID_INPUT, "invalid tenant ID".
    """
    canonical = _canonical(text)
    if canonical is None:
        raise errors.invalid_input(f"invalid {noun} ID")
    return canonical


def is_id(text: str) -> bool:
    """Return whether a text is an id in canonical form. Other texts are the id of nothing, so a lookup is a 404."""
    return _canonical(text) == text


def _canonical(text: str) -> str | None:
    match = _UUID.fullmatch(text)
    return None if match is None else "-".join(match.groups()[1:]).lower()


def scopes(given: Sequence[str]) -> list[str]:
    """Return the scopes of a workload identity in their order.

    Raises:
        Refusal: 400 for a scope given twice, a wildcard, or a scope that no service enforces.
    """
    require_distinct(given)
    listed = [name for name in enforced_scopes() if not name.endswith("*")]
    for scope in given:
        if "*" in scope:
            raise ApiError(
                400,
                "WILDCARD_SCOPE_NOT_ALLOWED",
                "a workload identity takes no wildcard scope",
                details={"scope": scope},
                hint="name the scopes one by one",
            )
        if scope not in listed:
            near = get_close_matches(scope, listed, n=3)
            raise ApiError(
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

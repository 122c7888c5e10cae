"""Rules of default tags and names, shared with the service."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

MOST = 10
KEY_BYTES = 64
VALUE_BYTES = 255
MIN_API_KEY_NAME, MAX_API_KEY_NAME = 2, 100
"""Length of an API key's name, in characters."""
MAX_DESCRIPTION_LENGTH = 1_024
"""Length of a description in NFC, in characters."""
MAX_RATE_LIMIT = 60_000
"""Requests per minute of an API key."""
_RATE_LIMIT_DIGITS = 9
RESERVED_PREFIXES = ("frostmoln_", "frostmoln-", "__", "os_", "instance_", "nova_")
RESERVED_KEYS = frozenset(
    {
        "request-id",
        "customer-id",
        "project-id",
        "tenant-id",
        "created-at",
        "acl",
        "storage-class",
        "quota-bytes",
        "cors-config",
    }
)

Reason = Literal[
    "count", "reserved_prefix", "reserved_key", "key_length", "key_charset", "value_length", "value_charset"
]

_KEY_END = re.compile(r"[a-zA-Z0-9]")
_KEY = re.compile(r"[a-zA-Z0-9._:-]*")
_VALUE = re.compile(r"[a-zA-Z0-9+\-._:/@ =]*")
# ASCII only: Unicode lower-casing turns the Kelvin sign into "k", which could make a reserved key.
_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_QUOTED_LENGTH = 80


def parse_rate_limit(text: str) -> int | None:
    """Parse requests per minute, at least 1, in decimal digits. The platform refuses more than the maximum.

    Returns:
        None if the text is not such a number or is too long for one.
    """
    digits = text.lstrip("0")
    is_number = text.isascii() and text.isdigit() and 0 < len(digits) <= _RATE_LIMIT_DIGITS
    return int(digits) if is_number else None


@dataclass(frozen=True, slots=True)
class Problem:
    """A violation of the tag rules.

    `message` is a sentence with the key and the rule. `key` is None for a problem of the whole set; `index` is the
    offset in characters of the first invalid character in the key or the value.
    """

    reason: Reason
    message: str
    key: str | None = None
    index: int | None = None


def problem_of_set(tags: Mapping[str, str]) -> Problem | None:
    """Return the first problem of a set: its size, then its tags in the order of their keys; None if valid."""
    if len(tags) > MOST:
        return Problem("count", f"a tenant has at most {MOST} default tags, not {len(tags)}")
    for key in sorted(tags):
        if problem := problem_of_tag(key, tags[key]):
            return problem
    return None


def problem_of_tag(key: str, value: str) -> Problem | None:
    """Return the first problem of a tag, in the platform's order of checks."""
    return problem_of_key(key) or problem_of_value(key, value)


def problem_of_key(key: str) -> Problem | None:
    name = _quote(key)
    folded = key.translate(_LOWER)
    for prefix in RESERVED_PREFIXES:
        if folded.startswith(prefix):
            return Problem("reserved_prefix", f"{name}: keys that start with {prefix} are reserved", key)
    if folded in RESERVED_KEYS:
        return Problem("reserved_key", f"{name}: this key is reserved", key)
    if not 1 <= size(key) <= KEY_BYTES:
        return Problem("key_length", f"{name}: a key has 1 to {KEY_BYTES} bytes, not {size(key)}", key)
    index = _stray_in_key(key)
    if index is not None:
        rule = "a key has only letters a-z and A-Z, digits and . _ : - and starts and ends with a letter or digit"
        return Problem("key_charset", f"{name}: {rule}", key, index)
    return None


def problem_of_value(key: str, value: str) -> Problem | None:
    """Return the first problem of a value; `key` is for the message."""
    name = _quote(key)
    if size(value) > VALUE_BYTES:
        return Problem("value_length", f"{name}: a value has at most {VALUE_BYTES} bytes, not {size(value)}", key)
    index = _stray(_VALUE, value)
    if index is not None:
        rule = "a value has only letters a-z and A-Z, digits, spaces and + - . _ : / @ ="
        return Problem("value_charset", f"{name}: {rule}", key, index)
    return None


def size(text: str) -> int:
    """Return the length in UTF-8 bytes, the unit of the limits."""
    return len(text.encode("utf-8", "surrogatepass"))


def _stray_in_key(key: str) -> int | None:
    if not _KEY_END.match(key):
        return 0
    index = _stray(_KEY, key)
    if index is None and not _KEY_END.match(key[-1]):
        return len(key) - 1
    return index


def _stray(allowed: re.Pattern[str], text: str) -> int | None:
    """Return the offset of the first character that is not allowed; None if all are."""
    match = allowed.match(text)
    end = match.end() if match else 0
    return end if end < len(text) else None


def _quote(key: str) -> str:
    return f'"{key}"' if len(key) <= _QUOTED_LENGTH else f'"{key[:_QUOTED_LENGTH]}…"'


# Characters that make one name look like another or control a terminal: controls, formats, surrogates, unassigned code
# points, line and paragraph separators.
CONTROL = frozenset({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})
LINE_BREAKS = "\n\t\u2028\u2029"
"""Allowed control characters of multi-line texts."""


def has_control(text: str, allowed: str = "") -> bool:
    """Return whether a text contains control, format, separator or unassigned characters, except the allowed ones."""
    return any(unicodedata.category(character) in CONTROL and character not in allowed for character in text)


# Invisible code points of visible categories: default-ignorable characters and blanks.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\U00016fe4") | frozenset(
    map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
)


def without_invisible(text: str) -> str:
    """Return a text without characters that are not seen."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c for c in text if c not in _BLANK and unicodedata.category(c) not in CONTROL)


def name_key(name: str) -> str:
    """Return the form in which two names are equal if only a look at their characters tells them apart.

    Letter case, compatibility characters (`ﬁ`, full width) and invisible characters are removed (Unicode 3.13, D147).
    Letters of several scripts that look alike stay different.
    """
    if name.isascii():
        return without_invisible(name).lower().strip()
    text = unicodedata.normalize("NFKC", without_invisible(name)).casefold()
    return without_invisible(unicodedata.normalize("NFKC", text).casefold()).strip()

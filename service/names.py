"""Names people give, and the slugs made from them. contract: Tenant; checklist T05, T06"""

import re
import unicodedata

from service import errors
from service.errors import Refusal

NAME_MAX = 128
SLUG_MAX = 48
# What lets one name pass for another, or moves a terminal: controls, formats, surrogates, line separators, unassigned.
_REFUSED = frozenset({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})
# Letters whose ASCII form is not a letter plus marks; NFKD leaves them whole.
_FOLDED = str.maketrans(
    {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "ł": "l", "ħ": "h", "ı": "i", "ŋ": "n"}
)


def display_name(text: str, member: str = "displayName") -> str:
    """The name as it is kept: NFC, trimmed, 1 to 128 characters. `member` is what the request calls it.

    Raises:
        Refusal: 400 INVALID_INPUT with details {reason, min, max}; reason is `too_short`, `too_long` or `character`.
    """
    name = unicodedata.normalize("NFC", text).strip()
    if any(unicodedata.category(character) in _REFUSED for character in name):
        raise _refused(member, "character", "must not hold control or formatting characters")
    if not name:
        raise _refused(member, "too_short", f"must be 1 to {NAME_MAX} characters")
    if len(name) > NAME_MAX:
        raise _refused(member, "too_long", f"must be 1 to {NAME_MAX} characters")
    return name


def _refused(member: str, reason: str, message: str) -> Refusal:
    return errors.invalid_input(f"{member} {message}", member=member, reason=reason, min=1, max=NAME_MAX)


def slug(name: str) -> str:
    """Lower-case ASCII letters, digits and single hyphens, 1 to 48 characters: `Web Shop` is `web-shop`.

    A name without any letter or digit that ASCII knows (`東京`) is `tenant`.
    """
    decomposed = unicodedata.normalize("NFKD", name.lower().translate(_FOLDED))
    plain = "".join(character for character in decomposed if not unicodedata.combining(character))
    words = re.findall(r"[a-z0-9]+", plain.lower())
    return "-".join(words)[:SLUG_MAX].rstrip("-") or "tenant"


def free_slug(wanted: str, taken: frozenset[str]) -> str:
    """The slug itself, else the first free of `wanted-2`, `wanted-3`, …, cut so that the number fits."""
    candidate, number = wanted, 1
    while candidate in taken:
        number += 1
        suffix = f"-{number}"
        candidate = wanted[: SLUG_MAX - len(suffix)].rstrip("-") + suffix
    return candidate

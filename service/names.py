"""The characters of names and other texts, and the slugs made from names. contract: Tenant; checklist T05, T06"""

import re
import unicodedata

from client.models.names import CONTROL
from client.models.names import has_control as has_control
from service import errors
from service.errors import Refusal

NAME_MAX = 128
SLUG_MAX = 48
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
        raise _refused(member, "too_short", f"must be 1 to {NAME_MAX} characters")
    if len(name) > NAME_MAX:
        raise _refused(member, "too_long", f"must be 1 to {NAME_MAX} characters")
    return name


def visible(text: str) -> str:
    """Return a text without characters that are drawn as nothing, and without surrounding blanks."""
    kept = (c for c in text if c not in _BLANK and unicodedata.category(c) not in CONTROL)
    return unicodedata.normalize("NFC", "".join(kept)).strip()


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

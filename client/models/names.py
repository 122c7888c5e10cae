"""The characters that names must not contain, shared by the commands and the service."""

import unicodedata

# Characters that make one name look like another or control a terminal: controls, formats, surrogates, unassigned code
# points, line and paragraph separators.
CONTROL = frozenset({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})


def has_control(text: str, allowed: str = "") -> bool:
    """Return whether a text contains control, format, separator or unassigned characters, except the allowed ones."""
    return any(unicodedata.category(character) in CONTROL and character not in allowed for character in text)

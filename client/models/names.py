"""The characters that names must not hold: one rule for the commands and the service."""

import unicodedata

# Categories that let one name pass for another, or that move a terminal: controls, formats, surrogates, unassigned code
# points, line and paragraph separators.
CONTROL = frozenset({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})


def has_control(text: str, allowed: str = "") -> bool:
    """Return whether a text holds control, formatting, separating or unassigned characters, except the allowed ones."""
    return any(unicodedata.category(character) in CONTROL and character not in allowed for character in text)

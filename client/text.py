"""Escape untrusted text for a terminal, measure its width, and wrap it.

Widths are those of rich, which the screens also use, so that all tables agree. It is imported only for text that is not
printable ASCII.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

MARKS = 4
"""Combining marks shown on a character; further marks are counted."""

_BLANK_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0\u034f\u17b4\u17b5")
"""Invisible characters with the category letter, symbol or mark."""

_LOOK_ALIKE = frozenset({"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "FULLWIDTH", "MATHEMATICAL"})


def safe(value: object, cells: int | None = None) -> str:
    """Return untrusted text as one line without control sequences.

    Controls, escapes, direction overrides, invisible and unassigned characters become visible symbols (`␛`,
    `‹U+202E›`). Long runs of combining marks are shortened (`‹+97 marks›`).

    Args:
        value: Any value, converted with `str`.
        cells: Maximum width in terminal cells; longer text is truncated with `…`.
    """
    text = value if isinstance(value, str) else str(value)
    if text.isascii() and text.isprintable():
        return text if cells is None or len(text) <= cells else _cut(iter(text), cells)
    return "".join(_pieces(text)) if cells is None else _cut(_pieces(text), cells)


def width(text: str) -> int:
    """Return the width in terminal cells."""
    if text.isascii() and text.isprintable():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, cells: int) -> str:
    """Truncate `text` to `cells` terminal cells, ending with `…`. Call `safe` on the text first."""
    if len(text) <= cells and text.isascii() and text.isprintable():
        return text
    return _cut(_clusters(text), cells)


def wrapped(text: str, cells: int) -> list[str]:
    """Wrap at spaces to lines of at most `cells` cells. A longer word, such as a frn, is cut after `:` or `/`."""
    lines, line = [], ""
    for word in text.split(" "):
        joined = f"{line} {word}" if line else word
        if width(joined) <= cells:
            line = joined
            continue
        room = cells - width(line) - 1
        if line.strip() and width(word) > cells and (end := _cut_before(word, room)):
            line, word = f"{line} {word[:end]}", word[end:]
        if line.strip():
            lines.append(line.rstrip())
        while width(word) > cells:
            end = _cut_before(word, cells)
            if width(word[:end]) <= cells // 2:
                end = _fitting(word, cells) or len(next(_clusters(word)))
            lines.append(word[:end])
            word = word[end:]
        line = word
    return [*lines, line.rstrip()] if line.strip() or not lines else lines


def _cut_before(word: str, cells: int) -> int:
    """Return the number of the first characters that fit and end with `:` or `/`; 0 without one."""
    fitting = _fitting(word, cells)
    return 1 + max(word.rfind(":", 0, fitting), word.rfind("/", 0, fitting))


def _fitting(word: str, cells: int) -> int:
    """Return the number of the first characters that fit in `cells`."""
    if word.isascii():
        return max(cells, 0)
    used = count = 0
    for cluster in _clusters(word):
        used += width(cluster)
        if used > cells:
            break
        count += len(cluster)
    return count


def mixed_scripts(text: str) -> bool:
    """Return whether a word of `text` mixes scripts with similar letters (`Prоd` with a Cyrillic о)."""
    scripts: set[str] = set()
    for character in text:
        if not character.isalnum():
            scripts.clear()
            continue
        script = unicodedata.name(character, "").partition(" ")[0]
        if script in _LOOK_ALIKE:
            scripts.add(script)
        if len(scripts) > 1:
            return True
    return False


def _pieces(text: str) -> Iterator[str]:
    """Yield the indivisible units of `text`: characters with their marks, and visible symbols."""
    base, marks = "", 0
    for character in text:
        if base and character in "\ufe0e\ufe0f" and unicodedata.category(base[0])[0] in "SPN":
            continue  # selects a symbol's text or emoji form, for which terminals differ in width
        if _is_mark(character):
            marks += 1
            if marks <= MARKS:
                base = (base or "◌") + character
            continue
        yield from _finished(base, marks)
        base, marks = "", 0
        if _is_drawn(character):
            base = character
        else:
            yield _symbol(character)
    yield from _finished(base, marks)


def _finished(base: str, marks: int) -> Iterator[str]:
    if base:
        yield base
    if marks > MARKS:
        yield f"‹+{marks - MARKS} marks›"


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] == "M" and _is_drawn(character)


def _is_drawn(character: str) -> bool:
    """Return whether the character is visible or a space. Variation selectors are neither."""
    if character in _BLANK_LETTERS or "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef":
        return False
    return character.isprintable() or unicodedata.category(character) == "Zs"


def _symbol(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    return f"‹U+{code:04X}›"


def _clusters(text: str) -> Iterator[str]:
    """Yield characters with the zero-width characters that follow them."""
    cluster = ""
    for character in text:
        if cluster and width(character) > 0:
            yield cluster
            cluster = ""
        cluster += character
    if cluster:
        yield cluster


def _cut(pieces: Iterator[str], cells: int) -> str:
    """Join the pieces that fit in `cells`, ending with `…` if some do not."""
    if cells <= 0:
        return ""
    parts: list[str] = []
    used = room = 0
    for piece in pieces:
        used += width(piece)
        if used > cells:
            return "".join(parts[:room]) + "…"
        parts.append(piece)
        if used <= cells - 1:
            room = len(parts)
    return "".join(parts)

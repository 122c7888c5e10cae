"""The one function that makes foreign text safe for a terminal, and the widths that follow from it.

Source: hostile F01 to F11, F13; design: Screens (rules). Widths are those of the library that draws the screens, so
that a table of a command and a table of a screen agree; it is imported only when a text needs it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

MARKS = 4
"""Combining marks kept on one character; more are counted, not drawn (hostile F05)."""

_BLANK_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0\u034f\u17b4\u17b5")
"""Drawn as nothing although their category says letter, symbol or mark."""

_LOOK_ALIKE = frozenset({"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "FULLWIDTH", "MATHEMATICAL"})


def safe(value: object, cells: int | None = None) -> str:
    """Text from outside as one line that no terminal acts on.

    Controls, escapes, direction overrides, invisible and unassigned characters become visible symbols (`␛`,
    `‹U+202E›`), long runs of combining marks are counted (`‹+97 marks›`).

    Args:
        value: Any value; what is not text is written with `str`.
        cells: The most terminal cells the result may take; a longer one is cut with `…`.
    """
    text = value if isinstance(value, str) else str(value)
    if text.isascii() and text.isprintable():
        return text if cells is None or len(text) <= cells else _cut(iter(text), cells)
    return "".join(_pieces(text)) if cells is None else _cut(_pieces(text), cells)


def width(text: str) -> int:
    """Terminal cells that `text` takes."""
    if text.isascii() and text.isprintable():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, cells: int) -> str:
    """`text` in at most `cells` terminal cells, ended by `…` when something is missing. Call `safe` on it first."""
    if len(text) <= cells and text.isascii() and text.isprintable():
        return text
    return _cut(_clusters(text), cells)


def mixed_scripts(text: str) -> bool:
    """Whether one word of `text` mixes scripts whose letters look alike (`Prоd` with a Cyrillic о; hostile F13)."""
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
    """`text` in units that must not be parted: a character with its marks, or a visible symbol."""
    base, marks = "", 0
    for character in text:
        if base and character in "\ufe0e\ufe0f" and unicodedata.category(base[0])[0] in "SPN":
            continue  # asks for one of two looks of a symbol, which terminals draw in different widths
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
    """Whether a terminal shows something for it, or a space; a variation selector is a mark that it does not show."""
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
    """Characters with the zero-width ones that follow them."""
    cluster = ""
    for character in text:
        if cluster and width(character) > 0:
            yield cluster
            cluster = ""
        cluster += character
    if cluster:
        yield cluster


def _cut(pieces: Iterator[str], cells: int) -> str:
    """The pieces that fit in `cells`; when not all do, as many as leave room for `…`."""
    if cells <= 0:
        return ""
    kept: list[str] = []
    used = room = 0
    for piece in pieces:
        used += width(piece)
        if used > cells:
            return "".join(kept[:room]) + "…"
        kept.append(piece)
        if used <= cells - 1:
            room = len(kept)
    return "".join(kept)

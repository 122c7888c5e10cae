"""A screen as text: its characters, and below them one letter per cell that names the style of the cell.

Each line of the screen is a line of the file, and each style is defined once, at the top. A changed word, column or
colour is therefore a difference of a few lines.
"""

import difflib
import hashlib
import string
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, islice
from typing import NamedTuple

from rich.cells import split_graphemes
from rich.segment import Segment
from rich.style import Style

NAMES = string.ascii_letters + string.digits + "".join(chr(code) for code in range(0x3B1, 0x3CA))
"""Letters that name styles. They limit the number of styles of a screen."""
MAX_DIFF_LINES = 40


class Cell(NamedTuple):
    """One or two columns of a line: a grapheme and its style in Rich's notation.

    The style of a blank is only its background, unless it is underlined, struck through or reversed.
    """

    text: str
    width: int
    style: str


Line = tuple[Cell, ...]


@dataclass(frozen=True)
class Capture:
    """The contents of a terminal. Each line covers every column."""

    lines: tuple[Line, ...]

    @property
    def width(self) -> int:
        return sum(cell.width for cell in self.lines[0])

    @property
    def text(self) -> str:
        """The characters, without the styles."""
        return "\n".join("".join(cell.text for cell in line).rstrip(" ") for line in self.lines)

    @property
    def digest(self) -> str:
        """Hash of characters and styles, independent of the letters that name the styles in a file."""
        return hashlib.sha256(repr(self.lines).encode()).hexdigest()


def read_screen(lines: Iterable[Iterable[Segment]]) -> Capture:
    """Return the capture of rendered lines. Raise ValueError for a control character."""
    return Capture(tuple(tuple(_cells(line)) for line in lines))


def _cells(segments: Iterable[Segment]) -> Iterator[Cell]:
    for segment in segments:
        if segment.control:
            continue
        if not segment.text.isprintable() and any(unicodedata.category(letter) == "Cc" for letter in segment.text):
            raise ValueError(f"control character on the screen: {segment.text!r}")
        inked, blank = _describe(segment.style or Style())
        for start, end, width in split_graphemes(segment.text)[0]:
            text = segment.text[start:end]
            yield Cell(text, width, blank if text == " " else inked)


@lru_cache(maxsize=4096)
def _describe(style: Style) -> tuple[str, str]:
    """Return the styles of a letter and of a blank, in Rich's notation."""
    plain = style.clear_meta_and_links()
    visible = plain.underline or plain.strike or plain.reverse
    return str(plain), str(plain if visible else plain.background_style)


def write_capture(capture: Capture, former: str = "") -> str:
    """Return the text form of a capture.

    `former` is an older text form of the same screen. Its names of styles are reused, so that the two forms differ only
    where the screens do. A new style takes the name of the style that it replaces.
    """
    names = _name_styles(capture, former)
    table = sorted((name, style) for style, name in names.items())
    styles = ("".join(names[cell.style] * cell.width for cell in line) for line in capture.lines)
    return "\n".join(
        [
            f"{capture.width}x{len(capture.lines)}",
            *(f"{name} {style}" for name, style in table),
            "",
            capture.text,
            "",
            *styles,
            "",
        ]
    )


def _name_styles(capture: Capture, former: str) -> dict[str, str]:
    """Return the names of the styles of a capture."""
    styles = list(dict.fromkeys(cell.style for line in capture.lines for cell in line))
    old = {style: name for style, name in _table(former).items() if style in styles}
    letters = former.rstrip("\n").rpartition("\n\n")[2].split("\n")
    names = dict(old)
    for style in styles:
        if style not in names:
            same = (name for name in _letters_at(capture, style, letters) if name not in names.values())
            free = (name for name in NAMES if name not in names.values())
            names[style] = next(same, None) or next(free)
    return names


def _letters_at(capture: Capture, style: str, letters: Sequence[str]) -> Iterator[str]:
    """Yield the names that older style lines have for the cells of a style."""
    for line, old in zip(capture.lines, letters, strict=False):
        column = 0
        for cell in line:
            if cell.style == style and column < len(old):
                yield old[column]
            column += cell.width


def _table(document: str) -> dict[str, str]:
    """Return the names of the styles, as defined at the top of a text form."""
    rows = document.partition("\n\n")[0].split("\n")[1:]
    return {style: name for name, _, style in (row.partition(" ") for row in rows)}


def parse_capture(document: str) -> Capture:
    """Parse a text form. Raise ValueError if it is invalid."""
    head, _, rest = document.partition("\n\n")
    columns, rows = (int(number) for number in head.partition("\n")[0].split("x"))
    styles = {name: style for style, name in _table(document).items()}
    lines = rest.split("\n")
    if len(lines) != 2 * rows + 2 or lines[rows] or lines[-1]:
        raise ValueError(f"not {rows} lines of text and {rows} of styles")
    return Capture(
        tuple(
            tuple(_line(text, names, styles, columns))
            for text, names in zip(lines[:rows], lines[rows + 1 : -1], strict=True)
        )
    )


def _line(text: str, names: str, styles: dict[str, str], columns: int) -> Iterator[Cell]:
    if len(names) != columns:
        raise ValueError(f"{len(names)} styles for {columns} columns")
    spans, width = split_graphemes(text)
    column = 0
    for start, end, cells in [*spans, *((len(text), len(text), 1) for _ in range(columns - width))]:
        yield Cell(text[start:end] or " ", cells, styles[names[column]])
        column += cells


def compare(former: str, document: str, name: str) -> list[str]:
    """Return the unified diff of two text forms, limited to `MAX_DIFF_LINES` lines."""
    lines = difflib.unified_diff(
        former.split("\n"), document.split("\n"), f"captures/{name}.txt", "the program", n=0, lineterm=""
    )
    shown = list(islice(lines, MAX_DIFF_LINES))
    left = sum(1 for _ in lines)
    return [*shown, *([f"… {left} more lines"] if left else [])]


def spans_of(line: Line) -> Iterator[tuple[int, int, str, list[Cell]]]:
    """Yield column, width, style and cells of each part of a line with the same style."""
    column = 0
    for style, group in groupby(line, key=lambda cell: cell.style):
        cells = list(group)
        width = sum(cell.width for cell in cells)
        yield column, width, style, cells
        column += width

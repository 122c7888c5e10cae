"""Painting of lines and the widths of columns."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from client.tables.columns import Column, Record
from client.text import cut, safe, width
from tui.widgets.record_view import RecordView

SAMPLE = 200  # number of records that determine the widths
GAP = 2  # blanks between columns
NARROWEST = 8  # minimum width of a cut column, in cells
READABLE = 12  # a column is not cut below this width if another one can be
LONGEST_FIRST = 24  # minimum limit for the width of the first column
FEWEST = 2  # number of columns that are never removed


def fitted(view: RecordView[Any], space: int) -> list[tuple[Column, int]]:
    """Return columns and widths for a line: the widest are cut first, then the last ones are removed."""
    if space <= 0:
        return []
    widths = _natural_widths(view)
    longest = widths[0][1]
    # Limit a very long name, unless it is useless when cut.
    if not widths[0][0].whole:
        widths[0][1] = min(widths[0][1], max(LONGEST_FIRST, space * 2 // 5))
    while widths and sum(min(cells, NARROWEST) + GAP for _, cells in widths) - GAP > space:
        widths.pop()
    # A `wide` column is shown only if all others have their full width.
    while len(widths) > 1 and widths[-1][0].wide and sum(cells + GAP for _, cells in widths) - GAP > space:
        widths.pop()
    while (over := sum(cells + GAP for _, cells in widths) - GAP - space) > 0:
        # A cut time or id is useless: cut other columns first.
        cuttable = [pair for pair in widths[1:] if not pair[0].whole and pair[1] > READABLE]
        giving = [pair for pair in cuttable if pair[0].yields] or cuttable
        giving = giving or [pair for pair in widths[1:] if pair[0].yields and pair[1] > NARROWEST]
        # The first column identifies the record: it is cut only if no other can be.
        if not giving and len(widths) > FEWEST:
            widths.pop()
            continue
        widest = max(giving or widths[1:], key=lambda pair: pair[1], default=widths[0])
        # A first column that is useless when cut (the name of an operation) is cut only if all others are at the
        # minimum.
        keeps_first = widths[0][0].whole and widest is not widths[0] and widest[1] > NARROWEST
        if not giving and not keeps_first and widths[0][1] > NARROWEST:
            widest = widths[0]
        widest[1] = max(NARROWEST, widest[1] - min(over, max(1, widest[1] // 8)))
    if widths:
        widths[0][1] = min(longest, widths[0][1] - over)  # space that the other columns leave
    return [(column, cells) for column, cells in widths]


def _natural_widths(view: RecordView[Any]) -> list[list[Any]]:
    """Return the columns with their preferred widths, from a sample of the records."""
    sample = range(min(len(view), SAMPLE))
    widths: list[list[Any]] = []
    for index, column in enumerate(view.columns):
        # Omit empty columns, except the first one, which names the record, and the sort column.
        if index and column is not view.sort_column and view.is_unknown(column):
            continue
        texts = (width(safe(column.text(view.json_at(position)))) for position in sample)
        widths.append([column, max(width(column.title) + 2, *texts) if len(sample) else width(column.title) + 2])
    return widths


Tone = str | None
"""good, warning, bad, dim, mark or None. The text must have the same meaning without colour."""
Tones = Mapping[str, Callable[[Record], Tone | Sequence[tuple[int, Tone]]]]
"""Tones by column key: of a cell, or of its parts with their widths in cells."""

GUTTER = 2  # the mark and a blank, before the first column


class Brush(NamedTuple):
    """Paints lines with columns and widths, tones, and styles by name."""

    columns: Sequence[tuple[Column, int]]
    tones: Tones
    style: Callable[[str], Style]
    cells: int
    """Length of a line."""

    def head(self, view: RecordView[Any]) -> Strip:
        """Return the line of titles, with an arrow at the sort column."""
        style = self.style("head")
        # One segment for each column, as in the rows: an exported picture places each segment.
        segments = [Segment(" " * GUTTER, style)]
        for column, cells in self.columns:
            arrow = ""
            if column is view.sort_column:
                arrow = " ▼" if view.reverse else " ▲"
            segments += [Segment(_align(column.title + arrow, cells, column.align), style), Segment(" " * GAP, style)]
        return Strip(segments).adjust_cell_length(self.cells, style)

    def row(self, record: Record, base: Style, terms: Sequence[str], *, marked: bool) -> Strip:
        """Return the line of a record. The first occurrence of each of `terms` is highlighted."""
        segments = [Segment("● " if marked else " " * GUTTER, base + _foreground(self.style("mark")))]
        for column, cells in self.columns:
            tone = self.tones[column.key](record) if column.key in self.tones else None
            text = _align(safe(column.text(record)), cells, column.align)
            for part, name in _parts(text, tone):
                style = base if name is None else base + _foreground(self.style(name))
                segments += self._cell(part, style, terms)
            segments.append(Segment(" " * GAP, base))
        return Strip(segments).adjust_cell_length(self.cells, base)

    def message(self, text: str, base: Style) -> Strip:
        """Return the line of an empty list."""
        message = Segment(" " * GUTTER + cut(safe(text), self.cells - GUTTER), self.style("empty"))
        return Strip([message]).adjust_cell_length(self.cells, base)

    def _cell(self, text: str, style: Style, terms: Sequence[str]) -> list[Segment]:
        folded = text.casefold()
        # Casefolding may change the length (ß). Positions then differ, and no word is highlighted.
        if not terms or len(folded) != len(text):
            return [Segment(text, style)]
        matches = sorted({(folded.find(word), len(word)) for word in terms if word in folded})
        segments, done = [], 0
        match = _foreground(self.style("match"))
        for start, length in matches:
            if start < done:
                continue
            segments += [Segment(text[done:start], style), Segment(text[start : start + length], style + match)]
            done = start + length
        return [*segments, Segment(text[done:], style)]


def _parts(text: str, tone: Tone | Sequence[tuple[int, Tone]]) -> Iterator[tuple[str, Tone]]:
    """Yield the parts of a cell with their tones. The rest has none."""
    if tone is None or isinstance(tone, str):
        yield text, tone
        return
    for cells, name in tone:
        yield text[:cells], name
        text = text[cells:]
    yield text, None


def _foreground(style: Style) -> Style:
    """Return a style without its background, to combine with that of the cursor."""
    return Style(
        color=style.color, bold=style.bold, italic=style.italic, underline=style.underline, reverse=style.reverse
    )


def _align(text: str, cells: int, align: str) -> str:
    text = cut(text, cells)
    blanks = " " * (cells - width(text))
    return blanks + text if align == "right" else text + blanks

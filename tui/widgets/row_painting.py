"""The lines of a list as they are painted: its head, and a record with its tones and what the filter found."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from client.records import Column, Record
from client.text import cut, safe, width
from tui.record_view import RecordView
from tui.widgets.column_widths import GAP

Tone = str | None
"""good, warning, bad, dim, mark, or none at all. The text must say it as well."""
Tones = Mapping[str, Callable[[Record], Tone | Sequence[tuple[int, Tone]]]]
"""By column key: the tone of a cell, or the tones of its parts, each with the cells it covers."""

GUTTER = 2  # the mark and a blank, before the first column


class Brush(NamedTuple):
    """What lines are painted with: the columns with their widths, the tones, and the styles by name."""

    columns: Sequence[tuple[Column, int]]
    tones: Tones
    style: Callable[[str], Style]
    cells: int
    """How long a line is."""

    def head(self, view: RecordView) -> Strip:
        """The titles, with an arrow at the column sorted by."""
        style = self.style("head")
        # A segment a column, as in the rows below: an exported picture places each segment by itself.
        segments = [Segment(" " * GUTTER, style)]
        for column, cells in self.columns:
            arrow = ""
            if column is view.sort_column:
                arrow = " ▼" if view.reverse else " ▲"
            segments += [Segment(_aligned(column.title + arrow, cells, column.align), style), Segment(" " * GAP, style)]
        return Strip(segments).adjust_cell_length(self.cells, style)

    def row(self, record: Record, base: Style, words: Sequence[str], *, marked: bool) -> Strip:
        """A record; `words` are what the filter looks for, marked where they are found first."""
        segments = [Segment("● " if marked else " " * GUTTER, base + _foreground(self.style("mark")))]
        for column, cells in self.columns:
            tone = self.tones[column.key](record) if column.key in self.tones else None
            text = _aligned(safe(column.text(record)), cells, column.align)
            for part, name in _parts(text, tone):
                style = base if name is None else base + _foreground(self.style(name))
                segments += self._cell(part, style, words)
            segments.append(Segment(" " * GAP, base))
        return Strip(segments).adjust_cell_length(self.cells, base)

    def words(self, text: str, base: Style) -> Strip:
        """A line that says why there is nothing."""
        told = Segment(" " * GUTTER + cut(safe(text), self.cells - GUTTER), self.style("empty"))
        return Strip([told]).adjust_cell_length(self.cells, base)

    def _cell(self, text: str, style: Style, words: Sequence[str]) -> list[Segment]:
        folded = text.casefold()
        # Casefolding may change the length (ß); then places no longer agree and nothing is marked.
        if not words or len(folded) != len(text):
            return [Segment(text, style)]
        found = sorted({(folded.find(word), len(word)) for word in words if word in folded})
        segments, done = [], 0
        match = _foreground(self.style("match"))
        for start, length in found:
            if start < done:
                continue
            segments += [Segment(text[done:start], style), Segment(text[start : start + length], style + match)]
            done = start + length
        return [*segments, Segment(text[done:], style)]


def _parts(text: str, tone: Tone | Sequence[tuple[int, Tone]]) -> Iterator[tuple[str, Tone]]:
    """A cell in the parts that have a tone of their own; what is left over has none."""
    if tone is None or isinstance(tone, str):
        yield text, tone
        return
    for cells, name in tone:
        yield text[:cells], name
        text = text[cells:]
    yield text, None


def _foreground(style: Style) -> Style:
    """A component style without its background, to lie over the cursor's."""
    return Style(
        color=style.color, bold=style.bold, italic=style.italic, underline=style.underline, reverse=style.reverse
    )


def _aligned(text: str, cells: int, align: str) -> str:
    text = cut(text, cells)
    blanks = " " * (cells - width(text))
    return blanks + text if align == "right" else text + blanks

"""The list of every place: a virtual table that paints only the lines on the screen.

Opening 100,000 records costs what opening 1,000 does, because no widget, no text and no style exists for
a record until it scrolls into view. Textual's DataTable builds a cell for each and blocks for seconds.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from client.records import Column, Kind, Record
from client.text import cut, safe, width
from tui.record_view import RecordView

Tones = Mapping[str, Callable[[Record], str | None]]
"""By column key: the tone of a cell (good, warning, bad, dim) or None. The text must say it as well."""

SAMPLE = 200  # records whose texts decide how wide a column is
GAP = 2  # blanks between columns
NARROWEST = 8  # a column that must give way keeps this many cells
READABLE = 12  # cells below which a cut column says too little to be kept beside others
LONGEST_FIRST = 24  # cells the first column may take even where that is more than its share
FEWEST = 2  # columns that stay whatever the width
GUTTER = 2  # the mark and a blank, before the first column
CACHED_STRIPS = 2_000


class RecordTable(ScrollView, can_focus=True):
    """Records of one kind with a cursor, marks, sort and filter. It reads no data and runs no action."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="table.up"),
        Binding("down,j", "move(1)", "Down", show=False, id="table.down"),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False, id="table.page_up"),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False, id="table.page_down"),
        Binding("ctrl+u", "page(-0.5)", "Half a page up", show=False, id="table.half_up"),
        Binding("ctrl+d", "page(0.5)", "Half a page down", show=False, id="table.half_down"),
        Binding("home,g", "first", "First", show=False, id="table.first"),
        Binding("end,G", "last", "Last", show=False, id="table.last"),
        Binding("space", "mark", "Mark", show=False, id="table.mark"),
        Binding("enter", "open", "Open", show=False, id="table.open"),
    ]

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "record-table--head",
        "record-table--cursor",
        "record-table--cursor-blurred",
        "record-table--mark",
        "record-table--match",
        "record-table--good",
        "record-table--warning",
        "record-table--bad",
        "record-table--dim",
        "record-table--empty",
    }

    DEFAULT_CSS = """
    RecordTable {
        height: 1fr;
        background: $surface;
        color: $foreground;
        scrollbar-size-vertical: 1;
        overflow-x: hidden;
        & > .record-table--head { color: $text-muted; text-style: bold; }
        & > .record-table--cursor { background: $primary 30%; color: $foreground; text-style: bold; }
        & > .record-table--cursor-blurred { background: $foreground 8%; }
        & > .record-table--mark { color: $accent; text-style: bold; }
        & > .record-table--match { text-style: underline; color: $accent; }
        & > .record-table--good { color: $text-success; }
        & > .record-table--warning { color: $text-warning; }
        & > .record-table--bad { color: $text-error; }
        & > .record-table--dim { color: $text-muted; }
        & > .record-table--empty { color: $text-muted; }
        &:ansi > .record-table--cursor { text-style: bold reverse; }
        &:ansi > .record-table--cursor-blurred { text-style: reverse; }
    }
    """

    cursor: reactive[int] = reactive(0, repaint=False)
    """The position the cursor stands on, from 0; 0 as well when nothing is shown."""

    class Highlighted(Message):
        """The cursor came to another record (None: nothing is shown)."""

        def __init__(self, table: "RecordTable", record: Record | None) -> None:
            super().__init__()
            self.table = table
            self.record = record

        @property
        def control(self) -> "RecordTable":
            return self.table

    class Opened(Highlighted):
        """Enter or a second click on the record under the cursor."""

    class Arranged(Message):
        """Marks, sort, filter or the records themselves changed: counts beside the table are stale."""

        def __init__(self, table: "RecordTable") -> None:
            super().__init__()
            self.table = table

        @property
        def control(self) -> "RecordTable":
            return self.table

    def __init__(
        self,
        kind: Kind,
        columns: Sequence[Column] | None = None,
        *,
        tones: Tones | None = None,
        empty: str = "",
        name: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self.view = RecordView(kind, columns)
        self.tones = tones or {}
        self.empty = empty
        self._columns: list[tuple[Column, int]] = []
        self._fitted = Size(0, 0)
        self._strips: dict[tuple[Any, ...], Strip] = {}
        self._known: str | None = None
        self._telling = False

    # What is shown

    @property
    def record(self) -> Record | None:
        """The record under the cursor."""
        return self.view[self.cursor] if self.cursor < len(self.view) else None

    def show(self, records: Sequence[Record]) -> None:
        """Take a newer answer. Cursor, scroll, marks, sort and filter stay where they are."""
        self.view.replace(records)
        self._rearranged()

    def set_filter(self, line: str) -> None:
        """Show only the records the filter line accepts."""
        self.view.set_filter(line)
        self._rearranged()

    def sort_by(self, column: Column | None, reverse: bool = False) -> None:
        """Order by a column; None is the order of the service."""
        self.view.sort_by(column, reverse)
        self._rearranged()

    def sort_next(self) -> None:
        """Go through the columns: upwards, downwards, the next column, and at the end the service's order."""
        shown = [column for column, _ in self._columns]
        current = self.view.sort_column
        if current is not None and not self.view.reverse:
            self.sort_by(current, reverse=True)
            return
        place = shown.index(current) + 1 if current in shown else 0
        self.sort_by(shown[place] if place < len(shown) else None)

    def select(self, record_id: str) -> bool:
        """Put the cursor on a record; False when it is not shown."""
        position = self.view.position_of(record_id)
        if position is None:
            return False
        self._known = record_id
        self.cursor = position
        self.reveal(position)
        return True

    def set_empty(self, words: str) -> None:
        """What stands in an empty list: why it is empty and what to do."""
        self.empty = words
        self.refresh()

    def _rearranged(self) -> None:
        """Keep the cursor on the record it stood on, at the same height of the screen."""
        self._fit()
        # No width: what does not fit is cut, and a size that stays the same lays nothing out again.
        self.virtual_size = Size(0, len(self.view) + 1)
        place = self.view.position_of(self._known) if self._known is not None else None
        before = self.cursor
        after = place if place is not None else max(0, min(before, len(self.view) - 1))
        if after != before:
            self.scroll_to(y=max(0, self.scroll_offset.y + after - before), animate=False)
        with self.prevent(self.Highlighted):
            self.cursor = after
        self.reveal(after)
        self.refresh()
        self.post_message(self.Arranged(self))
        self._tell()

    def _tell(self) -> None:
        """Say where the cursor stands: once for many moves, after they are painted, so that the key is seen first."""
        record = self.record
        self._known = None if record is None else str(record[self.view.kind.id_key])
        if not self._telling:
            self._telling = True
            self.call_after_refresh(self._told)

    def _told(self) -> None:
        self._telling = False
        self.post_message(self.Highlighted(self, self.record))

    # Widths

    def _fit(self) -> None:
        """Choose columns and widths for the space there is: the widest give way first, then the last ones go."""
        self._strips.clear()
        self._fitted = self.size
        space = self.size.width - GUTTER - (1 if len(self.view) + 1 > self.size.height else 0)
        if space <= 0:
            self._columns = []
            return
        sample = range(min(len(self.view), SAMPLE))
        wanted: list[list[Any]] = []
        for column in self.view.columns:
            texts = (width(safe(column.text(self.view[position]))) for position in sample)
            wanted.append([column, max(width(column.title) + 2, *texts) if len(sample) else width(column.title) + 2])
        # One very long name must not push everything else out.
        wanted[0][1] = min(wanted[0][1], max(LONGEST_FIRST, space * 2 // 5))
        while wanted and sum(min(cells, NARROWEST) + GAP for _, cells in wanted) - GAP > space:
            wanted.pop()
        # A column of the wide kind is shown only where every other column has its full width.
        while len(wanted) > 1 and wanted[-1][0].wide and sum(cells + GAP for _, cells in wanted) - GAP > space:
            wanted.pop()
        while (over := sum(cells + GAP for _, cells in wanted) - GAP - space) > 0:
            widest = max(wanted[1:], key=lambda pair: pair[1], default=wanted[0])
            # The first column says which record it is: it is cut only when the others have nothing left to give.
            if widest[1] <= READABLE and len(wanted) > FEWEST:
                wanted.pop()
                continue
            if widest[1] <= READABLE and wanted[0][1] > NARROWEST:
                widest = wanted[0]
            widest[1] = max(NARROWEST, widest[1] - min(over, max(1, widest[1] // 8)))
        self._columns = [(column, cells) for column, cells in wanted]

    def on_resize(self, event: events.Resize) -> None:
        self.reveal(self.cursor)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._strips.clear()

    # Painting

    def render_line(self, y: int) -> Strip:
        # The first frame is painted before the event that tells of a size: it has its rows all the same.
        if self._fitted != self.size:
            self._fit()
        if y == 0:
            return self._head()
        position = self.scroll_offset.y + y - 1
        if position < len(self.view):
            return self._row(position)
        base = self.rich_style
        if not len(self.view) and y == 2:
            reason = f"Nothing matches {self.view.filter}; Esc clears the filter." if self.view.total else self.empty
            words = Segment(" " * GUTTER + cut(safe(reason), self.size.width - GUTTER), self._style("empty"))
            return Strip([words]).adjust_cell_length(self.size.width, base)
        return Strip.blank(self.size.width, base)

    def _style(self, part: str) -> Style:
        return self.get_component_rich_style(f"record-table--{part}")

    def _head(self) -> Strip:
        style = self._style("head")
        # A segment a column, as in the rows below: an exported picture places each segment by itself.
        segments = [Segment(" " * GUTTER, style)]
        for column, cells in self._columns:
            arrow = ""
            if column is self.view.sort_column:
                arrow = " ▼" if self.view.reverse else " ▲"
            segments += [
                Segment(_aligned(column.title + arrow, cells, column.align), style),
                Segment(" " * GAP, style),
            ]
        return Strip(segments).adjust_cell_length(self.size.width, style)

    def _row(self, position: int) -> Strip:
        record_id = self.view.id_at(position)
        marked = record_id in self.view.marks
        under = position == self.cursor
        key = (record_id, marked, under, under and self.has_focus)
        strip = self._strips.get(key)
        if strip is None:
            if len(self._strips) >= CACHED_STRIPS:
                self._strips.clear()
            strip = self._strips[key] = self._paint(self.view[position], marked, under)
        return strip

    def _paint(self, record: Record, marked: bool, under: bool) -> Strip:
        base = self.rich_style
        if under:
            base = base + self._style("cursor" if self.has_focus else "cursor-blurred")
        segments = [Segment("● " if marked else " " * GUTTER, base + _foreground(self._style("mark")))]
        for column, cells in self._columns:
            tone = self.tones[column.key](record) if column.key in self.tones else None
            style = base if tone is None else base + _foreground(self._style(tone))
            segments += self._cell(_aligned(safe(column.text(record)), cells, column.align), style)
            segments.append(Segment(" " * GAP, base))
        return Strip(segments).adjust_cell_length(self.size.width, base)

    def _cell(self, text: str, style: Style) -> list[Segment]:
        """The text of a cell, with the first place each filter word is found in marked."""
        folded = text.casefold()
        words = self.view.highlights
        # Casefolding may change the length (ß); then places no longer agree and nothing is marked.
        if not words or len(folded) != len(text):
            return [Segment(text, style)]
        found = sorted({(folded.find(word), len(word)) for word in words if word in folded})
        segments, done = [], 0
        match = _foreground(self._style("match"))
        for start, length in found:
            if start < done:
                continue
            segments += [Segment(text[done:start], style), Segment(text[start : start + length], style + match)]
            done = start + length
        return [*segments, Segment(text[done:], style)]

    # Moving

    def validate_cursor(self, position: int) -> int:
        return max(0, min(position, len(self.view) - 1))

    def watch_cursor(self, before: int, after: int) -> None:
        self.refresh_lines(before + 1)
        self.refresh_lines(after + 1)
        if before != after:
            self._tell()

    def watch_has_focus(self, focused: bool) -> None:
        self._strips.clear()
        super().watch_has_focus(focused)
        self.refresh_lines(self.cursor + 1)

    def reveal(self, position: int) -> None:
        """Scroll as little as needed to have the record on the screen; the head covers the first line."""
        height = self.size.height - 1
        if height <= 0:
            return
        top = self.scroll_offset.y
        if position < top:
            self.scroll_to(y=position, animate=False)
        elif position >= top + height:
            self.scroll_to(y=position - height + 1, animate=False)

    def _go(self, position: int) -> None:
        self.cursor = position
        self.reveal(self.cursor)

    def action_move(self, lines: int) -> None:
        self._go(self.cursor + lines)

    def action_page(self, pages: float) -> None:
        self._go(self.cursor + int(pages * max(1, self.size.height - 1)))

    def action_first(self) -> None:
        self._go(0)

    def action_last(self) -> None:
        self._go(len(self.view) - 1)

    def action_mark(self) -> None:
        if self.record is not None:
            self.view.toggle_mark(self.cursor)
            self.refresh_lines(self.cursor + 1)
            self.post_message(self.Arranged(self))
            self._go(self.cursor + 1)

    def clear_marks(self) -> bool:
        """Take all marks away; False when there were none."""
        if not self.view.marks:
            return False
        self.view.marks.clear()
        self.refresh()
        self.post_message(self.Arranged(self))
        return True

    def action_open(self) -> None:
        if self.record is not None:
            self.post_message(self.Opened(self, self.record))

    def on_click(self, event: events.Click) -> None:
        if event.y == 0:
            self._click_head(event.x)
            return
        position = self.scroll_offset.y + event.y - 1
        if position >= len(self.view):
            return
        again = position == self.cursor and event.chain > 1
        self.cursor = position
        if again:
            self.action_open()

    def _click_head(self, x: int) -> None:
        left = GUTTER
        for column, cells in self._columns:
            if left <= x < left + cells + GAP:
                self.sort_by(column, reverse=column is self.view.sort_column and not self.view.reverse)
                return
            left += cells + GAP

    def cursor_region(self) -> Region:
        """Where the cursor's line is, in cells of this widget: a menu opens beside it."""
        return Region(0, self.cursor + 1 - self.scroll_offset.y, self.size.width, 1)


def _foreground(style: Style) -> Style:
    """A component style without its background, to lie over the cursor's."""
    return Style(
        color=style.color, bold=style.bold, italic=style.italic, underline=style.underline, reverse=style.reverse
    )


def _aligned(text: str, cells: int, align: str) -> str:
    text = cut(text, cells)
    blanks = " " * (cells - width(text))
    return blanks + text if align == "right" else text + blanks

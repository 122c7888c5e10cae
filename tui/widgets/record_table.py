"""The list of every place: a virtual table that paints only the lines on the screen.

Opening 100,000 records costs what opening 1,000 does, because no widget, no text and no style exists for
a record until it scrolls into view. Textual's DataTable builds a cell for each and blocks for seconds.
"""

import textwrap
from collections.abc import Sequence
from typing import Any, ClassVar

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.timer import Timer

from client.records import Column, Kind, Record
from client.text import safe
from tui import filters
from tui.record_view import RecordView
from tui.widgets.column_widths import GAP, fitted
from tui.widgets.row_painting import GUTTER, Brush, Tones

__all__ = ("RecordTable", "Tones")

CACHED_STRIPS = 2_000
PREPARED, PREPARED_SECONDS = 1_000, 0.02  # records whose filter text is made at once, ahead of the first filter


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
        self._preparing: Timer | None = None

    # What is shown

    @property
    def record(self) -> Record | None:
        """The record under the cursor."""
        return self.view[self.cursor] if self.cursor < len(self.view) else None

    @property
    def meant(self) -> list[Record]:
        """The records an action on several is about: those marked, or the one under the cursor."""
        return self.view.marked() or ([self.record] if self.record is not None else [])

    def show(self, records: Sequence[Record]) -> None:
        """Take a newer answer. Cursor, scroll, marks, sort and filter stay where they are."""
        self.view.replace(records)
        self._rearranged()
        if self._preparing is None and len(records) > PREPARED:
            self._preparing = self.set_interval(PREPARED_SECONDS, self._prepare)

    def _prepare(self) -> None:
        """A little at a time: done at the first letter of a filter, a long list would miss a frame."""
        if not self.view.prepare(PREPARED) and self._preparing is not None:
            self._preparing.stop()
            self._preparing = None

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

    def begin(self) -> None:
        """Stand on the first record: what is shown next is another list."""
        self._known = None
        self.cursor = 0

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
        if record is not None:  # a list that is empty now may get its rows again, and the cursor its record
            self._known = str(record[self.view.kind.id_key])
        if not self._telling:
            self._telling = True
            self.call_after_refresh(self._told)

    def _told(self) -> None:
        self._telling = False
        self.post_message(self.Highlighted(self, self.record))

    # Widths

    def _fit(self) -> None:
        self._strips.clear()
        self._fitted = self.size
        # A cell stays free at the right, as beside the count above; where it is needed the scrollbar stands there.
        self._columns = fitted(self.view, self.size.width - GUTTER - 1)

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
            return self._brush().head(self.view)
        position = self.scroll_offset.y + y - 1
        if position < len(self.view):
            return self._row(position)
        base = self.rich_style
        if not len(self.view) and y >= 2:
            reason = self._unmatched() if self.view.total else self.empty
            lines = textwrap.wrap(safe(reason), max(1, self.size.width - 2 * GUTTER))
            return self._brush().words("".join(lines[y - 2 : y - 1]), base)
        return Strip.blank(self.size.width, base)

    def _unmatched(self) -> str:
        """Why nothing is shown; a column that does not exist is the likeliest reason."""
        names = self.view.field_names
        unknown = filters.unknown_field(self.view.filter, names)
        told = f" No column is called {unknown}; there are: {', '.join(names)}." if unknown else ""
        return f"Nothing matches {self.view.filter}; Esc clears the filter.{told}"

    def _style(self, part: str) -> Style:
        return self.get_component_rich_style(f"record-table--{part}")

    def _brush(self) -> Brush:
        return Brush(self._columns, self.tones, self._style, self.size.width)

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
        return self._brush().row(record, base, self.view.highlights, marked=marked)

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

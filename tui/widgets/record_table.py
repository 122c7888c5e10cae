"""A virtual table that paints only the visible lines.

A record has no widget, text or style until it scrolls into view, so 100,000 records open as fast as 1,000. Textual's
DataTable creates a cell for each and blocks for seconds.
"""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Generic

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.timer import Timer

from client.tables.columns import Column, Kind, Record
from client.text import safe
from tui.widgets import record_view
from tui.widgets.record_view import RecordView, T
from tui.widgets.row_painting import GAP, GUTTER, Brush, Tones, fitted

__all__ = ("RecordTable", "Tones")

CACHED_STRIPS = 2_000
PREPARED, PREPARED_SECONDS = 1_000, 0.02  # number of records whose filter text is prepared at a time, and the interval


@lru_cache(8)
def _wrapped(text: str, cells: int) -> list[str]:
    """Return the lines of a text."""
    return textwrap.wrap(safe(text), cells)


class RecordTable(ScrollView, Generic[T], can_focus=True):
    """Rows of one kind with cursor, marks, sort and filter. It reads no data and runs no actions."""

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
    """Position of the cursor, from 0; 0 in an empty list."""

    @dataclass(eq=False)
    class Highlighted(Message):
        """The cursor moved to another record; None in an empty list."""

        table: "RecordTable[Any]"
        record: Any
        """The record under the cursor."""

        def can_replace(self, message: Message) -> bool:
            return type(message) is type(self) is RecordTable.Highlighted

        @property
        def control(self) -> "RecordTable[Any]":
            return self.table

    class Opened(Highlighted):
        """Enter was pressed, or the record under the cursor was clicked again. The row of an empty list is None."""

    @dataclass(eq=False)
    class Arranged(Message):
        """Marks, sort order, filter or records changed."""

        table: "RecordTable[Any]"

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, RecordTable.Arranged)

        @property
        def control(self) -> "RecordTable[Any]":
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
        self.view: RecordView[T] = RecordView(kind, columns)
        self.tones = tones or {}
        self.empty = empty
        self._columns: list[tuple[Column, int]] = []
        self._fitted = Size(0, 0)
        self._strips: dict[tuple[Any, ...], Strip] = {}
        self._base: Style | None = None
        self._known: str | None = None
        self._announcing = False
        self._preparing: Timer | None = None

    # Contents

    @property
    def record(self) -> T | None:
        """The record under the cursor."""
        return self.view[self.cursor] if self.cursor < len(self.view) else None

    @property
    def selected_records(self) -> list[T]:
        """The records for an action on several: the marked ones, or the selected one."""
        return self.view.marked() or ([self.record] if self.record is not None else [])

    def show(self, records: Sequence[T]) -> None:
        """Replace the records. Cursor, scroll position, marks, sort order and filter do not change."""
        self.view.replace(records)
        self._rearranged()
        if self._preparing is None and len(records) > PREPARED:
            self._preparing = self.set_interval(PREPARED_SECONDS, self._prepare)

    def _prepare(self) -> None:
        """Prepare a few filter texts. For a long list, all at the first keystroke would delay a frame."""
        if not self.view.prepare(PREPARED) and self._preparing is not None:
            self._preparing.stop()
            self._preparing = None

    def set_filter(self, line: str) -> None:
        """Show only the records that match the filter line."""
        self.view.set_filter(line)
        self._rearranged()

    def sort_by(self, column: Column | None, reverse: bool = False) -> None:
        """Sort by a column; None restores the order of the service."""
        self.view.sort_by(column, reverse)
        self._rearranged()

    def sort_next(self) -> None:
        """Sort by the next order: ascending, descending, the next column, and finally the order of the service."""
        columns = [column for column, _ in self._columns]
        current = self.view.sort_column
        if current is not None and not self.view.reverse:
            self.sort_by(current, reverse=True)
            return
        index = columns.index(current) + 1 if current in columns else 0
        self.sort_by(columns[index] if index < len(columns) else None)

    def select(self, record_id: str) -> bool:
        """Move the cursor to a record. Return False if it is not shown."""
        position = self.view.position_of(record_id)
        if position is None:
            return False
        self._known = record_id
        self.cursor = position
        self.reveal(position)
        return True

    def reset_cursor(self) -> None:
        """Move the cursor to the first record, for a new list."""
        self._known = None
        self.cursor = 0

    def set_empty(self, text: str) -> None:
        """Set the text of an empty list."""
        self.empty = text
        self.refresh()

    def _rearranged(self) -> None:
        """Update after a change of the view. The cursor stays on its record, on the same line of the screen."""
        self._fit()
        # Width 0: lines are cut, and an unchanged size causes no layout.
        self.virtual_size = Size(0, len(self.view) + 1)
        index = self.view.position_of(self._known) if self._known is not None else None
        before = self.cursor
        after = index if index is not None else max(0, min(before, len(self.view) - 1))
        if after != before:
            self.scroll_to(y=max(0, self.scroll_offset.y + after - before), animate=False)
        with self.prevent(self.Highlighted):
            self.cursor = after
        self.reveal(after)
        self.refresh()
        self.post_message(self.Arranged(self))
        self._announce()

    def _announce(self) -> None:
        """Post one `Highlighted` for several moves, after they are painted."""
        if self.cursor < len(self.view):  # an empty list may get its rows again, and the cursor its row
            self._known = self.view.id_at(self.cursor)
        if not self._announcing:
            self._announcing = True
            self.call_after_refresh(self._announced)

    def _announced(self) -> None:
        self._announcing = False
        self.post_message(self.Highlighted(self, self.record))

    # Widths

    def _fit(self) -> None:
        self._strips.clear()
        self._fitted = self.size
        # The last cell is free, as in the heading, or used by the scrollbar.
        self._columns = fitted(self.view, self.size.width - GUTTER - 1)

    def on_resize(self, event: events.Resize) -> None:
        self.reveal(self.cursor)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._strips.clear()
        self._base = None

    # Painting

    def render_line(self, y: int) -> Strip:
        # The first frame is painted before the resize event.
        if self._fitted != self.size:
            self._fit()
        if y == 0:
            return self._brush().head(self.view)
        position = self.scroll_offset.y + y - 1
        if position < len(self.view):
            return self._row(position)
        base = self._base_style()
        if not len(self.view) and y >= 2:
            reason = self._no_match_text() if self.view.total else self.empty
            if y - 2 < len(lines := _wrapped(reason, max(1, self.size.width - 2 * GUTTER))):
                return self._brush().message(lines[y - 2], base)
        return Strip.blank(self.size.width, base)

    def _no_match_text(self) -> str:
        """Return why no record matches; an unknown column is the likeliest reason."""
        names = self.view.field_names
        unknown = record_view.unknown_field(self.view.filter, names)
        note = f" No column named {unknown}; columns: {', '.join(names)}." if unknown else ""
        return f"No matches for {self.view.filter}; Esc to clear the filter.{note}"

    def _base_style(self) -> Style:
        """Return the style of the table. Textual combines it from all ancestors, for each line of a frame."""
        if self._base is None:
            self._base = self.rich_style
        return self._base

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
            strip = self._strips[key] = self._paint(self.view.json_at(position), marked, under)
        return strip

    def _paint(self, record: Record, marked: bool, under: bool) -> Strip:
        base = self._base_style()
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
            self._announce()

    def watch_has_focus(self, focused: bool) -> None:
        self._strips.clear()
        super().watch_has_focus(focused)
        self.refresh_lines(self.cursor + 1)

    def reveal(self, position: int) -> None:
        """Scroll a record into view, as little as possible. The head covers the first line."""
        height = self.size.height - 1
        if height <= 0:
            return
        top = self.scroll_offset.y
        if position < top:
            self.scroll_to(y=position, animate=False)
        elif position >= top + height:
            self.scroll_to(y=position - height + 1, animate=False)

    async def on_key(self, event: events.Key) -> None:
        """Run a binding of the table. Textual would run it after the key has waited in the queue of each container."""
        node, bindings = self.screen._modal_binding_chain[0]
        for binding in bindings.key_to_bindings.get(event.key, ()) if node is self else ():
            if not binding.priority and await self.app.run_action(binding.action, self):
                event.stop()
                return

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
        """Clear all marks. Return False if there were none."""
        if not self.view.marks:
            return False
        self.view.marks.clear()
        self.refresh()
        self.post_message(self.Arranged(self))
        return True

    def action_open(self) -> None:
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

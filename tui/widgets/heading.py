"""The line above a list: title, filter and number of records.

One widget paints title and number. The filter input is mounted when the filter is first used.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from client.text import cut, safe, width

if TYPE_CHECKING:
    from textual.widgets import Input

NARROWEST_FILTER = 12
NARROWEST_COUNT = 16


class Heading(Widget):
    """`/` opens the filter between title and number, with its text selected, so that typing replaces it. Esc clears it,
    Enter and Down move to the list.

    If the filter is too long, its end is visible while it has the focus, else its beginning.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "leave", show=False, priority=True),
        Binding("down,enter,tab", "done", show=False, priority=True),
    ]

    DEFAULT_CSS = """
    Heading {
        height: 1;
        padding: 0 1 0 2;
        margin: 1 0;
        color: $foreground;
    }
    """

    @dataclass(eq=False)
    class Filtered(Message):
        """The filter line changed."""

        line: str

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, Heading.Filtered)

    def __init__(self, title: str, leave: Callable[[], None]) -> None:
        """`leave` moves the focus to the list. It is a callback: a message would arrive after queued keys."""
        super().__init__()
        self._leave = leave
        self.screen_title = title
        self._count = ""
        self._line: Input | None = None

    def _input(self) -> "Input":
        """Return the filter input, mounted on first use and hidden."""
        if self._line is None:
            from tui.widgets.lines import LineInput

            self._line = LineInput(placeholder="text, !exclude, field:value")
            self._line.display = False
            self.mount(self._line)
        return self._line

    def render(self) -> Content:
        cells = self.content_size.width
        title = Content.styled(self.screen_title, "bold")
        if self.filtering:
            title += Content.styled("  / ", "bold $text-accent")
        room = max(0, cells - title.cell_length - 2)
        count = cut(self._count, max(0, room - self._filter_cells(room - NARROWEST_COUNT)))
        if self._line is not None:
            self._line.styles.margin = (0, width(count) + 2, 0, title.cell_length)
        blanks = max(0, cells - title.cell_length - width(count))
        return title.pad_right(blanks) + Content.styled(count, "$text-muted")

    def _filter_cells(self, limit: int) -> int:
        """Return the cells to reserve for the filter with its cursor, at most `limit` or the minimum."""
        if self._line is None or not self._line.display:
            return 0
        return max(NARROWEST_FILTER, min(width(self._line.value) + 1, limit))

    @property
    def filtering(self) -> bool:
        """Whether the filter is visible."""
        return self._line is not None and bool(self._line.display)

    def open(self) -> None:
        """Show the filter and move the focus to it."""
        line = self._input()
        line.display = True
        line.action_select_all()
        self.refresh()
        # `focus` would be deferred, and the next keys may be queued already.
        self.screen.set_focus(line)

    def put(self, filter_line: str) -> None:
        """Set the filter."""
        if not filter_line and self._line is None:
            return
        line = self._input()
        line.display = bool(filter_line)
        line.value = filter_line
        self.refresh()

    def clear(self) -> bool:
        """Clear the filter. Return False if there was none."""
        had = self.filtering
        self.put("")
        return had

    def rename(self, title: str) -> None:
        """Change the title to that of another record."""
        self.screen_title = safe(title)
        self.refresh()

    def count(self, text: str) -> None:
        """Set the text at the right end."""
        text = safe(text)
        if text != self._count:
            self._count = text
            self.refresh()

    def on_input_changed(self, event: Any) -> None:
        event.stop()
        self._show_beginning()
        self.refresh()  # the filter has another width
        self.post_message(self.Filtered(event.value))

    def on_descendant_blur(self) -> None:
        self._show_beginning()

    def _show_beginning(self) -> None:
        # A line set by `put` has its cursor at the end; a hidden input that is cleared is scrolled to its cursor.
        if self._line is not None and not self._line.has_focus:
            self._line.cursor_position = 0
            self._line.scroll_to(x=0, animate=False, force=True)

    def action_leave(self) -> None:
        self.clear()
        self._leave()

    def action_done(self) -> None:
        assert self._line is not None
        self._line.display = bool(self._line.value)
        self.refresh()
        self._leave()

"""The line above a list: the place's title, the filter while there is one, and the count.

The title and the count are painted by one widget. The input of the filter is mounted once the first frame
is on the screen: it alone would make that frame an eighth later.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from client.text import cut, safe, width

if TYPE_CHECKING:
    from textual.widgets import Input

NARROWEST_FILTER = 12


class Heading(Widget):
    """`/` opens the filter between title and count. Esc there takes it away, Enter and Down go to the list.

    A filter longer than its room shows its end while it is typed, and its beginning else.
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

    class Filtered(Message):
        """The filter line changed."""

        def __init__(self, line: str) -> None:
            super().__init__()
            self.line = line

    def __init__(self, title: str, leave: Callable[[], None]) -> None:
        """`leave` gives the focus to the list: called, as the next key may wait already and a message is late."""
        super().__init__()
        self._leave = leave
        self.place_title = title
        self._count = ""
        self._line: Input | None = None

    def furnish(self) -> None:
        """Mount the input, out of sight."""
        if self._line is not None:
            return
        from tui.widgets.line_input import LineInput

        self._line = LineInput(placeholder="words, !word, field:value")
        self._line.display = False
        self.mount(self._line)

    def render(self) -> Content:
        cells = self.content_size.width
        title = Content.styled(self.place_title, "bold")
        if self.filtering:
            title += Content.styled("  / ", "bold $text-accent")
        room = max(0, cells - title.cell_length - 2 - (NARROWEST_FILTER if self.filtering else 0))
        count = cut(self._count, room)
        if self._line is not None:
            self._line.styles.margin = (0, width(count) + 2, 0, title.cell_length)
        blanks = max(0, cells - title.cell_length - width(count))
        return title.pad_right(blanks) + Content.styled(count, "$text-muted")

    @property
    def filtering(self) -> bool:
        """Whether the filter is in sight."""
        return self._line is not None and bool(self._line.display)

    def open(self) -> None:
        """Start typing a filter."""
        self.furnish()
        assert self._line is not None
        self._line.display = True
        self._line.cursor_position = len(self._line.value)
        self.refresh()
        # At once and not in a moment, as `focus` would: the next keys may have been typed already.
        self.screen.set_focus(self._line)

    def put(self, filter_line: str) -> None:
        """Set the filter from elsewhere."""
        if not filter_line and self._line is None:
            return
        self.furnish()
        assert self._line is not None
        self._line.display = bool(filter_line)
        self._line.value = filter_line
        self.refresh()

    def clear(self) -> bool:
        """Take the filter away; False when there was none."""
        had = self.filtering
        self.put("")
        return had

    def rename(self, title: str) -> None:
        """Another title: what is shown belongs to another record now."""
        self.place_title = safe(title)
        self.refresh()

    def count(self, words: str) -> None:
        """The words at the right end."""
        words = safe(words)
        if words != self._count:
            self._count = words
            self.refresh()

    def on_input_changed(self, event: Any) -> None:
        event.stop()
        self._show_beginning()
        self.post_message(self.Filtered(event.value))

    def on_descendant_blur(self) -> None:
        self._show_beginning()

    def _show_beginning(self) -> None:
        # A line set from elsewhere has its cursor at its end; one emptied out of sight was scrolled for its cursor.
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

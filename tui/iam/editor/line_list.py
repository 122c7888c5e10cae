"""A list of lines that renders only the visible ones."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip


class Line(NamedTuple):
    """A line: its content, or a function that creates it when rendered. Only lines with a `ref` can be chosen."""

    content: Content | Callable[[], Content]
    ref: Any = None


class LineList(ScrollView, can_focus=True):
    """Shows lines; Up and Down move the cursor, Enter or a click chooses."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "move(-10)", show=False),
        Binding("pagedown", "move(10)", show=False),
        Binding("home,g", "move(-100000)", show=False),
        Binding("end,G", "move(100000)", show=False),
        Binding("enter", "choose", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"lines--cursor", "lines--blurred"}
    DEFAULT_CSS = """
    LineList {
        background: $background;
        color: $foreground;
        scrollbar-size: 0 1;
        scrollbar-color: $border;
        scrollbar-background: $background;
        & .lines--cursor { background: $block-cursor-background; color: $block-cursor-foreground; }
        & .lines--blurred { background: $panel; }
    }
    """

    class Chosen(Message):
        """Posted when a line is chosen with Enter or a click."""

        def __init__(self, ref: Any) -> None:
            super().__init__()
            self.ref = ref

    class Moved(Message):
        """Posted when the cursor moves to another line."""

        def __init__(self, ref: Any) -> None:
            super().__init__()
            self.ref = ref

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.lines: Sequence[Line] = ()
        self.cursor = 0
        self._strips: dict[tuple[int, int], Strip] = {}

    def show(self, lines: Sequence[Line]) -> None:
        """Replace the lines. The cursor follows the `ref` of its line, if it still exists."""
        ref = self.ref
        self.lines = lines
        self._strips.clear()
        index = next((at for at, line in enumerate(lines) if line.ref is not None and line.ref == ref), None)
        self.cursor = self._choosable(min(self.cursor, len(lines) - 1), 1) if index is None else index
        self.virtual_size = Size(0, len(lines))
        self.refresh()

    @property
    def ref(self) -> Any:
        """The `ref` of the line under the cursor."""
        return self.lines[self.cursor].ref if 0 <= self.cursor < len(self.lines) else None

    def _choosable(self, at: int, step: int) -> int:
        """Return the nearest line with a `ref`, in the direction of `step` first; 0 without any."""
        for way in (step, -step):
            place = at
            while 0 <= place < len(self.lines):
                if self.lines[place].ref is not None:
                    return place
                place += way
        return 0

    def action_move(self, by: int) -> None:
        if not any(line.ref is not None for line in self.lines):
            self.scroll_relative(y=by, animate=False)
            return
        step = 1 if by > 0 else -1
        index = min(max(self.cursor + by, 0), len(self.lines) - 1)
        self.move_to(self._choosable(index, step))

    def move_to(self, at: int) -> None:
        """Move the cursor to a line and scroll to it, including the lines below it up to the next choice."""
        if at == self.cursor and self.lines:
            # For the first choice, also show the heading above it.
            self.scroll_to_region(
                Region(0, 0 if not any(one.ref for one in self.lines[:at]) else at, 1, 1), animate=False
            )
            return
        self.cursor = at
        end = next((place for place in range(at + 1, len(self.lines)) if self.lines[place].ref is not None), None)
        height = min((end if end is not None else len(self.lines)) - at, max(1, self.size.height))
        self.scroll_to_region(Region(0, at, 1, height), animate=False)
        self.refresh()
        self.post_message(self.Moved(self.ref))

    def action_choose(self) -> None:
        if self.ref is not None:
            self.post_message(self.Chosen(self.ref))

    def on_click(self, event: events.Click) -> None:
        at = event.y + self.scroll_offset.y
        if at < len(self.lines):
            while at > 0 and self.lines[at].ref is None:
                at -= 1
            if self.lines[at].ref is not None:
                self.move_to(at)
                self.action_choose()

    def notify_style_update(self) -> None:
        self._strips.clear()
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        at, width = y + self.scroll_offset.y, self.scrollable_content_region.width
        base = self.rich_style
        if at >= len(self.lines) or width <= 0:
            return Strip.blank(max(width, 0), base)
        strip = self._strips.get((at, width))
        if strip is None:
            content = self.lines[at].content
            content = (content() if callable(content) else content).truncate(width, ellipsis=True)
            segments = content.render_segments(self.visual_style)
            strip = self._strips[at, width] = Strip(segments, content.cell_length).extend_cell_length(width, base)
        if at == self.cursor and self.lines[at].ref is not None:
            name = "lines--cursor" if self.has_focus else "lines--blurred"
            style = self.get_component_rich_style(name)
            plain = base.bgcolor
            return Strip(
                [
                    Segment(text, (of + style.from_color(None, style.bgcolor)) if of and of.bgcolor == plain else of)
                    for text, of, _ in strip
                ],
                strip.cell_length,
            )
        return strip

"""The small list of what can stand at the cursor. It never takes the keyboard: who types keeps typing."""

from collections.abc import Sequence

from textual import events
from textual.content import Content
from textual.geometry import Offset
from textual.message import Message
from textual.widget import Widget

from client.text import cut, safe, width
from tui.editor.completion import Choice

ROWS = 8
WIDEST = 60


class Popup(Widget):
    """Shows choices beside a place on the screen."""

    DEFAULT_CSS = """
    Popup {
        layer: above;
        position: absolute;
        display: none;
        height: auto;
        background: $panel;
        color: $foreground;
        & .popup--cursor { background: $block-cursor-background; }
    }
    """
    COMPONENT_CLASSES = {"popup--cursor"}  # noqa: RUF012  (declared on the base class)

    class Taken(Message):
        """A click on a choice."""

        def __init__(self, choice: Choice) -> None:
            super().__init__()
            self.choice = choice

    def __init__(self) -> None:
        super().__init__(id="popup")
        self.choices: Sequence[Choice] = ()
        self.cursor = 0
        self._first = 0

    @property
    def opened(self) -> bool:
        """Whether it is in sight."""
        return bool(self.display)

    @property
    def choice(self) -> Choice:
        """The one under its cursor."""
        return self.choices[self.cursor]

    def open(self, choices: Sequence[Choice], at: Offset) -> None:
        """Show choices below a cell of the screen, above it where there is no room."""
        self.choices, self.cursor, self._first = choices, 0, 0
        rows = min(len(choices), ROWS)
        text = max(width(safe(choice.text)) for choice in choices)
        note = max(width(choice.note) for choice in choices)
        cells = min(text + (note + 2 if note else 0) + 2, WIDEST, self.screen.size.width)
        self._text = min(text, cells - 2)
        below = at.y + 1 + rows <= self.screen.size.height - 1
        self.styles.width, self.styles.height = cells, rows
        x = max(0, min(at.x - 1, self.screen.size.width - cells))
        self.styles.offset = (x, at.y + 1 if below else max(0, at.y - rows))
        self.display = True
        self.refresh()

    def close(self) -> None:
        """Go out of sight."""
        self.display = False

    def at_end(self, by: int) -> bool:
        """Whether there is no choice further in that direction."""
        return not 0 <= self.cursor + by < len(self.choices)

    def move(self, by: int) -> None:
        """Choose another; the ends meet."""
        self.cursor = (self.cursor + by) % len(self.choices)
        self._first = max(min(self._first, self.cursor), self.cursor - ROWS + 1)
        self.refresh()

    def render(self) -> Content:
        cells = self.content_size.width
        lines = []
        for at in range(self._first, min(self._first + ROWS, len(self.choices))):
            choice = self.choices[at]
            text = cut(safe(choice.text), self._text)
            line = Content.assemble(" ", text, " " * (self._text - width(text) + 1))
            if room := cells - line.cell_length - 1:
                line += Content.styled(cut(f" {choice.note}" if choice.note else "", room), "$text-muted")
            line = line.pad_right(max(0, cells - line.cell_length))
            if at == self.cursor:
                line = line.stylize(self.get_visual_style("popup--cursor"))
            lines.append(line)
        return Content("\n").join(lines)

    def on_click(self, event: events.Click) -> None:
        event.stop()
        at = self._first + event.y
        if at < len(self.choices):
            self.post_message(self.Taken(self.choices[at]))

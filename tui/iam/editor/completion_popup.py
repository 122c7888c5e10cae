"""Completion while typing: opening the popup, its keys, and inserting a choice."""

from collections.abc import Sequence

from textual import events
from textual.content import Content
from textual.geometry import Offset
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input

from client.text import cut, safe, width
from tui.iam.editor import completion
from tui.iam.editor.base import EditorBase
from tui.iam.editor.completion import Catalogue, Choice, Offer
from tui.iam.editor.json_scanner import Lines

ROWS = 8
WIDEST = 60


class Popup(Widget):
    """Shows choices below or above a cell of the screen."""

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
        return bool(self.display)

    @property
    def choice(self) -> Choice:
        return self.choices[self.cursor]

    def open(self, choices: Sequence[Choice], at: Offset) -> None:
        """Show choices below a cell of the screen, or above it if there is no space below."""
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
        self.display = False

    def at_end(self, by: int) -> bool:
        """Return whether a move by `by` would leave the list."""
        return not 0 <= self.cursor + by < len(self.choices)

    def move(self, by: int) -> None:
        """Move the cursor. It wraps around at the ends."""
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


REST_SECONDS = 0.09
"""Pause in typing before the popup opens. Faster typists do not need completions."""


class Offering:
    """Connects the popup with the text and the fields."""

    def __init__(self, editor: EditorBase, popup: Popup) -> None:
        self.editor = editor
        self.popup = popup
        self.catalogue = Catalogue()
        self._timer: Timer | None = None
        self._offer: Offer | None = None
        self._field: tuple[str, Input] | None = None
        self.note = ""
        """Why requested completions are missing. The next key clears it."""

    def close(self) -> bool:
        """Hide the popup and return whether it was visible."""
        if self._timer is not None:
            self._timer.stop()
        was = self.popup.opened
        self.popup.close()
        self._say("")
        return was

    def _say(self, note: str) -> None:
        if note != self.note:
            self.note = note
            self.editor.show_facts()

    def later(self) -> None:
        """Offer completions after a pause in typing."""
        self.close()
        self._timer = self.editor.set_timer(REST_SECONDS, self._typed_enough)

    def _typed_enough(self) -> None:
        if self.editor.focused is self.editor.pane:
            self.in_text(unasked=True)

    def in_text(self, *, unasked: bool = False) -> None:
        """Offer completions at the cursor. With `unasked`, only if the user has begun a word."""
        pane = self.editor.pane
        text = pane.text
        offer = completion.in_text(text, Lines(text).offset(*pane.cursor_location), self.catalogue)
        if offer is None or (unasked and not offer.typed):
            self.close()
            if not unasked:
                self._say("nothing is known that could stand here")
            return
        self._say("")
        self._offer, self._field = offer, None
        row, column = Lines(text).place(offer.span.start)
        cursor_row, cursor_column = pane.cursor_location
        x = pane.cursor_screen_offset.x - (cursor_column - column if row == cursor_row else 0)
        self.popup.open(offer.choices, Offset(x, pane.cursor_screen_offset.y))

    def in_field(self, name: str, entry: Input) -> None:
        self.close()
        choices = completion.in_field(name, entry.value, self.catalogue)
        if choices:
            self._offer, self._field = None, (name, entry)
            self.popup.open(choices, Offset(entry.region.x, entry.region.y))

    def key(self, key: str) -> bool:
        """Handle a key if the popup is open. Return whether it was handled."""
        if not self.popup.opened:
            self._say("")
            return False
        in_field = self._field is not None
        match key:
            case "up" | "down" if in_field and self.popup.at_end(-1 if key == "up" else 1):
                # At the end of the list, the key moves to the next field.
                self.close()
                return False
            case "up" | "ctrl+p":
                self.popup.move(-1)
            case "down" | "ctrl+n":
                self.popup.move(1)
            case "tab" if in_field:
                self.close()
                return False
            case "enter" | "tab":
                self.take(self.popup.choice)
            case "escape":
                self.close()
            case _:
                if key in ("left", "right", "home", "end", "pageup", "pagedown"):
                    self.close()
                return False
        return True

    def take(self, choice: Choice) -> None:
        """Insert a choice, then offer the next part if there is one."""
        self.close()
        if self._field is not None:
            name, entry = self._field
            entry.value = choice.text
            entry.cursor_position = len(choice.text)
            if choice.more:
                self.in_field(name, entry)
        elif self._offer is not None:
            span, text, cursor = completion.written(self._offer, choice)
            pane = self.editor.pane
            lines = Lines(pane.text)
            pane.replace(text, lines.place(span.start), lines.place(span.end), maintain_selection_offset=False)
            pane.move_cursor(Lines(pane.text).place(span.start + cursor))
            if choice.more or choice.snippet:
                # The cursor's position on the screen is known only after the text is rendered.
                self.editor.call_after_refresh(self.in_text, unasked=not choice.snippet)

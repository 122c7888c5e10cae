"""Completion while typing: opening the popup, its keys, and inserting a choice."""

from collections.abc import Callable, Sequence

from textual.content import Content
from textual.geometry import Offset
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from client.text import cut, safe, width
from tui.iam.editor import completion
from tui.iam.editor.completion import Catalogue, Choice, Offer
from tui.iam.editor.json_scanner import Lines
from tui.iam.editor.text_pane import PolicyText

MAX_ROWS = 8
MAX_CELLS = 60
COMPLETION_SECONDS = 0.09
"""Pause in typing before the popup opens. Faster typists do not need completions."""


class Popup(OptionList, can_focus=False):
    """Shows choices below or above a cell of the screen."""

    DEFAULT_CSS = """
    Popup, Popup:focus {
        layer: above;
        position: absolute;
        display: none;
        height: auto;
        padding: 0;
        border: none;
        background: $panel;
        color: $foreground;
        scrollbar-size: 0 0;
        text-wrap: nowrap;
        text-overflow: ellipsis;
        & > .option-list--option { padding: 0; }
        & > .option-list--option-highlighted {
            background: $block-cursor-background;
            color: $foreground;
            text-style: none;
        }
    }
    """

    def __init__(self) -> None:
        super().__init__(id="popup", markup=False)
        self.choices: Sequence[Choice] = ()

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    @property
    def choice(self) -> Choice:
        return self.choices[self.highlighted or 0]

    def open(self, choices: Sequence[Choice], at: Offset) -> None:
        """Show choices below a cell of the screen, or above it if there is no space below."""
        self.choices = choices
        rows = min(len(choices), MAX_ROWS)
        text = max(width(safe(choice.text)) for choice in choices)
        note = max(width(safe(choice.note)) for choice in choices)
        cells = min(text + (note + 2 if note else 0) + 2, MAX_CELLS, self.screen.size.width)
        text = min(text, cells - 2)
        self.set_options([Option(_line(choice, text, cells)) for choice in choices])
        self.highlighted = 0
        below = at.y + 1 + rows <= self.screen.size.height - 1
        self.styles.width, self.styles.height = cells, rows
        x = max(0, min(at.x - 1, self.screen.size.width - cells))
        self.styles.offset = (x, at.y + 1 if below else max(0, at.y - rows))
        self.display = True

    def close(self) -> None:
        self.display = False

    def at_end(self, by: int) -> bool:
        """Return whether a move by `by` would leave the list."""
        return not 0 <= (self.highlighted or 0) + by < len(self.choices)


def _line(choice: Choice, text_cells: int, cells: int) -> Content:
    text = cut(safe(choice.text), text_cells)
    line = Content.assemble(" ", text, " " * (text_cells - width(text) + 1))
    room = cells - line.cell_length - 1
    return (
        line + Content.styled(cut(f" {safe(choice.note)}", room), "$text-muted") if choice.note and room > 0 else line
    )


class CompletionController:
    """Connects the popup with the text and the fields of the request.

    Args:
        after_refresh: Calls a function after the text is rendered.
        note_changed: Called when `note` changes.
    """

    def __init__(
        self,
        pane: PolicyText,
        popup: Popup,
        *,
        after_refresh: Callable[[Callable[[], None]], object],
        note_changed: Callable[[str], None],
    ) -> None:
        self._pane, self._popup = pane, popup
        self._after_refresh, self._note_changed = after_refresh, note_changed
        self.catalogue = Catalogue()
        self._offer: Offer | None = None
        self._field: tuple[str, Input] | None = None
        self.note = ""
        """Why requested completions are missing. The next key clears it."""

    def close(self) -> None:
        """Hide the popup and the note."""
        self._popup.close()
        self._set_note("")
        self._pane.intercept_key = None

    def _set_note(self, note: str) -> None:
        if note != self.note:
            self.note = note
            self._note_changed(note)
        self._pane.intercept_key = self.handle_key

    def complete_text(self, text: str, *, unasked: bool = False) -> None:
        """Offer completions at the cursor. With `unasked`, only if the user has begun a word."""
        pane, lines = self._pane, Lines(text)
        offer = completion.in_text(text, lines.offset(*pane.cursor_location), self.catalogue)
        if offer is None or (unasked and not offer.typed):
            self.close()
            if not unasked:
                self._set_note("no completions here")
            return
        self._set_note("")
        self._offer, self._field = offer, None
        row, column = lines.place(offer.span.start)
        cursor_row, cursor_column = pane.cursor_location
        x = pane.cursor_screen_offset.x - (cursor_column - column if row == cursor_row else 0)
        self._popup.open(offer.choices, Offset(x, pane.cursor_screen_offset.y))

    def complete_field(self, name: str, entry: Input) -> None:
        """Offer completions for a field of the request."""
        self.close()
        choices = completion.in_field(name, entry.value, self.catalogue)
        if choices:
            self._offer, self._field = None, (name, entry)
            self._popup.open(choices, Offset(entry.region.x, entry.region.y))

    def handle_key(self, key: str) -> bool:
        """Handle a key if the popup is open. Return whether it was handled."""
        popup, in_field = self._popup, self._field is not None
        if not popup.is_open:
            self.close()
            return False
        match key:
            case "up" | "down" if in_field and popup.at_end(-1 if key == "up" else 1):
                # At the end of the list, the key moves to the next field.
                self.close()
                return False
            case "up" | "ctrl+p":
                popup.action_cursor_up()
            case "down" | "ctrl+n":
                popup.action_cursor_down()
            case "tab" if in_field:
                self.close()
                return False
            case "enter" | "tab":
                self.insert(popup.choice)
            case "escape":
                self.close()
            case _:
                if key in ("left", "right", "home", "end", "pageup", "pagedown"):
                    self.close()
                return False
        return True

    def insert(self, choice: Choice) -> None:
        """Insert a choice, then offer the next part if there is one."""
        self.close()
        if self._field is not None:
            name, entry = self._field
            entry.value = choice.text
            entry.cursor_position = len(choice.text)
            if choice.more:
                self.complete_field(name, entry)
        elif self._offer is not None:
            span, text, cursor = completion.edit_for(self._offer, choice)
            pane = self._pane
            lines = Lines(pane.text)
            pane.replace(text, lines.place(span.start), lines.place(span.end), maintain_selection_offset=False)
            pane.move_cursor(Lines(pane.text).place(span.start + cursor))
            if choice.more or choice.snippet:
                # The cursor's position on the screen is known only after the text is rendered.
                self._after_refresh(lambda: self.complete_text(pane.text, unasked=not choice.snippet))

"""Completion while it is typed: when the popup opens, what its keys do, what taking a choice writes."""

from typing import TYPE_CHECKING

from textual.geometry import Offset
from textual.timer import Timer
from textual.widgets import Input

from tui.editor import completion
from tui.editor.completion import Catalogue, Choice, Offer
from tui.editor.outline import Lines
from tui.editor.popup import Popup

if TYPE_CHECKING:
    from tui.editor.screen import PolicyEditor

REST_SECONDS = 0.09
"""How long a hand rests before something is offered: who types faster knows what to type."""


class Offering:
    """Between the text or a field, and the popup."""

    def __init__(self, editor: "PolicyEditor", popup: Popup) -> None:
        self.editor = editor
        self.popup = popup
        self.catalogue = Catalogue()
        self._timer: Timer | None = None
        self._offer: Offer | None = None
        self._field: tuple[str, Input] | None = None
        self.note = ""
        """Why nothing is offered where it was asked for; it goes with the next key."""

    def close(self) -> bool:
        """Take the popup away; False when there was none."""
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
        """Something was typed into the text: offer when the hand rests."""
        self.close()
        self._timer = self.editor.set_timer(REST_SECONDS, self._typed_enough)

    def _typed_enough(self) -> None:
        if self.editor.focused is self.editor.pane:
            self.in_text(unasked=True)

    def in_text(self, *, unasked: bool = False) -> None:
        """Offer what can stand at the cursor; unasked only where something was begun."""
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
        """Offer what can stand in a field."""
        self.close()
        choices = completion.in_field(name, entry.value, self.catalogue)
        if choices:
            self._offer, self._field = None, (name, entry)
            self.popup.open(choices, Offset(entry.region.x, entry.region.y))

    def key(self, key: str) -> bool:
        """A key while the popup is open; True when it was the popup's."""
        if not self.popup.opened:
            self._say("")
            return False
        in_field = self._field is not None
        match key:
            case "up" | "down" if in_field and self.popup.at_end(-1 if key == "up" else 1):
                # The list ends there: the key goes on to the next field.
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
        """Write a choice; where another part follows, offer that."""
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
                # Where the cursor stands on the screen is known once the text is painted.
                self.editor.call_after_refresh(self.in_text, unasked=not choice.snippet)

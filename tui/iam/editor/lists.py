"""Lists of the editor: lines that are rendered when visible, and completions in a popup while typing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Offset, Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from client.text import cut, safe, width
from tui.iam.editor import completion
from tui.iam.editor.completion import Catalogue, Choice, Offer
from tui.iam.editor.json_scanner import Lines
from tui.iam.editor.text_pane import PolicyText


@dataclass(frozen=True)
class Ref:
    """The subject of a line: a rule, a service, a counterexample, a problem or a warning, by its index or name."""

    kind: str
    index: int = 0
    name: str = ""


class Line(NamedTuple):
    """A line: its content, or a function that creates it when rendered. Only lines with a `ref` can be chosen."""

    content: Content | Callable[[], Content]
    ref: Ref | None = None


MOVES = (("up,k", -1), ("down,j", 1), ("pageup", -10), ("pagedown", 10), ("home,g", -100_000), ("end,G", 100_000))
"""Keys that move the cursor of a list, and by how many lines."""


class LineList(ScrollView, can_focus=True):
    """Shows lines; Up and Down move the cursor, Enter or a click chooses."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(keys, f"move({by})", show=False) for keys, by in MOVES),
        Binding("enter", "choose", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"lines--cursor", "lines--blurred"}
    DEFAULT_CSS = """
    LineList {
        background: $background;
        color: $foreground;
        scrollbar-size: 0 1;
        & .lines--cursor { background: $block-cursor-background; color: $block-cursor-foreground; }
        & .lines--blurred { background: $panel; }
    }
    """

    class Chosen(Message):
        """Posted when a line is chosen with Enter or a click. `ref` is None on Enter without a line to choose."""

        def __init__(self, ref: Ref | None) -> None:
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
    def ref(self) -> Ref | None:
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
                Region(0, 0 if not any(line.ref for line in self.lines[:at]) else at, 1, 1), animate=False
            )
            return
        self.cursor = at
        end = next((place for place in range(at + 1, len(self.lines)) if self.lines[place].ref is not None), None)
        height = min((end if end is not None else len(self.lines)) - at, max(1, self.size.height))
        self.scroll_to_region(Region(0, at, 1, height), animate=False)
        self.refresh()

    def action_choose(self) -> None:
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
        """Offer completions at the cursor. With `unasked`, only inside a word."""
        pane, lines = self._pane, Lines(text)
        offer = (
            None if pane.read_only else completion.in_text(text, lines.offset(*pane.cursor_location), self.catalogue)
        )
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

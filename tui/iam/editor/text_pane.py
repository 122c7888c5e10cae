"""The text of a policy: JSON highlighting, line marks, brackets and indentation. Independent of the platform.

Only visible lines are highlighted, each on its own, because JSON tokens do not span lines. A long document therefore
costs no more than a short one. Textual's highlighting needs a C parser whose newest release crashes on JSON, and
renders every visible line again on each key.
"""

import re
from collections.abc import Callable
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widgets import TextArea
from textual.widgets.text_area import Edit, EditResult, Location

from tui.iam.editor import json_scanner
from tui.iam.editor.evaluation import Marks
from tui.terminal.textual_patches import DANGEROUS, sign

MAX_HIGHLIGHTED = 4_000
"""Maximum characters of a highlighted line. A whole document may be one line."""
INDENT = 2


class PolicyText(TextArea):
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "text--member",
        "text--string",
        "text--constant",
        "text--mark",
        "text--problem",
        "text--warning",
        "text--allow",
        "text--deny",
        "text--fault",
    }

    DEFAULT_CSS = """
    PolicyText, PolicyText:focus {
        border: none;
        padding: 0;
        background: $background;
        color: $foreground;
        scrollbar-size: 0 1;
        & .text-area--cursor-line { background: $panel; }
        & .text-area--gutter { color: $text-disabled; background: $background; }
        & .text-area--cursor-gutter { color: $text-muted; background: $panel; }
        & .text-area--matching-bracket { background: $primary 30%; text-style: bold; }
        & .text--member { color: $text-accent; }
        & .text--string { color: $foreground; }
        & .text--constant { color: $text-warning; }
        & .text--mark { color: $text-muted; }
        & .text--problem { color: $text-error; background: $error 14%; }
        & .text--warning { color: $text-warning; background: $warning 10%; }
        & .text--allow { color: $text-success; background: $success 14%; }
        & .text--deny { color: $text-error; background: $error 14%; }
        & .text--fault { text-style: underline bold; color: $text-error; }
    }
    PolicyText:blur .text-area--cursor-line { background: $background; }
    PolicyText:blur .text-area--cursor-gutter { background: $background; }
    """

    UNDO_KEYS = ("ctrl+z", "super+z")

    class Left(Message):
        """Posted on Esc, to move the focus elsewhere."""

    class CompletionWanted(Message):
        """Posted on Tab in a string, where spaces would change a name."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+home", "to_end(-1)", show=False),
        Binding("ctrl+end", "to_end(1)", show=False),
    ]
    marks: reactive[Marks] = reactive(Marks())
    _joined: str | None = None
    """The text, if it is not changed since it was read."""
    is_typed = False
    """Whether the newest change was typed."""

    def __init__(self, text: str) -> None:
        super().__init__(
            text,
            id="policy-text",
            soft_wrap=False,
            show_line_numbers=True,
            tab_behavior="indent",
            max_checkpoints=500,
        )
        self.intercept_key: Callable[[str], bool] | None = None
        """Called with each key before the text area handles it. Returns True to stop the key."""
        self.cursor_blink = False
        self.indent_width = INDENT
        self._painted: dict[tuple[object, ...], Strip] = {}
        self._styles: dict[str, Style] = {}

    # Rendering

    def watch_marks(self) -> None:
        self._line_cache.clear()

    def notify_style_update(self) -> None:
        self._painted.clear()
        self._styles.clear()
        super().notify_style_update()

    def _style(self, kind: str) -> Style:
        style = self._styles.get(kind)
        if style is None:
            name = f"text--{kind}"
            style = self.get_component_rich_style(name, partial=True)
            if style.bgcolor is not None:
                # Blend a translucent background here, because terminals do not.
                style += Style(bgcolor=self.get_component_rich_style(name).bgcolor)
            self._styles[kind] = style
        return style

    def get_component_rich_style(self, *names: str, partial: bool = False, default: Style | None = None) -> Style:
        """Use only the background of the cursor line's style, so that the text retains its colours."""
        style = super().get_component_rich_style(*names, partial=partial, default=default)
        return Style(bgcolor=style.bgcolor) if names == ("text-area--cursor-line",) else style

    def get_line(self, line_index: int) -> Text:
        """Return the highlighted line. Control and invisible characters appear as one visible symbol each."""
        plain = self.document.get_line(line_index)
        line = Text(DANGEROUS.sub(_visible, plain), end="", no_wrap=True)
        if len(plain) <= MAX_HIGHLIGHTED:
            for start, end, kind in json_scanner.tokens(plain):
                if kind != "string":
                    line.stylize(self._style(kind), start, end)
        if fault := self.marks.spans.get(line_index):
            line.stylize(self._style("fault"), *fault)
        return line

    def render_line(self, y: int) -> Strip:
        """Reuse the rendered line if it has not changed, so that an edit does not render all visible lines."""
        row = y + self.scroll_offset.y
        if row >= self.document.line_count:
            return super().render_line(y)
        selection = self.selection
        top, bottom = sorted(selection)
        bracket = self._matching_bracket_location
        key = (
            self.document.get_line(row),
            row,
            self.size.width,
            self.virtual_size.width,
            self.scroll_offset.x,
            self.gutter_width,
            (top, bottom) if top[0] <= row <= bottom[0] else None,
            selection.end if selection.end[0] == row else None,
            bracket if bracket is not None and row in (bracket[0], selection.end[0]) else None,
            self.has_focus,
            self.marks.lines.get(row),
            self.marks.signs.get(row),
            self.marks.spans.get(row),
            self.app.theme,
        )
        strip = self._painted.get(key)
        if strip is None:
            if len(self._painted) > 500:
                self._painted.clear()
            self._line_cache.clear()
            strip = self._painted[key] = self._mark_row(row, super().render_line(y))
        return strip

    def _mark_row(self, row: int, strip: Strip) -> Strip:
        """Add the symbol after the line number, and the tone of the line."""
        kind = self.marks.lines.get(row)
        if kind is None:
            return strip
        style = self._style(kind)
        tint = Style(bgcolor=style.bgcolor)
        at = self.gutter_width - 2
        gutter, text = strip.crop(0, at), strip.crop(at + 2)
        plain = self.rich_style.bgcolor
        tinted = [
            Segment(piece, (of or Style()) + tint if of is None or of.bgcolor in (plain, None) else of)
            for piece, of, _ in text
        ]
        here = next(iter(gutter), None)
        gutter_style = Style(bgcolor=here.style.bgcolor) if here is not None and here.style is not None else Style()
        signed = Segment(f"{self.marks.signs.get(row, ' ')} ", gutter_style + Style(color=style.color, bold=True))
        return Strip([*gutter, signed, *tinted])

    # Typing

    def find_matching_bracket(self, bracket: str, search_from: Location) -> Location | None:
        """Return the location of the matching bracket. Ignores strings; 140 KB take 3 ms, with Textual 60 ms."""
        if bracket not in json_scanner.PARTNER:
            return None
        text = self.text
        lines = json_scanner.Lines(text)
        offset = json_scanner.matching_bracket(text, lines.offset(*search_from))
        return None if offset is None else lines.place(offset)

    async def _on_key(self, event: events.Key) -> None:
        if self.intercept_key is not None and self.intercept_key(event.key):
            event.stop()
            event.prevent_default()
        elif event.key == "escape":
            event.stop()
            event.prevent_default()
            self.post_message(self.Left())
        elif event.key == "tab" and not self.read_only and self._in_string():
            event.stop()
            event.prevent_default()
            self.post_message(self.CompletionWanted())
        elif event.key == "enter" and not self.read_only:
            event.stop()
            event.prevent_default()
            self._new_line()
        elif event.character == '"' and not self.read_only and self._before_quote():
            event.stop()
            event.prevent_default()
            self.move_cursor_relative(columns=1)
        elif event.character in ("}", "]") and not self.read_only:
            event.stop()
            event.prevent_default()
            self._close(event.character)
        else:
            await super()._on_key(event)

    def _in_string(self) -> bool:
        """Return whether the cursor or the selection is inside one string. The string may lack its closing quote."""
        start, end = sorted(self.selection)
        line = self.document.get_line(start[0])
        return start[0] == end[0] and any(
            first < start[1] and end[1] < last + (not closed) for first, last, closed in json_scanner.strings(line)
        )

    def _new_line(self) -> None:
        """Insert a line, indented after an opening bracket. A closing bracket at the cursor moves to its own line."""
        start, end = sorted(self.selection)
        line = self.document.get_line(start[0])
        before, after = line[: start[1]].rstrip(), self.document.get_line(end[0])[end[1] :].lstrip()
        indent = line[: len(line) - len(line.lstrip())][: start[1]]
        deeper = indent + " " * INDENT if before[-1:] in ("{", "[") else indent
        if before[-1:] in ("{", "[") and after[:1] == json_scanner.PARTNER[before[-1]]:
            self.replace(f"\n{deeper}\n{indent}", start, end, maintain_selection_offset=False)
            self.move_cursor((start[0] + 1, len(deeper)))
        else:
            self.replace(f"\n{deeper}", start, end, maintain_selection_offset=False)

    def _before_quote(self) -> bool:
        """Return whether the cursor is before the closing quote of a string, with no letter or digit after it."""
        start, end = self.selection
        line = self.document.get_line(end[0])
        if start != end or line[end[1] : end[1] + 1] != '"' or line[end[1] + 1 : end[1] + 2].isalnum():
            return False
        return any(
            kind in ("string", "member") and first < end[1] == last - 1
            for first, last, kind in json_scanner.tokens(line)
        )

    def _close(self, bracket: str) -> None:
        """Insert a closing bracket, outdented by one step if it is the first character of its line."""
        start, end = sorted(self.selection)
        before = self.document.get_line(start[0])[: start[1]]
        if before and not before.strip():
            start = (start[0], max(0, start[1] - INDENT))
        self.replace(bracket, start, end, maintain_selection_offset=False)

    def action_to_end(self, direction: int) -> None:
        """Move the cursor to the start (-1) or the end (1) of the text."""
        self.move_cursor(self.document.end if direction > 0 else (0, 0))

    # Whole text

    @property
    def text(self) -> str:
        """The text. It is joined once for each change: Textual reads it for each line that it renders."""
        if self._joined is None:
            self._joined = self.document.text
        return self._joined

    @text.setter
    def text(self, value: str) -> None:
        self.load_text(value)

    def load_text(self, text: str) -> None:
        self._joined = None
        super().load_text(text)

    def edit(self, edit: Edit) -> EditResult:
        self._joined, self.is_typed = None, True
        return super().edit(edit)

    def undo(self) -> None:
        self._joined, self.is_typed = None, False
        super().undo()

    def redo(self) -> None:
        self._joined, self.is_typed = None, False
        super().redo()

    def set_text(self, text: str) -> None:
        """Replace the text as one undoable change. The cursor remains near its position."""
        if text == self.text:
            return
        row, column = self.cursor_location
        self.history.checkpoint()
        self.replace(text, (0, 0), self.document.end, maintain_selection_offset=False)
        self.is_typed = False
        self.history.checkpoint()
        row = min(row, self.document.line_count - 1)
        self.move_cursor((row, min(column, len(self.document.get_line(row)))))

    def show_line(self, line: int, column: int = 0) -> None:
        """Move the cursor to a zero-based line and column, and scroll to it."""
        line = min(max(line, 0), self.document.line_count - 1)
        self.move_cursor((line, min(column, len(self.document.get_line(line)))), center=True)


def _visible(match: re.Match[str]) -> str:
    return "\t" if match[0] == "\t" else sign(match)  # the text area expands tabs

"""The text of a policy: JSON in colour, marks on lines, brackets, indentation. It knows nothing of a platform.

Colour is worked out for the lines on the screen only, a line on its own (JSON has nothing that goes over a line's
end), so a long document costs no more than a short one. Textual's own way needs a parser in C whose newest release
crashes on JSON, and paints every visible line anew with each key.
"""

import re
from collections.abc import Callable
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.document._document import Location
from textual.message import Message
from textual.strip import Strip
from textual.widgets import TextArea

from tui.display_filter import DANGEROUS, sign
from tui.editor import outline
from tui.editor.marks import Marks

LONGEST_PAINTED = 4_000
"""Characters of a line beyond which it stays without colour: one line may be a whole document."""
INDENT = 2


class PolicyText(TextArea):
    """A text area for one policy document."""

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
        scrollbar-color: $border;
        scrollbar-background: $background;
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

    class Left(Message):
        """Esc: the keyboard goes elsewhere."""

    def __init__(self, text: str, *, first: Callable[[str], bool]) -> None:
        """`first` is asked about each key before it is typed, and says whether that was all."""
        super().__init__(
            text,
            id="policy-text",
            soft_wrap=False,
            show_line_numbers=True,
            tab_behavior="indent",
            max_checkpoints=500,
        )
        self._first = first
        self.cursor_blink = False
        self.indent_width = INDENT
        self.marks = Marks()
        self._painted: dict[tuple[object, ...], Strip] = {}
        self._styles: dict[str, Style] = {}

    # Painting

    def mark(self, marks: Marks) -> None:
        """Show other marks."""
        if marks != self.marks:
            self.marks = marks
            self._line_cache.clear()
            self.refresh()

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
                # A tone that lets the background through is mixed with it here, not by the terminal.
                style += Style(bgcolor=self.get_component_rich_style(name).bgcolor)
            self._styles[kind] = style
        return style

    def get_component_rich_style(self, *names: str, partial: bool = False, default: Style | None = None) -> Style:
        """The line of the cursor has a background of its own, and keeps the colours of its letters."""
        style = super().get_component_rich_style(*names, partial=partial, default=default)
        return Style(bgcolor=style.bgcolor) if names == ("text-area--cursor-line",) else style

    def get_line(self, line_index: int) -> Text:
        """The line in colour. Controls and invisible characters are shown as one visible sign each."""
        plain = self.document.get_line(line_index)
        line = Text(DANGEROUS.sub(_visible, plain), end="", no_wrap=True)
        if len(plain) <= LONGEST_PAINTED:
            for start, end, kind in outline.painted(plain):
                if kind != "string":
                    line.stylize(self._style(kind), start, end)
        if fault := self.marks.spans.get(line_index):
            line.stylize(self._style("fault"), *fault)
        return line

    def render_line(self, y: int) -> Strip:
        """A line as painted before, when nothing of it changed: an edit costs one line, not all visible ones."""
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
            strip = self._painted[key] = self._marked(row, super().render_line(y))
        return strip

    def _marked(self, row: int, strip: Strip) -> Strip:
        """The sign after the line number, and the tone of the whole line."""
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
        beside = Style(bgcolor=here.style.bgcolor) if here is not None and here.style is not None else Style()
        signed = Segment(f"{self.marks.signs.get(row, ' ')} ", beside + Style(color=style.color, bold=True))
        return Strip([*gutter, signed, *tinted])

    # Typing

    def find_matching_bracket(self, bracket: str, search_from: Location) -> Location | None:
        """The partner of a bracket. Strings are looked over, and 140 KB take 3 ms; Textual's takes 60."""
        if bracket not in outline.PARTNER:
            return None
        text = self.text
        lines = outline.Lines(text)
        found = outline.partner(text, lines.offset(*search_from))
        return None if found is None else lines.place(found)

    async def _on_key(self, event: events.Key) -> None:
        if self._first(event.key):
            event.stop()
            event.prevent_default()
        elif event.key == "escape":
            event.stop()
            event.prevent_default()
            self.post_message(self.Left())
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

    def _new_line(self) -> None:
        """A line as deep as the brackets before it; between two brackets the closing one gets its own."""
        start, end = sorted(self.selection)
        line = self.document.get_line(start[0])
        before, after = line[: start[1]].rstrip(), self.document.get_line(end[0])[end[1] :].lstrip()
        indent = line[: len(line) - len(line.lstrip())][: start[1]]
        deeper = indent + " " * INDENT if before[-1:] in ("{", "[") else indent
        if before[-1:] in ("{", "[") and after[:1] == outline.PARTNER[before[-1]]:
            self.replace(f"\n{deeper}\n{indent}", start, end, maintain_selection_offset=False)
            self.move_cursor((start[0] + 1, len(deeper)))
        else:
            self.replace(f"\n{deeper}", start, end, maintain_selection_offset=False)

    def _before_quote(self) -> bool:
        """Whether the quote that ends a string stands at the cursor; one before another string begins a new one."""
        start, end = self.selection
        line = self.document.get_line(end[0])
        if start != end or line[end[1] : end[1] + 1] != '"' or line[end[1] + 1 : end[1] + 2].isalnum():
            return False
        return any(
            kind in ("string", "member") and first < end[1] == last - 1 for first, last, kind in outline.painted(line)
        )

    def _close(self, bracket: str) -> None:
        """A closing bracket that is the first of its line moves out by one step."""
        start, end = sorted(self.selection)
        before = self.document.get_line(start[0])[: start[1]]
        if before and not before.strip():
            start = (start[0], max(0, start[1] - INDENT))
        self.replace(bracket, start, end, maintain_selection_offset=False)

    # Text as a whole

    def put(self, text: str) -> None:
        """Take another text, as one change that can be undone; the cursor stays about where it was."""
        if text == self.text:
            return
        row, column = self.cursor_location
        self.history.checkpoint()
        self.replace(text, (0, 0), self.document.end, maintain_selection_offset=False)
        self.history.checkpoint()
        row = min(row, self.document.line_count - 1)
        self.move_cursor((row, min(column, len(self.document.get_line(row)))))

    def show_line(self, line: int, column: int = 0) -> None:
        """Put the cursor to a line and column, from 0, and have it in sight."""
        line = min(max(line, 0), self.document.line_count - 1)
        self.move_cursor((line, min(column, len(self.document.get_line(line)))), center=True)


def _visible(match: re.Match[str]) -> str:
    return "\t" if match[0] == "\t" else sign(match)  # tabs are laid out by the text area

"""The help: searchable keys of the current screen, from the action table."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static

from tui.shell import actions
from tui.shell.keymap import Keys, key_text
from tui.widgets.dialog import Dialog, hint
from tui.widgets.record_table import RecordTable

WIDTH, FRAME = 90, 7  # width of the dialog; of it, the frame, blanks and scrollbar (cells)
KEYS, TITLE = 12, 30  # cells of the first two columns
NARROWEST = 24  # minimum width of the third column; below it, texts are under their titles


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the help."""

    group: str
    keys: str
    title: str
    text: str


def lines(screen: str, title: str, keys: Keys, reasons: dict[str, str]) -> list[Line]:
    """Return the keys of a screen: its actions, those of its list, the global ones, and movement."""

    def of(scope: str, group: str) -> list[Line]:
        return [
            Line(
                group, " ".join(map(key_text, keys.of(action.id))), action.title, reasons.get(action.id) or action.help
            )
            for action in actions.of_scope(scope)
        ]

    movement = [
        Line("Moving", " ".join(map(key_text, keys.of(binding.id or ""))), binding.description, "")
        for binding in RecordTable.BINDINGS
        if isinstance(binding, Binding)
    ]
    return [*of(screen, title), *of(actions.LIST, "The list"), *of(actions.ANYWHERE, "Anywhere"), *movement]


class Help(Dialog[None]):
    """The searchable help. Esc closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll_sheet(-1)", show=False, priority=True),
        Binding("down", "scroll_sheet(1)", show=False, priority=True),
        Binding("pageup", "scroll_sheet(-10)", show=False, priority=True),
        Binding("pagedown", "scroll_sheet(10)", show=False, priority=True),
    ]
    DEFAULT_CSS = """
    Help {
        & > .dialog { width: 90; height: 90%; }
        Input, Input:focus { border: none; height: 1; padding: 0; background: transparent; }
        VerticalScroll { height: 1fr; margin-top: 1; scrollbar-size-vertical: 1; }
        VerticalScroll > Static { height: auto; }
    }
    """
    LISTENS_AT_ONCE = True

    def __init__(self, sheet: Sequence[Line]) -> None:
        super().__init__()
        self.sheet = sheet

    def title_text(self) -> str:
        return "Help"

    def content(self) -> ComposeResult:
        line = Input(placeholder="search")
        line.cursor_blink = False
        yield line
        scroll = VerticalScroll(Static(self._text(""), markup=False))
        scroll.can_focus = False
        yield scroll
        yield hint("↑ ↓ scroll · Esc close")

    def first_focus(self) -> Widget:
        return self.query_one(Input)

    def on_resize(self) -> None:
        self._paint()

    def _paint(self) -> None:
        self.query_one(VerticalScroll).query_one(Static).update(self._text(self.query_one(Input).value))

    def _text(self, search: str) -> Content:
        terms = search.casefold().split()
        matches = [
            line
            for line in self.sheet
            if all(term in f"{line.keys} {line.title} {line.text} {line.group}".casefold() for term in terms)
        ]
        if not matches:
            return Content.styled("No matches", "$text-muted")
        parts: list[Content] = []
        group = ""
        for line in matches:
            if line.group != group:
                parts += [Content("")] if group else []
                parts.append(Content.styled(line.group, "bold $text-accent"))
                group = line.group
            parts += _lines(line, min(WIDTH, self.app.size.width) - FRAME)
        return Content("\n").join(parts)

    @on(Input.Changed)
    def _typed(self) -> None:
        self._paint()

    def action_scroll_sheet(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)


def _lines(line: Line, room: int) -> list[Content]:
    """Return keys, title and text in columns, or the text under the title if the room is too narrow."""
    head = Content.assemble((f"  {line.keys:<{KEYS}} ", "bold"), f"{line.title:<{TITLE}} ")
    in_column = room - head.cell_length >= NARROWEST
    left = head.cell_length if in_column else KEYS + 3
    rows = [Content.styled(part, "$text-muted") for part in textwrap.wrap(line.text, max(1, room - left))]
    if in_column:
        head += rows.pop(0) if rows else Content("")
    return [head.rstrip(), *(Content(" " * left) + part for part in rows)]

"""Dialogs that return a choice: a menu of a few entries, and a picker of records with a filter."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from client.tables.columns import Column, Kind
from client.text import cut, safe, width
from tui.widgets.dialog import Dialog, hint
from tui.widgets.lines import LineInput
from tui.widgets.record_table import RecordTable, Tones

TALLEST_MENU = 16  # lines of the list
BESIDES_MENU = 8  # other lines of the dialog, if it is short


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry. Its character `key` or one of its `keys` chooses it; `reason` is why it is disabled."""

    value: str
    title: str
    key: str = ""
    note: str = ""
    """Shown below the list for the entry under the cursor."""
    reason: str = ""
    keys: Sequence[str] = ()
    """Names of keys without a character, such as `delete`."""


class Menu(Dialog[str | None]):
    """Returns the value of the chosen entry, or None. Disabled entries are dimmed and show their reason."""

    DEFAULT_CSS = """
    Menu {
        & > .dialog { width: 72; }
        OptionList { height: auto; border: none; padding: 0; background: transparent; }
        OptionList:focus { border: none; }
        .menu--note { color: $text-muted; margin-top: 1; height: auto; max-height: 3; }
        &.-short > .dialog { padding: 0 2; }
    }
    """

    VERTICAL_BREAKPOINTS = [(0, "-short"), (TALLEST_MENU + BESIDES_MENU + 2, "-tall")]  # noqa: RUF012  (declared on the base class)
    LISTENS_AT_ONCE = True

    def __init__(
        self, title: str, entries: Sequence[Entry], *, foot: str = "Enter or its key: choose · Esc close"
    ) -> None:
        super().__init__()
        self._title = title
        self.entries = entries
        self._foot = foot

    def title_text(self) -> str:
        return self._title

    def content(self) -> ComposeResult:
        keys = max((width(entry.key) for entry in self.entries), default=0)
        yield OptionList(*(Option(self._line(entry, keys), id=str(index)) for index, entry in enumerate(self.entries)))
        yield Static("", classes="menu--note", markup=False)
        yield hint(self._foot)

    @staticmethod
    def _line(entry: Entry, keys: int) -> Content:
        tone = "$text-disabled" if entry.reason else "$foreground"
        parts = [(f"{entry.key:<{keys}}  ", "bold $text-accent" if not entry.reason else tone)] if keys else []
        return Content.assemble(*parts, (cut(safe(entry.title), 60), tone))

    def on_resize(self) -> None:
        """Limit the height of the list, which scrolls, so that note and hint are visible."""
        self.query_one(OptionList).styles.max_height = max(1, min(TALLEST_MENU, self.app.size.height - BESIDES_MENU))

    def first_focus(self) -> Widget:
        return self.query_one(OptionList)

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        entry = self.entries[event.option_index]
        self.query_one(".menu--note", Static).update(Content(safe(entry.reason or entry.note)))

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self._choose(self.entries[event.option_index])

    def on_key(self, event: events.Key) -> None:
        for entry in self.entries:
            if (entry.key and event.character == entry.key) or event.key in entry.keys:
                event.stop()
                self._choose(entry)
                return

    def _choose(self, entry: Entry) -> None:
        if entry.reason:
            self.query_one(".menu--note", Static).update(Content(safe(entry.reason)))
        else:
            self.dismiss(entry.value)


TALLEST = 15  # lines of the list; more on a tall terminal
BESIDES = 12  # other lines of the dialog


T = TypeVar("T")
"""A record: a model of the client, or a mapping."""


class Picker(Dialog[Sequence[T] | None]):
    """Returns the marked records or, without marks, the selected one; None if the user cancels.

    `show` calls `records` again: the list may arrive while the picker is open.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,ctrl+p", "move(-1)", show=False, priority=True),
        Binding("down,ctrl+n", "move(1)", show=False, priority=True),
        Binding("pageup", "move(-10)", show=False, priority=True),
        Binding("pagedown", "move(10)", show=False, priority=True),
        Binding("tab", "mark", show=False, priority=True),
    ]
    DEFAULT_CSS = """
    Picker {
        align: center top;
        & > .dialog { margin-top: 2; }
        LineInput { margin-bottom: 1; }
    }
    """
    LISTENS_AT_ONCE = True
    MIN_CELLS = 84

    def __init__(
        self,
        title: str,
        kind: Kind,
        records: Callable[[], Sequence[T]],
        *,
        columns: Sequence[Column] | None = None,
        tones: Tones | None = None,
        several: bool = True,
        empty: Callable[[], str] = lambda: "No entries to choose from.",
        verb: str = "choose",
    ) -> None:
        super().__init__()
        self._title = title
        self.kind = kind
        self.records = records
        self.columns = columns
        self.tones = tones
        self.several = several
        self.empty = empty
        self.verb = verb

    def title_text(self) -> str:
        return self._title

    def content(self) -> ComposeResult:
        yield LineInput(placeholder="type to filter")
        table: RecordTable[T] = RecordTable(self.kind, self.columns, tones=self.tones)
        table.can_focus = False
        yield table
        marks = "Tab mark · " if self.several else ""
        yield hint(f"Enter {self.verb} · {marks}↑ ↓ move · Esc close")

    def first_focus(self) -> Widget:
        return self.query_one(LineInput)

    def on_mount(self) -> None:
        self.show()

    def show(self) -> None:
        """Show the current records. Until the user moves it, the cursor is on the first one."""
        table = self.query_one(RecordTable)
        moved = table.cursor > 0
        table.set_empty(self.empty())
        table.show(self.records())
        if not moved:
            table.cursor = 0
        self._fit()

    def on_resize(self) -> None:
        self._fit()

    def _fit(self) -> None:
        table = self.query_one(RecordTable)
        room = min(self.list_rows(TALLEST), self.app.size.height - BESIDES)
        table.styles.height = max(2, min(max(table.view.total, 3) + 1, room))

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        table = self.query_one(RecordTable)
        table.set_filter(event.value)
        table.cursor = 0

    @on(Input.Submitted)
    @on(RecordTable.Opened)
    def _chosen(self) -> None:
        chosen = self.query_one(RecordTable).selected_records
        if chosen:
            self.dismiss(chosen)

    @on(RecordTable.Arranged)
    def _arranged(self) -> None:
        marks = len(self.query_one(RecordTable).view.marks)
        self.query_one(".dialog").border_subtitle = f"{marks} marked" if marks else ""

    def action_move(self, lines: int) -> None:
        self.query_one(RecordTable).action_move(lines)

    def action_mark(self) -> None:
        if self.several:
            self.query_one(RecordTable).action_mark()

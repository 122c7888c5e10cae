"""A picker of records, with a filter: Enter chooses one, marks choose several."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from client.tables.columns import Column, Kind, Record
from tui.widgets.dialog import Dialog, hint
from tui.widgets.line_input import LineInput
from tui.widgets.record_table import RecordTable, Tones

TALLEST = 15  # lines of the list
BESIDES = 12  # other lines of the dialog


class Picker(Dialog[Sequence[Record] | None]):
    """Returns the marked records, or without marks the one under the cursor; None if the user left.

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
        & > .dialog { width: 84; margin-top: 2; }
        LineInput { margin-bottom: 1; }
    }
    """
    LISTENS_AT_ONCE = True

    def __init__(
        self,
        title: str,
        kind: Kind,
        records: Callable[[], Sequence[Record]],
        *,
        columns: Sequence[Column] | None = None,
        tones: Tones | None = None,
        several: bool = True,
        empty: Callable[[], str] = lambda: "There is nothing to choose from.",
        verb: str = "chooses",
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
        table = RecordTable(self.kind, self.columns, tones=self.tones)
        table.can_focus = False
        yield table
        marks = "Tab marks several · " if self.several else ""
        yield hint(f"Enter {self.verb} · {marks}↑ ↓ move · Esc close")

    def first_focus(self) -> Widget:
        return self.query_one(LineInput)

    def on_mount(self) -> None:
        super().on_mount()
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
        table.styles.height = max(2, min(max(table.view.total, 3) + 1, TALLEST, self.app.size.height - BESIDES))

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

"""What every place has: a heading with the filter, a list, a detail pane, and the actions of a list."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message

from client.records import Column, Kind, Record
from client.text import safe
from tui import actions, keymaps
from tui.history import Subject
from tui.messages import Perform
from tui.record_view import RecordView
from tui.widgets.covered import Row, Stack
from tui.widgets.detail import Detail, Section
from tui.widgets.heading import Heading
from tui.widgets.record_table import RecordTable, Tones
from tui.workspace import Workspace

if TYPE_CHECKING:
    from tui.tag_draft import TagDraft


class Place(Row):
    """A list of records of one kind. A concrete place names its kind, fills the list and does its actions."""

    NAME: ClassVar[str]
    TITLE: ClassVar[str]
    KIND: ClassVar[Kind]
    PRIMARY: ClassVar[str]
    """The action Enter runs."""
    BINDINGS: ClassVar[list[BindingType]] = [*keymaps.bindings(actions.LIST)]

    DEFAULT_CSS = """
    Place {
        background: $background;
        & > .place--list { width: 1fr; height: 1fr; }
        & > Detail { width: 40; height: 1fr; display: none; border-left: solid $border; padding: 1 1 1 2; }
        &.-detail > Detail { display: block; width: 1fr; border-left: none; }
        &.-detail > .place--list { display: none; }
    }
    """

    class Moved(Message):
        """The record under the cursor, or what is shown of it, is another one."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(id=f"place-{self.NAME}")
        self.workspace = workspace
        self.subject: Subject | None = None
        """What the place shows the inside of; None in a place that shows a whole."""
        self._sort_restored = False

    def compose(self) -> ComposeResult:
        with Stack(classes="place--list"):
            yield Heading(self.TITLE, self.focus_list)
            yield from self.above()
            yield RecordTable(self.KIND, self.columns(), tones=self.tones(), empty=self.empty())
        detail = Detail()
        detail.can_focus = True
        yield detail

    def on_mount(self) -> None:
        self.show()
        self.show_detail()  # with the first frame, not after it

    # What a concrete place says

    def above(self) -> ComposeResult:
        """What stands between the heading and the list."""
        yield from ()

    def columns(self) -> Sequence[Column]:
        """The columns, the most important first."""
        return self.KIND.columns

    def tones(self) -> Tones:
        """Which cells carry a tone."""
        return {}

    def empty(self) -> str:
        """What stands in an empty list."""
        return "There is nothing here."

    def records(self) -> Sequence[Record]:
        """What the list holds now."""
        raise NotImplementedError

    @property
    def known(self) -> bool:
        """Whether the list is all there is, so that an empty one means that there is nothing."""
        return True

    def state_words(self) -> str:
        """What is to be said about the freshness of the list; empty when it is fresh."""
        return ""

    def detail(self, record: Record) -> tuple[str, Sequence[Section]]:
        """Title and sections of the detail pane."""
        raise NotImplementedError

    def changed(self, topic: str) -> None:
        """The workspace changed; see there for the topics."""

    def enter(self, subject: Subject) -> None:
        """Show the inside of a record."""

    def in_sight(self) -> None:
        """The place was opened."""

    def select(self, record_id: str) -> None:
        """Put the cursor on a record."""
        self.table.select(record_id)

    def count_words(self, view: RecordView) -> str:
        """How many records there are, and how many of them the filter shows; empty where that there are none is not
        known."""
        if not view.total and not self.known:
            return ""
        return f"{len(view):,} of {view.total:,}" if view.filter else f"{view.total:,} {self._noun(view.total)}"

    @property
    def draft(self) -> "TagDraft | None":
        """What is edited here and not stored yet; None in a place where nothing is."""
        return None

    @property
    def undo_words(self) -> str:
        """What undo takes back here before anything else; empty when there is nothing of the kind."""
        return ""

    def undo(self) -> None:
        """Take that back."""

    def read(self) -> None:
        """Ask anew for what the place shows, where that is not what the workspace reads for everybody."""

    # What all places do

    @property
    def table(self) -> RecordTable:
        """The list."""
        return self.query_one(RecordTable)

    @property
    def heading(self) -> Heading:
        """The line above the list."""
        return self.query_one(Heading)

    @property
    def record(self) -> Record | None:
        """The record under the cursor."""
        return self.table.record if self.is_mounted else None

    def show(self) -> None:
        """Put the newest records into the list."""
        self.table.set_empty(self.empty())
        self.table.show(self.records())

    def show_detail(self) -> None:
        """Put the record under the cursor into the pane."""
        record = self.record
        title, sections = self.detail(record) if record is not None else ("", ())
        self.query_one(Detail).show(title, sections)

    def focus_list(self) -> None:
        """Give the list the focus."""
        self.remove_class("-detail")
        self.screen.set_focus(self.table)

    def take_focus(self) -> None:
        """Give the focus to what is shown: the detail pane where it stands in place of the list."""
        self.screen.set_focus(self.query_one(Detail) if self.has_class("-detail") else self.table)

    def set_filter(self, line: str) -> None:
        """Filter the list, as if typed; at once, so that a record can be selected in what is shown then."""
        self.heading.put(line)
        self.table.set_filter(line)

    def zoom(self, zoomed: bool) -> None:
        """Give the pane that has the focus all the room, or give it back."""
        detail = self.query_one(Detail).has_focus
        self.set_class(zoomed and not detail, "-zoom-list")
        self.set_class(zoomed and detail, "-zoom-detail")

    def sort_state(self) -> list[Any]:
        """Column and direction, for the next start."""
        view = self.table.view
        return [view.sort_column.key, view.reverse] if view.sort_column is not None else []

    def restore_sort(self, state: Sequence[Any]) -> None:
        """Sort as it was the last time."""
        column = next((column for column in self.table.view.columns if state and column.key == state[0]), None)
        if column is not None:
            self.table.sort_by(column, reverse=len(state) > 1 and state[1] is True)
        self._sort_restored = True

    def escape(self) -> bool:
        """Go one level back inside the place; False when there is nothing to leave."""
        if self.has_class("-detail") or self.query_one(Detail).has_focus:
            self.focus_list()
            return True
        return self.heading.clear() or self.table.clear_marks()

    @on(RecordTable.Highlighted)
    def _highlighted(self) -> None:
        self.show_detail()
        self.post_message(self.Moved())

    @on(RecordTable.Arranged)
    def _arranged(self) -> None:
        view = self.table.view
        if self._sort_restored:  # before, what is remembered is still to be read
            self.workspace.state.sort[self.NAME] = self.sort_state()
        marks = f"{len(view.marks)} marked" if view.marks else ""
        words = " · ".join(part for part in (self.count_words(view), marks, self.state_words()) if part)
        self.heading.count(words)

    def _noun(self, number: int) -> str:
        return self.KIND.name if number == 1 else self.KIND.plural

    @on(RecordTable.Opened)
    def _opened(self, event: RecordTable.Opened) -> None:
        if event.record is not None:
            self.post_message(Perform(self.PRIMARY, str(event.record[self.KIND.id_key])))

    @on(Heading.Filtered)
    def _filtered(self, event: Heading.Filtered) -> None:
        self.table.set_filter(event.line)

    # Actions of a list

    def do_filter(self, argument: str = "") -> None:
        self.remove_class("-detail")
        if argument:
            self.set_filter(argument)
        else:
            self.heading.open()

    def do_sort(self, argument: str = "") -> None:
        if argument:
            self._sort_by(argument)
        else:
            self.table.sort_next()
        self._arranged()

    def _sort_by(self, title: str) -> None:
        """Order by the column of that title or the beginning of one; by the same one again, the other way round."""
        titles = {column.title.strip().casefold(): column for column in self.table.view.columns}
        wanted = title.casefold()
        found = [wanted] if wanted in titles else [known for known in titles if known.startswith(wanted)]
        if len(found) != 1:
            why = f"Several columns begin with {title}" if found else f"No column is called {title}"
            words = f"{safe(why, 60)}; there are: {', '.join(found or titles)}"
            self.app.notify(words, severity="warning", markup=False)
            return
        view, column = self.table.view, titles[found[0]]
        again = view.sort_column is not None and view.sort_column.key == column.key
        self.table.sort_by(column, reverse=again and not view.reverse)

    def do_detail(self) -> None:
        if self.screen.has_class("-wide"):
            self.do_into_detail()
        elif self.has_class("-detail"):
            self.focus_list()
        else:
            self.add_class("-detail")
            self.query_one(Detail).focus()

    def do_into_detail(self) -> None:
        detail = self.query_one(Detail)
        if detail.display:
            detail.focus()

    def do_out_of_detail(self) -> None:
        if self.query_one(Detail).has_focus:
            self.focus_list()

    # What can be copied

    def copies(self) -> Mapping[str, str]:
        """The texts of the copy menu by name, of the marked records or of the one under the cursor."""
        records = self.table.meant
        if not records:
            return {}
        import json

        plain = [dict(record) for record in records]
        return {
            "id": "\n".join(str(record[self.KIND.id_key]) for record in records),
            "name": "\n".join(str(record.get(self.KIND.name_key, "")) for record in records),
            "row": "\n".join("\t".join(column.text(record) for column in self.columns()) for record in records),
            "JSON": json.dumps(plain[0] if len(plain) == 1 else plain, indent=2, ensure_ascii=False),
        }

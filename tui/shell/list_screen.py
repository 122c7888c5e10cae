"""Base of all screens: a heading with the filter, a list, a detail pane, and the actions of a list."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message

from client.tables.columns import Column, Kind, json_of, kind_and_id
from client.text import safe
from tui.shell import actions, keymap
from tui.shell.routes import RunAction, Subject
from tui.state.refresh import Topic, Update
from tui.state.workspace import Workspace
from tui.terminal.textual_patches import Row, Stack
from tui.widgets.detail import Detail, Section
from tui.widgets.heading import Heading
from tui.widgets.record_table import RecordTable, Tones
from tui.widgets.record_view import RecordView

if TYPE_CHECKING:
    from tui.state.tag_draft import TagDraft


T = TypeVar("T")
"""A record: a model of the client, or a mapping."""
NO_TENANTS = "You have no tenant. Ask an owner or admin of an organization, or sign in as another user."


class ListScreen(Row, Generic[T]):
    """A list of records of one kind. Subclasses define the kind, the records and their actions."""

    NAME: ClassVar[str]
    TITLE: ClassVar[str]
    KIND: ClassVar[Kind]
    PRIMARY: ClassVar[str] = "list.detail"
    """The action of Enter."""
    BESIDE_WIDTH: ClassVar[int] = 0
    """Cells of the terminal from which the details are beside the list; on a narrower one, they replace the list."""
    UPDATES: ClassVar[frozenset[Topic] | None] = None
    """Topics of the workspace that `changed` handles; None for all."""
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings(actions.LIST)]

    DEFAULT_CSS = """
    ListScreen {
        background: $background;
        & > .screen--list { width: 1fr; height: 1fr; }
        & > Detail { width: 40; height: 1fr; display: none; border-left: solid $border; padding: 1 0 1 2; }
        &.-detail > Detail { display: block; width: 1fr; border-left: none; }
        &.-detail > .screen--list { display: none; }
    }
    """

    class Moved(Message):
        """The record under the cursor, or its details, changed."""

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, ListScreen.Moved)

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(id=f"screen-{self.NAME}")
        self.workspace = workspace
        self.subject: Subject | None = None
        """The record whose contents are shown; None on other screens."""

    def compose(self) -> ComposeResult:
        with Stack(classes="screen--list"):
            yield Heading(self.TITLE, self.focus_list)
            yield from self.compose_header()
            yield RecordTable(self.KIND, self.columns(), tones=self.tones(), empty=self.empty())
        detail = Detail()
        detail.can_focus = True
        yield detail

    def on_resize(self) -> None:
        self._place_detail()

    def _place_detail(self) -> None:
        self.set_class(self.app.size.width < self.BESIDE_WIDTH, "-single")

    def on_mount(self) -> None:
        self._place_detail()
        self.restore_sort(self.workspace.state.sort.get(self.NAME, []))
        self.show()
        self.select_first()
        self.show_detail()  # with the first frame, not after it

    # Overridden by subclasses

    def select_first(self) -> None:
        """Select a record of the new screen; by default, the cursor is on the first one."""

    def compose_header(self) -> ComposeResult:
        """Yield widgets between the heading and the list."""
        yield from ()

    def columns(self) -> Sequence[Column]:
        """Return the columns, the most important first."""
        return self.KIND.columns

    def tones(self) -> Tones:
        """Return the tones of cells."""
        return {}

    def empty(self) -> str:
        """Return the text of an empty list."""
        return "No entries"

    def records(self) -> Sequence[T]:
        """Return the current records."""
        raise NotImplementedError

    @property
    def known(self) -> bool:
        """Whether the list is complete, so that an empty one means no records."""
        return True

    def freshness_text(self) -> str:
        """Return the freshness of the list in words; empty if it is fresh."""
        return ""

    def detail(self, record: T) -> tuple[str, Sequence[Section]]:
        """Return title and sections of the detail pane."""
        raise NotImplementedError

    def changed(self, update: Update) -> None:
        """Handle an update of the workspace."""

    def enter(self, subject: Subject) -> None:
        """Show the contents of a record."""

    def refresh_on_open(self) -> None:
        """Handle the opening of the screen."""

    def select(self, record_id: str) -> None:
        """Move the cursor to a record."""
        self.table.select(record_id)

    def select_new(self, record_id: str) -> None:
        """Move the cursor to a record that was just added to the list. Clear a filter only if it hides the record."""
        if self.table.view.position_of(record_id) is None:
            self.set_filter("")
        self.select(record_id)

    def count_text(self, view: RecordView[Any]) -> str:
        """Return the number of records and of filtered records; empty while an empty list is incomplete."""
        if not view.total and not self.known:
            return ""
        return f"{len(view):,} of {view.total:,}" if view.filter else f"{view.total:,} {self._noun(view.total)}"

    @property
    def draft(self) -> "TagDraft | None":
        """The unsaved draft on this screen; None on screens without one."""
        return None

    @property
    def undo_description(self) -> str:
        """Description of the edit that undo reverts here before other changes; empty if there is none."""
        return ""

    def undo(self) -> None:
        """Undo that edit."""

    def read(self) -> None:
        """Read the records again, unless the workspace reads them for all screens."""

    # Common to all screens

    @property
    def table(self) -> RecordTable[T]:
        """The list."""
        return self.query_one(RecordTable)

    @property
    def heading(self) -> Heading:
        """The line above the list."""
        return self.query_one(Heading)

    @property
    def record(self) -> T | None:
        """The record under the cursor."""
        return self.table.record if self.is_mounted else None

    def id_of(self, record: T) -> str:
        """Return the id of a record."""
        return self.KIND.id_of(record)

    def show(self) -> None:
        """Show the newest records in the list."""
        self.table.set_empty(self.empty())
        self.table.show(self.records())

    def show_detail(self) -> None:
        """Show the record under the cursor in the detail pane."""
        record = self.record
        title, sections = self.detail(record) if record is not None else ("", ())
        self.query_one(Detail).show(title, sections)

    def focus_list(self) -> None:
        """Move the focus to the list."""
        self.remove_class("-detail")
        self._widen(detail=False)
        self.screen.set_focus(self.table)

    def take_focus(self) -> None:
        """Move the focus to the list, or to the detail pane if it replaces the list."""
        self.screen.set_focus(self.query_one(Detail) if self.has_class("-detail") else self.table)

    def set_filter(self, line: str) -> None:
        """Filter the list, as if typed. It is synchronous, so that a shown record can be selected next."""
        self.heading.put(line)
        self.table.set_filter(line)

    def zoom(self, zoomed: bool, *, detail: bool) -> None:
        """Enlarge the details or the list, or restore both."""
        self.set_class(zoomed and not detail, "-zoom-list")
        self.set_class(zoomed and detail, "-zoom-detail")

    def _widen(self, *, detail: bool) -> None:
        """If one pane has the whole width, give the width to the details or to the list."""
        if self.screen.has_class("-zoom"):
            self.zoom(zoomed=True, detail=detail)

    def sort_state(self) -> list[Any]:
        """Return column key and direction, to be stored."""
        view = self.table.view
        return [view.sort_column.key, view.reverse] if view.sort_column is not None else []

    def restore_sort(self, state: Sequence[Any]) -> None:
        """Restore the stored sort order."""
        column = next((column for column in self.table.view.columns if state and column.key == state[0]), None)
        if column is not None:
            self.table.sort_by(column, reverse=len(state) > 1 and state[1] is True)

    def escape(self) -> bool:
        """Go back one level within the screen. Return False at the first level."""
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
        self.workspace.state.sort[self.NAME] = self.sort_state()
        marks = f"{len(view.marks)} marked" if view.marks else ""
        text = " · ".join(part for part in (self.count_text(view), marks, self.freshness_text()) if part)
        self.heading.count(text)

    def _noun(self, number: int) -> str:
        return self.KIND.name if number == 1 else self.KIND.plural

    @on(RecordTable.Opened)
    def _opened(self, event: RecordTable.Opened) -> None:
        record_id = self.id_of(event.record) if event.record is not None else ""
        self.post_message(RunAction(self.PRIMARY, record_id))  # without a record, the action shows why it is disabled

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
        """Sort by the column with this title or prefix. If the list is sorted by it, reverse the order."""
        titles = {column.title.strip().casefold(): column for column in self.table.view.columns}
        prefix = title.casefold()
        matches = [prefix] if prefix in titles else [known for known in titles if known.startswith(prefix)]
        if len(matches) != 1:
            why = f"several columns start with {title}" if matches else f"no column named {title}"
            text = f"{safe(why, 60)}; columns: {', '.join(matches or titles)}"
            self.app.notify(text, severity="warning", markup=False)
            return
        view, column = self.table.view, titles[matches[0]]
        again = view.sort_column is not None and view.sort_column.key == column.key
        self.table.sort_by(column, reverse=again and not view.reverse)

    def do_detail(self, record_id: str = "") -> None:
        """Show the details of a record; without an id, of the record under the cursor."""
        if record_id:
            self.select(record_id)
        detail, beside = self.query_one(Detail), self.screen.has_class("-wide") and not self.has_class("-single")
        if not record_id and (detail.has_focus if beside else self.has_class("-detail")):
            self.focus_list()
            return
        self.set_class(not beside, "-detail")
        self._widen(detail=True)
        detail.focus()

    def do_into_detail(self) -> None:
        detail = self.query_one(Detail)
        if detail.display:
            detail.focus()

    def do_out_of_detail(self) -> None:
        if self.query_one(Detail).has_focus:
            self.focus_list()

    # Copying

    def copies(self) -> Mapping[str, str]:
        """Return the texts of the copy menu by name, for the marked records or the selected one."""
        records = [json_of(record) for record in self.table.selected_records]
        if not records:
            return {}
        import json

        plain, key = [dict(record) for record in records], self.KIND.id_key
        return {
            "ID": "\n".join(str(record[key]) if key else kind_and_id(record)[1] for record in records),
            "name": "\n".join(str(record.get(self.KIND.name_key, "")) for record in records),
            "row": "\n".join("\t".join(column.text(record) for column in self.columns()) for record in records),
            "JSON": json.dumps(plain[0] if len(plain) == 1 else plain, indent=2, ensure_ascii=False),
        }

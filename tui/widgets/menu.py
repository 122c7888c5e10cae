"""A menu of a few entries, chosen by key or cursor."""

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events, on
from textual.app import ComposeResult
from textual.content import Content
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from client.text import cut, safe, width
from tui.widgets.dialog import Dialog, hint

TALLEST = 16  # lines of the list
BESIDES = 8  # other lines of the dialog, if it is short


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry. Its character `key` chooses it; `reason` is why it is disabled."""

    value: str
    title: str
    key: str = ""
    note: str = ""
    """Shown below the list for the entry under the cursor."""
    reason: str = ""


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

    VERTICAL_BREAKPOINTS = [(0, "-short"), (TALLEST + BESIDES + 2, "-tall")]  # noqa: RUF012  (declared on the base class)
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
        self.query_one(OptionList).styles.max_height = max(1, min(TALLEST, self.app.size.height - BESIDES))

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
            if entry.key and event.character == entry.key:
                event.stop()
                self._choose(entry)
                return

    def _choose(self, entry: Entry) -> None:
        if entry.reason:
            self.query_one(".menu--note", Static).update(Content(safe(entry.reason)))
        else:
            self.dismiss(entry.value)

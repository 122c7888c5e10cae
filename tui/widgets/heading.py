"""The line above a list: the place's title, the filter while there is one, and the count."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from client.text import safe


class Heading(Horizontal):
    """Title and count; `/` opens the filter between them. Esc there first empties it, then leaves it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "leave", show=False, priority=True),
        Binding("down,enter,tab", "done", show=False, priority=True),
    ]

    DEFAULT_CSS = """
    Heading {
        height: 1;
        padding: 0 1 0 2;
        margin: 1 0;
        & > .heading--title { width: auto; text-style: bold; margin-right: 2; }
        & > .heading--slash { width: 2; color: $text-accent; text-style: bold; }
        & > .heading--gap { width: 1fr; }
        & > .heading--count { width: auto; max-width: 60%; color: $text-muted; }
        Input, Input:focus { border: none; height: 1; padding: 0; width: 1fr; background: transparent; }
        & > .heading--slash, Input { display: none; }
        &.-filtering > .heading--slash, &.-filtering Input { display: block; }
        &.-filtering > .heading--gap { display: none; }
    }
    """

    class Filtered(Message):
        """The filter line changed."""

        def __init__(self, line: str) -> None:
            super().__init__()
            self.line = line

    class Left(Message):
        """The filter line was left: focus belongs to the list."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self.place_title = title

    def compose(self) -> ComposeResult:
        yield Static(self.place_title, classes="heading--title", markup=False)
        yield Static("/", classes="heading--slash", markup=False)
        line = Input(placeholder="words, !word, field:value", select_on_focus=False)
        line.cursor_blink = False
        yield line
        yield Static("", classes="heading--gap", markup=False)
        yield Static("", classes="heading--count", markup=False)

    @property
    def line(self) -> Input:
        """The filter being typed."""
        return self.query_one(Input)

    def open(self) -> None:
        """Start typing a filter."""
        self.add_class("-filtering")
        # At once and not in a moment, as `focus` would: the next keys may have been typed already.
        self.screen.set_focus(self.line)

    def put(self, filter_line: str) -> None:
        """Set the filter from elsewhere."""
        self.set_class(bool(filter_line), "-filtering")
        self.line.value = filter_line

    def clear(self) -> bool:
        """Take the filter away; False when there was none."""
        had = self.has_class("-filtering")
        self.put("")
        return had

    def count(self, words: str) -> None:
        """The words at the right end."""
        self.query_one(".heading--count", Static).update(Content(safe(words)))

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Filtered(event.value))

    def action_leave(self) -> None:
        self.clear()
        self.post_message(self.Left())

    def action_done(self) -> None:
        self.set_class(bool(self.line.value), "-filtering")
        self.post_message(self.Left())

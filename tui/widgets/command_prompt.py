"""The `:` line at the foot of the screen: history with the arrows, Tab completes, Enter runs what was typed."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from client.text import cut, safe
from tui.command_line import History

SUGGESTIONS = 8


class CommandPrompt(Vertical):
    """Hidden until opened; says what was entered and leaves it to others to act."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "close", show=False, priority=True),
        Binding("tab", "complete", show=False, priority=True),
        Binding("up,ctrl+p", "older", show=False, priority=True),
        Binding("down,ctrl+n", "newer", show=False, priority=True),
    ]

    DEFAULT_CSS = """
    CommandPrompt {
        height: auto;
        display: none;
        background: $panel;
        & > Static { height: 1; padding: 0 1; color: $text-muted; }
        & > Horizontal { height: 1; padding: 0 1; }
        & > Horizontal > Static { width: 1; color: $text-accent; text-style: bold; }
        Input, Input:focus { border: none; height: 1; padding: 0; width: 1fr; background: transparent; }
    }
    """

    class Entered(Message):
        """A line to run."""

        def __init__(self, line: str) -> None:
            super().__init__()
            self.line = line

    class Closed(Message):
        """The prompt went away; focus belongs to the place again."""

    def __init__(self, complete: Callable[[str], Sequence[str]]) -> None:
        super().__init__(id="prompt")
        self._complete = complete
        self.history = History()
        self._suggestions: Sequence[str] = ()

    def compose(self) -> ComposeResult:
        yield Static("", markup=False)
        with Horizontal():
            yield Static(":", markup=False)
            entry = Input(id="prompt-line", select_on_focus=False)
            entry.cursor_blink = False
            yield entry

    @property
    def entry(self) -> Input:
        """The line being typed."""
        return self.query_one("#prompt-line", Input)

    def open(self, line: str = "") -> None:
        """Show the prompt with a line to go on from."""
        self.display = True
        self.entry.value = line
        self.entry.cursor_position = len(line)
        # At once and not in a moment, as `focus` would: the next keys may have been typed already.
        self.screen.set_focus(self.entry)
        self._suggest()

    def action_close(self) -> None:
        self.display = False
        self.post_message(self.Closed())

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._suggest()

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        event.stop()
        line = event.value.strip()
        self.action_close()
        if line:
            self.history.add(line)
            self.post_message(self.Entered(line))

    def action_complete(self) -> None:
        """Take the first suggestion; a word that takes an argument is followed by a blank."""
        if self._suggestions:
            line = self._suggestions[0]
            self._put(line if " " in line or not self._complete(line + " ") else line + " ")

    def action_older(self) -> None:
        self._put(self.history.older(self.entry.value))

    def action_newer(self) -> None:
        self._put(self.history.newer(self.entry.value))

    def _put(self, line: str) -> None:
        self.entry.value = line
        self.entry.cursor_position = len(line)

    def _suggest(self) -> None:
        self._suggestions = self._complete(self.entry.value)
        words = "  ".join(safe(line) for line in self._suggestions[:SUGGESTIONS])
        hint = Content(cut(words, max(0, self.size.width - 8)))
        self.query_one(Static).update(
            Content.assemble(("Tab ", "bold"), hint)
            if self._suggestions
            else Content("Enter runs the line, Esc leaves it")
        )

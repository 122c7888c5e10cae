"""The `:` prompt: arrow keys for the history, Tab to complete, Enter to run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from client.text import cut, safe
from tui.state.preferences import LINES
from tui.widgets.lines import LineInput

SUGGESTIONS = 8


class History:
    """Entered lines, the newest last. Moving past the newest restores the unfinished line."""

    def __init__(self, lines: Sequence[str] = (), limit: int = LINES) -> None:
        self.lines = list(lines)[-limit:]
        self._limit = limit
        self._index: int | None = None
        self._typing = ""

    def add(self, line: str) -> None:
        """Add a line as the newest, and remove its duplicate."""
        self.lines = [*(old for old in self.lines if old != line), line][-self._limit :]
        self._index = None

    def older(self, typing: str) -> str:
        """Return the previous line; at the oldest, the same one."""
        if self._index is None:
            self._typing, self._index = typing, len(self.lines)
        self._index = max(0, self._index - 1)
        return self.lines[self._index] if self.lines else typing

    def newer(self, typing: str) -> str:
        """Return the next line; after the newest, the unfinished one."""
        if self._index is None:
            return typing
        self._index += 1
        if self._index >= len(self.lines):
            self._index = None
            return self._typing
        return self.lines[self._index]


class CommandPrompt(Widget):
    """A line of suggestions and an input. Posts the entered line as a message."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "close", show=False, priority=True),
        Binding("tab", "complete", show=False, priority=True),
        Binding("up,ctrl+p", "older", show=False, priority=True),
        Binding("down,ctrl+n", "newer", show=False, priority=True),
    ]

    DEFAULT_CSS = """
    CommandPrompt {
        height: 2;
        padding: 0 1;
        display: none;
        background: $panel;
        color: $foreground;
        & > LineInput { margin: 1 0 0 1; }
    }
    """

    @dataclass(eq=False)
    class Entered(Message):
        """A line to run, with the new history."""

        line: str
        lines: list[str]

    class Closed(Message):
        """The prompt was closed. The screen takes the focus."""

    def __init__(self, complete: Callable[[str], Sequence[str]], lines: Sequence[str]) -> None:
        super().__init__(id="prompt")
        self._complete = complete
        self.history = History(lines)
        self._suggestions: Sequence[str] = ()
        self._line = LineInput(id="prompt-line")

    def compose(self) -> ComposeResult:
        yield self._line

    def render(self) -> Content:
        if not self._suggestions:
            first = Content.styled("Enter run, Esc close", "$text-muted")
        else:
            suggestions = cut(
                "  ".join(safe(line) for line in self._suggestions[:SUGGESTIONS]), self.content_size.width - 4
            )
            first = Content.assemble(("Tab ", "bold $text-muted"), (suggestions, "$text-muted"))
        return first + "\n" + Content.styled(":", "bold $text-accent")

    def open(self, line: str = "") -> None:
        """Show the prompt with an initial line."""
        self.display = True
        self._put(line)
        # `focus` would be deferred, and the next keys may be queued already.
        self.screen.set_focus(self._line)
        self._suggest()

    def action_close(self) -> None:
        self.display = False
        self.post_message(self.Closed())

    def on_input_changed(self, event: Any) -> None:
        event.stop()
        self._suggest()

    def on_input_submitted(self, event: Any) -> None:
        event.stop()
        line = event.value.strip()
        self.action_close()
        if line:
            self.history.add(line)
            self.post_message(self.Entered(line, self.history.lines))

    def action_complete(self) -> None:
        """Insert the first suggestion, with a blank if an argument can follow."""
        if self._suggestions:
            line = self._suggestions[0]
            self._put(line if " " in line or not self._complete(line + " ") else line + " ")

    def action_older(self) -> None:
        self._put(self.history.older(self._line.value))

    def action_newer(self) -> None:
        self._put(self.history.newer(self._line.value))

    def _put(self, line: str) -> None:
        self._line.value = line
        self._line.cursor_position = len(line)

    def _suggest(self) -> None:
        self._suggestions = self._complete(self._line.value)
        self.refresh()

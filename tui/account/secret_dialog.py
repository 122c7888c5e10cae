"""Dialog that shows the secret of a new key, once."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid, Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, Static

from client.text import safe
from tui.widgets.dialog import Dialog, hint
from tui.widgets.lines import Secret

WARNING = "Not copied yet, and shown never again: Esc once more leaves it."


class NewSecret(Dialog[None]):
    """y copies the secret, Esc closes the dialog and discards it. Without a copy, Esc must be pressed twice."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,c", "copy", "Copy", show=False),
        Binding("left,h", "app.focus_previous", show=False),
        Binding("right,l", "app.focus_next", show=False),
    ]
    DEFAULT_CSS = """
    NewSecret {
        & > .dialog { width: 76; overflow-y: auto; scrollbar-size-vertical: 1; }
        .secret--facts { grid-size: 2; grid-columns: auto 1fr; grid-gutter: 0 2; grid-rows: auto; height: auto; }
        .secret--label { width: auto; color: $text-muted; }
        .secret--status { height: auto; min-height: 1; margin-top: 1; color: $text-warning; }
    }
    """

    def __init__(
        self,
        title: str,
        facts: Sequence[tuple[str, str]],
        secret: str,
        copy: Callable[[str, Callable[[str], None]], None],
    ) -> None:
        """`copy` writes the secret to the clipboard and reports the result."""
        super().__init__()
        self._title, self._facts = title, facts
        self._secret = secret
        self._copy = copy
        self._copied = self._warned = False

    def title_text(self) -> str:
        return self._title

    def content(self) -> ComposeResult:
        yield Static("The secret of the key, shown only now. Keep it where secrets are kept.", markup=False)
        yield Secret(self._secret)
        yield Grid(*self._lines(), classes="secret--facts")
        yield Static("", classes="secret--status", markup=False)
        buttons = (Button("Copy", id="copy", variant="primary"), Button("Leave", id="leave"))
        yield Horizontal(*buttons, classes="dialog--buttons")
        yield hint("y copy · Esc close. You cannot see this secret again")

    def _lines(self) -> Sequence[Static]:
        return [
            part
            for name, value in self._facts
            for part in (
                Static(name, classes="secret--label", markup=False),
                Static(Content(safe(value)), markup=False),
            )
        ]

    def first_focus(self) -> Widget:
        return self.query_one("#copy", Button)

    def say(self, text: str) -> None:
        if self.is_attached:
            self.query_one(".secret--status", Static).update(Content(safe(text)))

    def action_copy(self) -> None:
        self._copied = True
        self._copy(self._secret, self.say)

    def action_cancel(self) -> None:
        if not self._copied and not self._warned:
            self._warned = True
            self.say(WARNING)
            return
        self._secret = ""
        self.query_one(Secret).forget()
        self.dismiss(None)

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "copy":
            self.action_copy()
        else:
            self.action_cancel()

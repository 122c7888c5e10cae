"""What every dialog shares: the frame, and deafness to keys typed before it could be read.

A key that was on its way while the dialog opened was meant for the view behind it (hostile F12). So a
dialog starts listening only once it has been painted and a moment has passed; Esc always closes it.
"""

from typing import ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from client.text import safe
from tui.resizing import Resting

Result = TypeVar("Result")

DEAF_SECONDS = 0.15


class Dialog(Resting, ModalScreen[Result]):
    """A framed box in the middle of the screen; `dismiss` gives its value to who pushed it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Cancel", show=False)]

    DEFAULT_CSS = """
    Dialog {
        align: center middle;
        background: $background 60%;
        & > .dialog {
            width: 64; max-width: 100%;
            height: auto; max-height: 100%;
            padding: 1 2;
            background: $surface;
            border: round $primary;
            border-title-color: $foreground;
            border-title-style: bold;
            border-subtitle-color: $text-muted;
        }
        &.-destructive > .dialog { border: round $error; }
        .dialog--hint { color: $text-muted; margin-top: 1; }
        .dialog--buttons { height: auto; margin-top: 1; align-horizontal: right; }
        .dialog--buttons Button { margin-left: 2; min-width: 10; }
    }
    """

    # Nothing has the focus, and so nothing hears a key, until the dialog listens.
    AUTO_FOCUS = ""
    LISTENS_AT_ONCE: ClassVar[bool] = False
    """True for a form: what is typed into it early does no harm."""

    def compose(self) -> ComposeResult:
        box = Vertical(*self.content(), classes="dialog")
        box.border_title = Content(safe(self.title_text()))
        yield box

    listening = False

    def content(self) -> ComposeResult:
        """The widgets inside the frame."""
        yield from ()

    def title_text(self) -> str:
        """The words in the upper edge of the frame."""
        return ""

    def first_focus(self) -> Widget | None:
        """The widget that has the focus once the dialog listens: where it asks, the harmless answer."""
        return None

    def on_mount(self) -> None:
        if self.LISTENS_AT_ONCE:
            self._listen()
        else:
            self.set_timer(DEAF_SECONDS, self._listen)

    def _listen(self) -> None:
        self.listening = True
        widget = self.first_focus()
        if widget is not None:
            # At once and not in a moment, as `focus` would: the next keys may have been typed already.
            self.set_focus(widget)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.listening or action == "cancel"

    def action_cancel(self) -> None:
        self.dismiss(None)


def hint(words: str) -> Static:
    """The quiet line at the foot of a dialog."""
    return Static(words, classes="dialog--hint", markup=False)

"""A single-line input for the filter and the `:` prompt. A blinking cursor would repaint an idle screen."""

from textual.widgets import Input


class LineInput(Input):
    """An input without border, blinking cursor or selection on focus."""

    DEFAULT_CSS = """
    LineInput, LineInput:focus {
        border: none;
        height: 1;
        padding: 0;
        width: 1fr;
        background: transparent;
    }
    """

    def __init__(self, *, placeholder: str = "", id: str | None = None) -> None:
        super().__init__(placeholder=placeholder, id=id, classes="-line-input", select_on_focus=False)
        self.cursor_blink = False

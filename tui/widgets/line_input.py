"""An input of one bare line, as the filter and the `:` prompt use it. Its cursor does not blink: idle is silent."""

from textual.widgets import Input


class LineInput(Input):
    """No border, no blinking, no selection on focus."""

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

"""Sign-in by device code: the address, the code to type there, and both as a QR code where there is room."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Static

from client.text import safe
from tui.widgets.dialog import Dialog, hint

ROOM_FOR_QR = 24  # lines of a terminal that can show the code below the words


class DeviceCode(Dialog[bool | None]):
    """Stays open until who pushed it dismisses it (signed in), or Esc gives None (waiting is given up)."""

    DEFAULT_CSS = """
    DeviceCode {
        & > .dialog { width: 76; }
        .device--code { text-style: bold; color: $text-accent; margin: 1 0; }
        .device--qr { width: auto; height: auto; background: white; color: black; padding: 0 1; }
        .device--words { width: 1fr; height: auto; }
        .device--row { height: auto; }
    }
    """
    LISTENS_AT_ONCE: ClassVar[bool] = True

    def __init__(self, context: str, user_code: str, address: str, complete_address: str | None = None) -> None:
        super().__init__()
        self.context = context
        self.user_code = user_code
        self.address = address
        self.complete_address = complete_address or address

    def title_text(self) -> str:
        return f"Sign in to {self.context}"

    def content(self) -> ComposeResult:
        words = Vertical(
            Static("Open this address in a browser:", markup=False),
            Static(Content(safe(self.address)), markup=False),
            Static("and type this code there:", markup=False),
            Static(Content(safe(self.user_code)), classes="device--code", markup=False),
            Static("Waiting for your approval …", markup=False, classes="dialog--hint"),
            classes="device--words",
        )
        yield Horizontal(words, self._qr(), classes="device--row")
        yield hint("Esc gives up waiting")

    def _qr(self) -> Static:
        picture = qr_text(self.complete_address)
        qr = Static(picture, classes="device--qr", markup=False)
        qr.display = picture.count("\n") + 8 <= max(self.app.size.height, ROOM_FOR_QR)
        return qr

    def say(self, words: str) -> None:
        """Tell how the waiting goes."""
        self.query_one(".device--words > .dialog--hint", Static).update(Content(safe(words)))


def qr_text(address: str) -> str:
    """A QR code in half blocks: two rows of it in a line of text, dark on light."""
    import segno

    rows = [list(row) for row in segno.make(address, error="l", micro=False).matrix_iter(border=1)]
    if len(rows) % 2:
        rows.append([0] * len(rows[0]))
    blocks = {(0, 0): " ", (1, 0): "▀", (0, 1): "▄", (1, 1): "█"}
    return "\n".join(
        "".join(blocks[int(bool(upper)), int(bool(lower))] for upper, lower in zip(top, bottom, strict=True))
        for top, bottom in zip(rows[::2], rows[1::2], strict=True)
    )

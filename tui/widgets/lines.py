"""Widgets of one line: an input, and a secret that is shown once and hidden in screenshots."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from client.text import cut, safe


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


_picturing: ContextVar[bool] = ContextVar("picturing", default=False)


@contextmanager
def pictured() -> Iterator[None]:
    """Hide secrets while a screenshot is taken."""
    token = _picturing.set(True)
    try:
        yield
    finally:
        _picturing.reset(token)


class Unsaid(str):
    """A string that tracebacks do not show: they print the values of variables."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'…'"


class Secret(Widget):
    """A line with a secret. It is not cached, so only the widget has the secret."""

    DEFAULT_CSS = "Secret { height: 1; margin: 1 0; color: $text-accent; text-style: bold; }"

    def __init__(self, secret: str) -> None:
        super().__init__()
        self._secret = secret

    def forget(self) -> None:
        """Remove the secret."""
        self._secret = ""
        self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        text = "•" * len(self._secret) if _picturing.get() else cut(safe(self._secret), crop.right)
        line = Strip([Segment(text, self.rich_style)]).adjust_cell_length(crop.right, self.rich_style)
        return [line.crop(crop.x, crop.right)] * crop.height

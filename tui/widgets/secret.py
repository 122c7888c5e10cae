"""A secret on the screen: shown once, in a dialog of its own, and in no picture of the screen (checklist K02, I08)."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from client.text import cut, safe

_picturing: ContextVar[bool] = ContextVar("picturing", default=False)


@contextmanager
def pictured() -> Iterator[None]:
    """While a picture of the screen is taken: no secret is painted."""
    token = _picturing.set(True)
    try:
        yield
    finally:
        _picturing.reset(token)


class Unsaid(str):
    """A text that no traceback writes out: a program that breaks shows what its variables hold."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'…'"


class Secret(Widget):
    """One line with a secret. It is painted anew each time, so nothing keeps it but what it was made with."""

    DEFAULT_CSS = "Secret { height: 1; margin: 1 0; color: $text-accent; text-style: bold; }"

    def __init__(self, secret: str) -> None:
        super().__init__()
        self._secret = secret

    def forget(self) -> None:
        """Hold and paint nothing any more."""
        self._secret = ""
        self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        text = "•" * len(self._secret) if _picturing.get() else cut(safe(self._secret), crop.right)
        line = Strip([Segment(text, self.rich_style)]).adjust_cell_length(crop.right, self.rich_style)
        return [line.crop(crop.x, crop.right)] * crop.height

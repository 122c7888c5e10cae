"""Lines between the heading of a place and its list: what is to be said of the whole before its records."""

import textwrap
from collections.abc import Callable, Sequence

from textual import events
from textual.content import Content
from textual.widget import Widget

from client.text import safe

Build = Callable[[int], Sequence[Content]]
"""Makes the lines for so many cells."""
NARROWEST = 12


class Summary(Widget):
    """As high as it has lines, and gone without any. It is painted again only when a line is another."""

    DEFAULT_CSS = """
    Summary { height: auto; padding: 0 1 0 2; margin-bottom: 1; display: none; background: $background; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._build: Build = lambda _: ()
        self._lines: list[Content] = []

    def show(self, build: Build) -> None:
        """Take what makes the lines, now and at every width."""
        self._build = build
        self._rebuild()

    def on_resize(self, event: events.Resize) -> None:
        self._rebuild()

    def _rebuild(self) -> None:
        cells = self.content_size.width or max(NARROWEST, self.app.size.width - 20)
        lines = list(self._build(cells))
        if lines == self._lines:
            return
        if len(lines) != len(self._lines):
            self.styles.height = len(lines)
            self.display = bool(lines)
        self._lines = lines
        self.refresh()

    def render(self) -> Content:
        return Content("\n").join(self._lines)


def wrapped(words: str, cells: int, tone: str = "", hang: str = "") -> list[Content]:
    """Foreign words as lines of at most so many cells; those behind the first begin with `hang`."""
    parts = textwrap.wrap(safe(words), max(NARROWEST, cells), subsequent_indent=hang, break_on_hyphens=False)
    return [Content.styled(part, tone) if tone else Content(part) for part in parts]

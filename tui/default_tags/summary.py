"""Summary lines between the heading and the list of a screen."""

import textwrap
from collections.abc import Callable, Sequence

from textual import events
from textual.content import Content
from textual.widget import Widget

from client.text import safe

Build = Callable[[int], Sequence[Content]]
"""Returns the lines for a width in cells."""
NARROWEST = 12


class Summary(Widget):
    """Hidden without lines. Repainted only if a line changes."""

    DEFAULT_CSS = """
    Summary { height: auto; padding: 0 1 0 2; margin-bottom: 1; display: none; background: $background; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._build: Build = lambda _: ()
        self._lines: list[Content] = []

    def show(self, build: Build) -> None:
        """Set the function that builds the lines, now and on every resize."""
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


def wrapped(text: str, cells: int, tone: str = "", hang: str = "") -> list[Content]:
    """Make text safe and wrap it to `cells`. Lines after the first begin with `hang`."""
    parts = textwrap.wrap(safe(text), max(NARROWEST, cells), subsequent_indent=hang, break_on_hyphens=False)
    return [Content.styled(part, tone) if tone else Content(part) for part in parts]

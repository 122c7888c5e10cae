"""The detail pane: labels and values of the record under the cursor."""

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from client.text import safe, wrapped

Section = tuple[str, Sequence[tuple[str, str]]]

NARROWEST = 8  # minimum width of a value, in cells


class Detail(VerticalScroll):
    """Sections of (label, value) lines under a title. Control characters in values are made visible.

    Sections without a heading share a label width; one with a heading has its own. A blank label continues the label
    above. Long values wrap within their column.
    """

    DEFAULT_CSS = """
    Detail {
        background: $surface;
        padding: 0 2;
        scrollbar-size-vertical: 1;
        & > .detail--title { text-style: bold; margin-bottom: 1; }
        & > .detail--body { color: $foreground; }
        &:focus > .detail--title { color: $text-accent; }
    }
    """

    _title = ""
    _sections: Sequence[Section] = ()
    _room = 0

    def compose(self) -> ComposeResult:
        yield Static("", classes="detail--title", markup=False)
        yield Static("", classes="detail--body", markup=False)

    def show(self, title: str, sections: Sequence[Section]) -> None:
        """Show a record. An empty title clears the pane."""
        if (title, sections) == (self._title, self._sections):
            return  # avoid a new layout
        self.query_one(".detail--title", Static).update(Content(safe(title)))
        self._title, self._sections = title, sections
        self._paint()

    def on_resize(self) -> None:
        if self._cells() != self._room:
            self._paint()

    def _cells(self) -> int:
        """Return the width of a line, which is the same with and without the scrollbar."""
        return max(0, self.scrollable_content_region.width - (0 if self.show_vertical_scrollbar else 1))

    def _paint(self) -> None:
        self._room = self._cells()
        self.query_one(".detail--body", Static).update(self._body(self._sections))

    def _body(self, sections: Sequence[Section]) -> Content:
        shared = max((len(name) for heading, facts in sections if not heading for name, _ in facts), default=0)
        parts: list[Content] = []
        for heading, facts in sections:
            if not facts and not heading:
                continue
            if parts:
                parts.append(Content(""))
            if heading:
                parts.append(Content.styled(safe(heading), "$text-muted bold"))
            label = max((len(name) for name, _ in facts), default=0) if heading else shared
            for name, value in facts:
                parts += self._lines(name, label if name else 0, safe(value))
        return Content("\n").join(parts)

    def _lines(self, name: str, label: int, value: str) -> list[Content]:
        left = label + 2 if label else 0
        room = max(NARROWEST, self._room - left) if self._room else len(value) + 1
        first, *more = wrapped(value, room)
        lines = [Content.assemble((f"{name:<{label}}  ", "$text-muted"), first) if left else Content(first)]
        return lines + [Content(" " * left + line) for line in more]

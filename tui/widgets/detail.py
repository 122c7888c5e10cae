"""The pane beside a list: everything known about the record under the cursor, as label and value."""

import textwrap
from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from client.text import safe

Section = tuple[str, Sequence[tuple[str, str]]]

NARROWEST = 8  # cells a value is wrapped into at least, however narrow the pane


class Detail(VerticalScroll):
    """Sections of (label, value) lines under a title. Values may be foreign text: they are made safe here.

    Sections without a heading share the width of their labels; one with a heading has its own. A label of a
    blank continues the label above. Long values wrap under themselves.
    """

    DEFAULT_CSS = """
    Detail {
        background: $surface;
        padding: 0 2;
        scrollbar-size-vertical: 1;
        & > .detail--title { text-style: bold; margin-bottom: 1; }
        & > .detail--body { color: $foreground; }
    }
    """

    _title = ""
    _sections: Sequence[Section] = ()
    _room = 0

    def compose(self) -> ComposeResult:
        yield Static("", classes="detail--title", markup=False)
        yield Static("", classes="detail--body", markup=False)

    def show(self, title: str, sections: Sequence[Section]) -> None:
        """Show a record, or with an empty title nothing at all."""
        if (title, sections) == (self._title, self._sections):
            return  # what is laid out stays so
        self.query_one(".detail--title", Static).update(Content(safe(title)))
        self._title, self._sections = title, sections
        self._paint()

    def on_resize(self) -> None:
        if self.scrollable_content_region.width != self._room:
            self._paint()

    def _paint(self) -> None:
        self._room = self.scrollable_content_region.width
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
        first, *more = textwrap.wrap(value, room, break_on_hyphens=False) or [""]
        lines = [Content.assemble((f"{name:<{label}}  ", "$text-muted"), first) if left else Content(first)]
        return lines + [Content(" " * left + line) for line in more]

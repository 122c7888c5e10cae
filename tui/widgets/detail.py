"""The pane beside a list: everything known about the record under the cursor, as label and value."""

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from client.text import safe

Section = tuple[str, Sequence[tuple[str, str]]]


class Detail(VerticalScroll):
    """Sections of (label, value) lines under a title. Values may be foreign text: they are made safe here."""

    DEFAULT_CSS = """
    Detail {
        background: $surface;
        padding: 0 2;
        scrollbar-size-vertical: 1;
        & > .detail--title { text-style: bold; margin-bottom: 1; }
        & > .detail--body { color: $foreground; }
    }
    """

    def compose(self) -> ComposeResult:
        yield Static("", classes="detail--title", markup=False)
        yield Static("", classes="detail--body", markup=False)

    def show(self, title: str, sections: Sequence[Section]) -> None:
        """Show a record, or with an empty title nothing at all."""
        self.query_one(".detail--title", Static).update(Content(safe(title)))
        self.query_one(".detail--body", Static).update(self._body(sections))

    def _body(self, sections: Sequence[Section]) -> Content:
        label = max((len(name) for _, facts in sections for name, _ in facts), default=0)
        parts: list[Content] = []
        for heading, facts in sections:
            if not facts:
                continue
            if parts:
                parts.append(Content(""))
            if heading:
                parts.append(Content.styled(heading, "$text-muted bold"))
            for name, value in facts:
                parts.append(
                    Content.assemble((f"{name:<{label}}  ", "$text-muted"), Content(safe(value)))
                    if name
                    else Content(safe(value))
                )
        return Content("\n").join(parts)

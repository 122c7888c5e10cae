"""The title bar of the editor and its tabs."""

from collections.abc import Sequence
from typing import NamedTuple

from textual import events
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from client.text import safe

MIN_NAME_CELLS = 12
"""Minimum width of the policy's name and version."""


class Title(NamedTuple):
    """Contents of the title bar, untrusted."""

    name: str = ""
    version: int = 0
    """The stored version; 0 for a new policy."""
    is_changed: bool = False
    """Whether the text differs from the stored version."""
    status: str = ""
    """State of a save, or a note; empty to show whether the document is saved."""
    tenant: str = ""
    """The tenant of the policy if the header shows another one, otherwise empty."""


class TitleBar(Widget):
    """The policy and whether it is saved."""

    DEFAULT_CSS = """
    TitleBar { height: 1; padding: 0 1; }
    """

    title: reactive[Title] = reactive(Title())

    def render(self) -> Content:
        title, cells = self.title, self.content_size.width
        status = title.status or ("● not saved" if title.is_changed or not title.version else "saved")
        tone = "$text-warning" if title.is_changed or title.status else "$text-muted"
        right = Content.styled(safe(status), tone).truncate(max(0, cells - MIN_NAME_CELLS), ellipsis=True)
        left = Content.assemble(
            ("Policy  ", "$text-muted"),
            (safe(title.name) or "(no name yet)", "bold"),
            (f"  version {title.version}" if title.version else "  new", "$text-muted"),
            (f"  in {safe(title.tenant)}" if title.tenant else "", "$text-warning"),
        ).truncate(max(0, cells - right.cell_length - 1), ellipsis=True)
        return left.pad_right(max(0, cells - left.cell_length - right.cell_length)) + right


class Tabs(Widget):
    """Tabs of (name, title) pairs, clipped at the width of the widget."""

    DEFAULT_CSS = """
    Tabs { height: 1; padding: 0 1; color: $text-muted; }
    """

    views: reactive[Sequence[tuple[str, str]]] = reactive(())
    active = reactive("")

    class Selected(Message):
        """Posted when a tab is clicked."""

        def __init__(self, view: str) -> None:
            super().__init__()
            self.view = view

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._spans: list[tuple[int, int, str]] = []

    def render(self) -> Content:
        parts: list[Content] = []
        self._spans = []
        at = 0
        for name, title in self.views:
            tone = "bold $text-accent underline" if name == self.active else "$text-muted"
            parts.append(Content.styled(title, tone))
            self._spans.append((at, at + len(title), name))
            at += len(title) + 3
        return Content("   ").join(parts)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        for start, end, name in self._spans:
            if offset is not None and start <= offset.x < end:
                self.post_message(self.Selected(name))

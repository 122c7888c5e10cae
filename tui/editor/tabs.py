"""The names of the views in one line, the one shown marked; a click changes to another."""

from collections.abc import Sequence

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget


class Tabs(Widget):
    """Paints (name, title) pairs; titles that do not fit lose their end."""

    DEFAULT_CSS = """
    Tabs { height: 1; padding: 0 1; color: $text-muted; }
    """

    class Picked(Message):
        """A click on a view's name."""

        def __init__(self, view: str) -> None:
            super().__init__()
            self.view = view

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.views: Sequence[tuple[str, str]] = ()
        self.active = ""
        self._spans: list[tuple[int, int, str]] = []

    def show(self, views: Sequence[tuple[str, str]], active: str) -> None:
        """Take the views, and which of them is shown."""
        if (tuple(views), active) != (tuple(self.views), self.active):
            self.views, self.active = tuple(views), active
            self.refresh()

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
                self.post_message(self.Picked(name))

"""The places on the left, each with its digit. Only places that exist are listed."""

from collections.abc import Sequence

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget


class Navigation(Widget):
    """Shows the places; a click on one asks for it. The digits are bindings of the app."""

    DEFAULT_CSS = """
    Navigation {
        width: 14;
        height: 1fr;
        padding: 1 0 0 0;
        background: $panel;
        color: $foreground;
    }
    """

    class Chosen(Message):
        """Somebody clicked on a place."""

        def __init__(self, place: str) -> None:
            super().__init__()
            self.place = place

    def __init__(self, places: Sequence[tuple[str, str]], current: str = "") -> None:
        """`places` are (name, title), in the order of their digits."""
        super().__init__(id="navigation")
        self.places = places
        self.current = current

    def show(self, place: str) -> None:
        """Mark the place that is open."""
        if place != self.current:
            self.current = place
            self.refresh()

    def render(self) -> Content:
        lines = []
        for number, (name, title) in enumerate(self.places, 1):
            here = name == self.current
            digit = str(number) if number < 10 else " "
            lines.append(
                Content.assemble(
                    ("▌" if here else " ", "$accent"),
                    (f"{digit} ", "$text-muted"),
                    (title, "bold $text-accent" if here else "$foreground"),
                )
            )
        return Content("\n").join(lines)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None and offset.y < len(self.places):
            self.post_message(self.Chosen(self.places[offset.y][0]))

"""The footer with the keys, the navigation on the left, and the notice on a terminal that is too small."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget


class Key(NamedTuple):
    """A key in the footer, its label, and whether its action is enabled."""

    action: str
    key: str
    label: str
    enabled: bool = True
    always: bool = False
    """Whether it is shown at the end, however narrow the footer: help and quit."""


LEFT_OUT = "…"
GAP = 2


def _cells(key: Key) -> int:
    return len(key.key) + 1 + len(key.label)


def fitting(keys: Sequence[Key], room: int) -> list[Key | None]:
    """Return the keys that fit, those with `always` last; None marks omitted keys."""
    last = [key for key in keys if key.always]
    first = [key for key in keys if not key.always]
    room -= sum(_cells(key) + GAP for key in last) - GAP
    if sum(_cells(key) + GAP for key in first) <= room:
        return [*first, *last]
    room -= len(LEFT_OUT) + GAP
    visible: list[Key | None] = []
    for key in first:
        room -= _cells(key) + GAP
        if room < 0:
            break
        visible.append(key)
    return [*visible, None, *last]


class Footer(Widget):
    """The keys of the screen. Disabled ones are dimmed; pressing one shows the reason."""

    DEFAULT_CSS = """
    Footer {
        height: 1;
        background: $panel;
        color: $foreground;
        padding: 0 1;
    }
    """

    @dataclass(eq=False)
    class Pressed(Message):
        """An entry was clicked."""

        action: str

    def __init__(self) -> None:
        super().__init__(id="footer")
        self.keys: tuple[Key, ...] = ()
        self._spans: list[tuple[int, int, str]] = []

    def show(self, keys: Sequence[Key]) -> None:
        """Show the keys, the most important first. If they do not fit, the last ones without `always` are omitted."""
        if tuple(keys) != self.keys:
            self.keys = tuple(keys)
            self.refresh()

    def render(self) -> Content:
        parts: list[Content] = []
        self._spans = []
        left = 0
        for key in fitting(self.keys, self.content_size.width):
            if key is None:
                parts.append(Content.styled(LEFT_OUT, "$text-muted"))
                left += len(LEFT_OUT) + GAP
                continue
            cells = _cells(key)
            key_tone, word_tone = (
                ("bold $text-accent", "$foreground") if key.enabled else ("$text-disabled", "$text-disabled")
            )
            parts.append(Content.assemble((key.key, key_tone), " ", (key.label, word_tone)))
            self._spans.append((left, left + cells, key.action))
            left += cells + GAP
        return Content(" " * GAP).join(parts)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        for start, end, action in self._spans:
            if start <= offset.x < end:
                self.post_message(self.Pressed(action))


class Navigation(Widget):
    """The list of screens. A click opens one; the digits are bindings of the main screen."""

    DEFAULT_CSS = """
    Navigation {
        width: 14;
        height: 1fr;
        padding: 1 0 0 0;
        background: $panel;
        color: $foreground;
    }
    """

    @dataclass(eq=False)
    class Chosen(Message):
        """A screen was clicked."""

        screen: str

    def __init__(self, screens: Sequence[tuple[str, str]], current: str = "") -> None:
        """`screens` are (name, title), in the order of their digits."""
        super().__init__(id="navigation")
        self.screens = screens
        self.current = current

    def show(self, screen: str) -> None:
        """Mark the open screen."""
        if screen != self.current:
            self.current = screen
            self.refresh()

    def render(self) -> Content:
        lines = []
        for number, (name, title) in enumerate(self.screens, 1):
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
        if offset is not None and offset.y < len(self.screens):
            self.post_message(self.Chosen(self.screens[offset.y][0]))


class TooSmall(Widget):
    """The notice below 60 by 16 cells. The styles of the main screen show it."""

    DEFAULT_CSS = """
    TooSmall {
        width: 1fr; height: 1fr;
        content-align: center middle;
        text-align: center;
        background: $background;
        color: $foreground;
        display: none;
    }
    """

    def render(self) -> Content:
        size = self.app.size
        return Content(f"frost needs 60 × 16\nthis is {size.width} × {size.height}")

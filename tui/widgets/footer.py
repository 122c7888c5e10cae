"""The last line: the keys that work here, as many as fit, made from the action table."""

from collections.abc import Sequence
from typing import NamedTuple

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget


class Key(NamedTuple):
    """One entry: what to press, what it does, and whether it can be done now."""

    action: str
    key: str
    word: str
    enabled: bool = True


class Footer(Widget):
    """Keys that cannot be used now stay where they are, dimmed: pressing one says why."""

    DEFAULT_CSS = """
    Footer {
        height: 1;
        background: $panel;
        color: $foreground;
        padding: 0 1;
    }
    """

    class Pressed(Message):
        """A click on an entry asks for its action."""

        def __init__(self, action: str) -> None:
            super().__init__()
            self.action = action

    def __init__(self) -> None:
        super().__init__(id="footer")
        self.keys: tuple[Key, ...] = ()
        self._spans: list[tuple[int, int, str]] = []

    def show(self, keys: Sequence[Key]) -> None:
        """Take the keys in the order of their weight: the last ones go first where there is no room."""
        if tuple(keys) != self.keys:
            self.keys = tuple(keys)
            self.refresh()

    def render(self) -> Content:
        room = self.content_size.width
        parts: list[Content] = []
        self._spans = []
        left = 0
        for key in self.keys:
            cells = len(key.key) + 1 + len(key.word)
            if left + cells > room:
                break
            key_tone, word_tone = (
                ("bold $text-accent", "$foreground") if key.enabled else ("$text-disabled", "$text-disabled")
            )
            parts.append(Content.assemble((key.key, key_tone), " ", (key.word, word_tone)))
            self._spans.append((left, left + cells, key.action))
            left += cells + 2
        return Content("  ").join(parts)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        for start, end, action in self._spans:
            if start <= offset.x < end:
                self.post_message(self.Pressed(action))

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
    always: bool = False
    """Whether it stands at the end whatever room there is: the ways to help and out."""


LEFT_OUT = "…"


GAP = 2


def _cells(key: Key) -> int:
    return len(key.key) + 1 + len(key.word)


def fitting(keys: Sequence[Key], room: int) -> list[Key | None]:
    """The keys that fit, the ones that always stand last; None where others were left out."""
    last = [key for key in keys if key.always]
    first = [key for key in keys if not key.always]
    room -= sum(_cells(key) + GAP for key in last) - GAP
    if sum(_cells(key) + GAP for key in first) <= room:
        return [*first, *last]
    room -= len(LEFT_OUT) + GAP
    shown: list[Key | None] = []
    for key in first:
        room -= _cells(key) + GAP
        if room < 0:
            break
        shown.append(key)
    return [*shown, None, *last]


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
        """Take the keys in the order of their weight: without room the last ones but `always` are left out."""
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
            parts.append(Content.assemble((key.key, key_tone), " ", (key.word, word_tone)))
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

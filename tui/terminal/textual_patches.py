"""Patches of Textual 8.2: control characters, late resizes, a memory leak of styles, containers painted twice.

Textual passes escape sequences in text to the terminal. Its own sequences are not part of the text of segments, so
replacing control characters in that text is safe.
"""

import re

from rich.segment import Segment
from textual import events
from textual._styles_cache import StylesCache
from textual.color import Color
from textual.containers import Horizontal, Vertical
from textual.filter import LineFilter
from textual.geometry import Region
from textual.message_pump import MessagePump
from textual.strip import Strip
from textual.widget import Widget

from client.text import safe

# Controls, direction marks and overrides, zero-width characters and line separators.
DANGEROUS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


class VisibleControls(LineFilter):
    """Replaces control characters by visible signs of one cell."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if not any(DANGEROUS.search(segment.text) for segment in segments if not segment.control):
            return segments
        return [
            segment if segment.control else Segment(DANGEROUS.sub(sign, segment.text), segment.style)
            for segment in segments
        ]


def sign(match: re.Match[str]) -> str:
    """Return the visible sign for a control character."""
    character = match.group()
    # One cell: the line is measured already, and a longer sign would shift its columns.
    return safe(character)[0] if ord(character) < 0x20 or character == "\x7f" else "�"


class Resting(MessagePump):
    """Mixin before `Screen`: lays out the screen only for the current size of the terminal.

    Textual sends resizes as messages, and a layout sends another one. Two different sizes in the queue caused each
    other without end.
    """

    async def _on_resize(self, event: events.Resize) -> None:
        if event.size != self.app.size:
            event.stop()
            event.prevent_default()


def fix_style_cache_leak() -> None:
    """Release the painted lines of removed widgets.

    Textual caches two colours with the instance in the key, which it does not need (the first parameter is called
    `cls`). The cache kept the lines of the last thousand widgets.
    """
    remembered = StylesCache.__dict__["get_inner_outer"]
    if not isinstance(remembered, classmethod):
        StylesCache.get_inner_outer = classmethod(remembered)  # type: ignore[method-assign, assignment]


class Covered(Widget):
    """Paints one cached blank line. Textual paints every container whole before its children; with four containers
    around a list, that is half of the time of a frame.

    It must be the last base class: Textual takes the styles of the first one.
    """

    def render_lines(self, crop: Region) -> list[Strip]:
        return [Strip.blank(crop.width, self.rich_style)] * crop.height


class Row(Horizontal, Covered):
    """A horizontal container."""


class Stack(Vertical, Covered):
    """A vertical container."""

"""The net behind `client.text.safe`: whatever a widget forgot, no control character of data reaches the terminal.

Textual passes escapes found in any text straight on (hostile F01). Its own cursor and colour sequences are
written outside of the text of segments, so replacing controls in that text loses nothing.
"""

import re

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from client.text import safe

# Controls, direction marks and overrides, zero-width and line separators: what moves or hides text on a terminal.
DANGEROUS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


class VisibleControls(LineFilter):
    """Replaces what a terminal would act on by a visible sign of the same width where there is one."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if not any(DANGEROUS.search(segment.text) for segment in segments if not segment.control):
            return segments
        return [
            segment if segment.control else Segment(DANGEROUS.sub(sign, segment.text), segment.style)
            for segment in segments
        ]


def sign(match: re.Match[str]) -> str:
    """What is shown in place of a dangerous character."""
    character = match.group()
    # One cell for one cell: the line was measured before, and a longer sign would push it out of its columns.
    return safe(character)[0] if ord(character) < 0x20 or character == "\x7f" else "�"

"""Containers that are never seen: their children cover them."""

from textual.containers import Horizontal, Vertical
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget


class Covered(Widget):
    """Paints one blank line again and again. Textual paints every container whole before it puts the children over
    it; with four of them around a list that is half of the work of a full frame.

    It stands last among the bases: Textual takes the styles of the first one.
    """

    def render_lines(self, crop: Region) -> list[Strip]:
        return [Strip.blank(crop.width, self.rich_style)] * crop.height


class Row(Horizontal, Covered):
    """Children side by side."""


class Stack(Vertical, Covered):
    """Children one below the other."""

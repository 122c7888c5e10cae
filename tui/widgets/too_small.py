"""What stands on the screen when there is no room for the frame: words instead of a broken picture."""

from textual.content import Content
from textual.widget import Widget


class TooSmall(Widget):
    """Shown by the frame's style rules below 60 by 16 cells (checklist I03)."""

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

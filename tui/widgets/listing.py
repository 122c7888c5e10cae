"""Lines to look through, and nothing to decide."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from tui.widgets.dialog import Dialog, hint


class Listing(Dialog[None]):
    """The lines are safe text already; leaves with Esc, Enter or q."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "lines(1)", show=False),
        Binding("k", "lines(-1)", show=False),
        Binding("enter,q", "cancel", show=False),
    ]
    DEFAULT_CSS = """
    Listing {
        & > .dialog { width: 84; max-height: 90%; }
        VerticalScroll { height: auto; max-height: 100%; scrollbar-size-vertical: 1; }
        VerticalScroll > Static { height: auto; }
    }
    """
    LISTENS_AT_ONCE = True

    def __init__(self, title: str, lines: Sequence[Content], nothing: str) -> None:
        super().__init__()
        self._title = title
        self.lines = lines or [Content.styled(nothing, "$text-muted")]

    def title_text(self) -> str:
        return self._title

    def content(self) -> ComposeResult:
        yield VerticalScroll(Static(Content("\n").join(self.lines), markup=False))
        yield hint("↑ ↓ scroll · Esc leaves")

    def first_focus(self) -> Widget:
        return self.query_one(VerticalScroll)

    def action_lines(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

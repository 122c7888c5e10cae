"""Dialogs with a scrollable list, with and without a question."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from tui.widgets.dialog import Confirm, Dialog, hint

BESIDES, BESIDES_SHORT = 16, 12  # lines of the dialog without the list


class ListingConfirm(Confirm):
    """A confirmation with lines that ↑ and ↓ scroll. The caller must make the lines safe."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "lines(-1)", show=False, priority=True),
        Binding("down,j", "lines(1)", show=False, priority=True),
        Binding("pageup", "lines(-8)", show=False, priority=True),
        Binding("pagedown", "lines(8)", show=False, priority=True),
    ]
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]  # noqa: RUF012  (declared on the base class)
    DEFAULT_CSS = """
    ListingConfirm {
        & > .dialog { width: 84; }
        VerticalScroll { height: auto; margin-top: 1; scrollbar-size-vertical: 1; }
        VerticalScroll > Static { height: auto; }
        &.-cut VerticalScroll > Static { text-wrap: nowrap; text-overflow: ellipsis; }
        &.-short > .dialog { padding: 0 2; }
        &.-short .dialog--hint { margin-top: 0; }
        &.-short Button { border: none !important; height: 1; }
        &.-short .dialog--buttons { height: 1; }
    }
    """

    def __init__(
        self,
        question: str,
        facts: list[tuple[str, str]],
        lines: Sequence[Content],
        *,
        yes: str,
        destructive: bool = True,
        wrap: bool = True,
    ) -> None:
        """`wrap` continues long lines below; otherwise they are cut."""
        super().__init__(question, facts, yes=yes, destructive=destructive)
        self.lines = lines
        self.set_class(not wrap, "-cut")

    @property
    def more_keys(self) -> str:
        return " · ↑ ↓ scroll" if len(self.lines) > self._room() else ""

    def particulars(self) -> ComposeResult:
        if self.lines:
            listing = VerticalScroll(Static(Content("\n").join(self.lines), markup=False))
            listing.can_focus = False
            listing.styles.max_height = self._room()
            yield listing

    def on_resize(self) -> None:
        for listing in self.query(VerticalScroll):
            listing.styles.max_height = self._room()

    def _room(self) -> int:
        height, width = self.app.size.height, min(84, self.app.size.width) - 22
        facts = sum(1 + len(value) // max(1, width) for _, value in self.facts)
        return max(2, height - (BESIDES if height >= 30 else BESIDES_SHORT) - facts + 4)

    def action_lines(self, lines: int) -> None:
        for listing in self.query(VerticalScroll):
            listing.scroll_relative(y=lines, animate=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action == "lines" or super().check_action(action, parameters)


class Listing(Dialog[None]):
    """A dialog with lines, which the caller must make safe. Esc, Enter and q close it."""

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
        yield hint("↑ ↓ scroll · Esc close")

    def first_focus(self) -> Widget:
        return self.query_one(VerticalScroll)

    def action_lines(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

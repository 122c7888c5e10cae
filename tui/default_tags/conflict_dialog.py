"""Dialog to merge or overwrite if the stored set of a draft has changed."""

from collections.abc import Sequence
from typing import ClassVar, Literal

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, Static

from client.text import safe
from tui.widgets.dialog import Dialog, hint

Way = Literal["merge", "overwrite"]


class TagConflict(Dialog[Way | None]):
    """Returns `merge` or `overwrite`. Esc and the focused button return None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "decide('merge')", show=False),
        Binding("o", "decide('overwrite')", show=False),
        Binding("up,k", "lines(-1)", show=False, priority=True),
        Binding("down,j", "lines(1)", show=False, priority=True),
        Binding("left,h", "app.focus_previous", show=False),
        Binding("right,l", "app.focus_next", show=False),
    ]
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]  # noqa: RUF012  (declared on the base class)
    DEFAULT_CSS = """
    TagConflict {
        & > .dialog { width: 84; border: round $warning; }
        VerticalScroll { height: auto; max-height: 14; scrollbar-size-vertical: 1; }
        VerticalScroll > Static { height: auto; }
        &.-short > .dialog { padding: 0 2; }
        &.-short VerticalScroll { max-height: 11; }
        &.-short .dialog--hint { margin-top: 0; }
        &.-short Button { border: none !important; height: 1; }
        &.-short .dialog--buttons { height: 1; }
    }
    """

    def __init__(self, summary: str, theirs: Sequence[Content], ours: Sequence[Content]) -> None:
        """`summary` describes the newer version. The two lists are the changes since the base of the draft."""
        super().__init__()
        self.summary = summary
        self.theirs, self.ours = theirs, ours

    def title_text(self) -> str:
        return "Another version was stored"

    def content(self) -> ComposeResult:
        nothing = [Content.styled("  nothing", "$text-muted")]
        lines = [
            Content.styled("What they changed", "bold $text-accent"),
            *(self.theirs or nothing),
            Content.styled("What you changed", "bold $text-accent"),
            *(self.ours or nothing),
        ]
        yield Static(Content(safe(self.summary)), markup=False)
        listing = VerticalScroll(Static(Content("\n").join(lines), markup=False))
        listing.can_focus = False
        yield listing
        yield Horizontal(
            Button("Leave it", id="leave"),
            Button("Merge", id="merge", variant="primary"),
            Button("Overwrite", id="overwrite", variant="error"),
            classes="dialog--buttons",
        )
        yield hint("m lays yours over theirs · o writes yours as it is · Esc keeps the draft; either is shown first")

    def first_focus(self) -> Widget:
        return self.query_one("#leave", Button)

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        if event.button.id in ("merge", "overwrite"):
            self.action_decide("merge" if event.button.id == "merge" else "overwrite")
        else:
            self.dismiss(None)

    def action_decide(self, way: Way) -> None:
        self.dismiss(way)

    def action_lines(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action == "lines" or super().check_action(action, parameters)

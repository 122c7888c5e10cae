"""Dialog for the rotation of a key."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid, Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, Static

from client.errors import FrostError
from client.text import safe
from tui.account.key_form import EXPIRIES, YEAR, form_problem
from tui.account.key_inputs import ChoiceLine, Until
from tui.widgets.dialog import Sending, Waiting, hint
from tui.widgets.lines import LineInput

if TYPE_CHECKING:
    from client.models.account import RotatedKey

OVERLAPS = (
    ("now", timedelta()),
    ("1 h", timedelta(hours=1)),
    ("24 h", timedelta(hours=24)),
    ("7 d", timedelta(days=7)),
)
DAY = 2
"""Index of the default overlap, which is that of the command."""
AT_ONCE = "revoked now: clients fail until they use the new key"


class Times(NamedTuple):
    """Expiry of the new key and end of the old one; None revokes the old one immediately."""

    expires_at: datetime
    retires_at: datetime | None


ROTATING = Waiting(
    "Waiting for the platform …",
    "The response has the secret of the new key. Press Esc again to close without it.",
    "Closed before the response: the new key may exist, but its secret was not shown. If it exists, delete it",
)


class Rotation(Sending[Times, "RotatedKey"]):
    """A refused request changes neither key."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", "Rotate", show=False, priority=True),
        Binding("up", "app.focus_previous", show=False),
        Binding("down", "app.focus_next", show=False),
    ]
    DEFAULT_CSS = """
    Rotation {
        & > .dialog { width: 84; overflow-y: auto; scrollbar-size-vertical: 1; }
        .rotation--facts { grid-size: 2; grid-columns: 11 1fr; grid-gutter: 0 2; grid-rows: auto; height: auto; }
        .rotation--label { color: $text-muted; }
        Until { margin-top: 1; }
        .rotation--problem { color: $text-error; height: auto; min-height: 1; margin-top: 1; }
        .rotation--problem.-waiting { color: $text-muted; }
        .dialog--hint { margin-top: 0; }
    }
    """

    def __init__(
        self,
        title: str,
        facts: Sequence[tuple[str, str]],
        ends: datetime | None,
        send: "Callable[[Times], Awaitable[RotatedKey]]",
    ) -> None:
        """`ends` is the expiry of the old key."""
        super().__init__(send, ROTATING)
        self._title, self._facts, self._ends = title, facts, ends

    def title_text(self) -> str:
        return self._title

    def content(self) -> ComposeResult:
        lines = []
        for name, value in self._facts:
            lines.append(Static(name, classes="rotation--label", markup=False))
            lines.append(Static(Content(safe(value)), markup=False))
        yield Grid(*lines, classes="rotation--facts")
        yield Until("New key ends", EXPIRIES, YEAR, id="until-new")
        yield Until("Old key ends", OVERLAPS, DAY, at_once=AT_ONCE, latest=self._ends, id="until-old")
        yield Static("", classes="rotation--problem", markup=False)
        yield Horizontal(
            Button("Cancel", id="cancel"), Button("Rotate", id="save", variant="primary"), classes="dialog--buttons"
        )
        yield hint("← → change expiry · Tab next field · Enter rotate · Esc cancel")

    def first_focus(self) -> Widget:
        return self.query_one("#until-old", Until).line

    def show_note(self, text: str) -> None:
        self._put(text, waiting=True)

    def _put(self, text: str, *, waiting: bool = False) -> None:
        line = self.query_one(".rotation--problem", Static)
        line.set_class(waiting, "-waiting")
        line.update(Content(safe(text)))

    def show_refusal(self, error: FrostError) -> None:
        self._put(form_problem(error).message)

    @on(Until.Changed)
    def _changed(self) -> None:
        if not self.sending:
            self._put("")

    async def action_save(self) -> None:
        new, old = self.query_one("#until-new", Until), self.query_one("#until-old", Until)
        for until in (new, old):
            if until.problem:
                self._put("" if until.shows_problem else until.problem)
                until.take_focus()
                return
        assert new.moment is not None  # no choice of EXPIRIES is immediate
        self.deliver(Times(new.moment, old.moment))

    @on(ChoiceLine.Submitted)
    @on(LineInput.Submitted)
    async def _submitted(self) -> None:
        await self.action_save()

    @on(Button.Pressed, "#save")
    async def _pressed(self) -> None:
        await self.action_save()

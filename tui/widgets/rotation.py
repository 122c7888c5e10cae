"""Rotating a key as one step: what the new one gets, until when both work, and what ends then."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid, Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, Static

from client.errors import FrostError
from client.text import safe
from tui.key_refusals import problem
from tui.widgets.dialog import Dialog, hint
from tui.widgets.key_form import EXPIRIES, YEAR
from tui.widgets.line_input import LineInput
from tui.widgets.until import Until

OVERLAPS = (
    ("now", timedelta()),
    ("1 h", timedelta(hours=1)),
    ("24 h", timedelta(hours=24)),
    ("7 d", timedelta(days=7)),
)
DAY = 2
"""The place of the overlap that the command takes as well where nothing is said."""
AT_ONCE = "revoked right away: what uses it fails until it is changed"


class Times(NamedTuple):
    """When the new key expires, and when the old one does; None: it is revoked at once."""

    expires_at: datetime
    retires_at: datetime | None


class Rotation(Dialog[Any]):
    """Gives what `send` answered, or None when it was left; a refusal stands in it and leaves everything as it was."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", "Rotate", show=False, priority=True),
        Binding("up", "app.focus_previous", show=False),
        Binding("down", "app.focus_next", show=False),
    ]
    DEFAULT_CSS = """
    Rotation {
        & > .dialog { width: 84; overflow-y: auto; scrollbar-size-vertical: 1; }
        .rotation--facts { grid-size: 2; grid-columns: 12 1fr; grid-gutter: 0 2; grid-rows: auto; height: auto; }
        .rotation--label { color: $text-muted; }
        Until { margin-top: 1; }
        .rotation--problem { color: $text-error; height: auto; min-height: 1; margin-top: 1; }
        .dialog--hint { margin-top: 0; }
    }
    """

    def __init__(
        self,
        title: str,
        facts: Sequence[tuple[str, str]],
        ends: datetime | None,
        send: Callable[[Times], Awaitable[Any]],
    ) -> None:
        """`ends` is when the old key expires by itself."""
        super().__init__()
        self._title, self._facts, self._ends, self._send = title, facts, ends, send
        self._sending = False

    def title_text(self) -> str:
        return self._title

    def content(self) -> ComposeResult:
        lines = []
        for name, value in self._facts:
            lines.append(Static(name, classes="rotation--label", markup=False))
            lines.append(Static(Content(safe(value)), markup=False))
        yield Grid(*lines, classes="rotation--facts")
        yield Until("The new one", EXPIRIES, YEAR, id="until-new")
        yield Until("The old one", OVERLAPS, DAY, at_once=AT_ONCE, latest=self._ends, id="until-old")
        yield Static("", classes="rotation--problem", markup=False)
        yield Horizontal(
            Button("Cancel", id="cancel"), Button("Rotate", id="save", variant="primary"), classes="dialog--buttons"
        )
        yield hint("← → choose when each one ends · Tab next · ^s rotates · Esc cancels")

    def first_focus(self) -> Widget:
        return self.query_one("#until-old", Until).line

    def _say(self, words: str) -> None:
        self.query_one(".rotation--problem", Static).update(Content(safe(words)))

    @on(Until.Changed)
    def _changed(self) -> None:
        self._say("")

    async def action_save(self) -> None:
        new, old = self.query_one("#until-new", Until), self.query_one("#until-old", Until)
        for until in (new, old):
            if until.problem:
                self._say(until.problem)
                until.take_focus()
                return
        if not self._sending:
            self._sending = True
            assert new.moment is not None  # none of its choices is at once
            self.app.run_worker(self._deliver(Times(new.moment, old.moment)), group="send key", exit_on_error=False)

    async def _deliver(self, times: Times) -> None:
        try:
            answer = await self._send(times)
        except FrostError as error:
            self._say(problem(error).words)
        else:
            self.dismiss(answer)
        finally:
            self._sending = False

    @on(LineInput.Submitted)
    async def _submitted(self) -> None:
        await self.action_save()

    @on(Button.Pressed)
    async def _pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "save":
            await self.action_save()
        else:
            self.dismiss(None)

    def action_cancel(self) -> None:
        if not self._sending:  # a key that is made must not come without anybody seeing its secret
            self.dismiss(None)

"""Inputs of the forms for API keys: a choice on one line, and an expiry as a duration or a date."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Input, Static

from client import times
from client.errors import FrostError
from client.tables.columns import format_remaining
from client.text import safe, width
from client.time_zone import unknown_zone_notice
from tui.widgets.lines import LineInput

GAP = 2  # cells between choices
SIGNS = ("○ ", "● ")


class ChoiceLine(Widget, can_focus=True):
    """`chosen` is the index of the selected choice."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "choose(-1)", "Before", show=False),
        Binding("right,l,space", "choose(1)", "Next", show=False),
        Binding("enter", "submit", "Submit", show=False),
    ]
    DEFAULT_CSS = """
    ChoiceLine { height: 1; width: auto; }
    ChoiceLine:focus { text-style: bold; }
    """

    chosen: reactive[int] = reactive(0)

    class Changed(Message):
        """The selection has changed."""

    class Submitted(Message):
        """Enter was pressed."""

    def __init__(self, choices: Sequence[str], chosen: int = 0) -> None:
        super().__init__()
        self._choices = [safe(choice) for choice in choices]
        self.set_reactive(ChoiceLine.chosen, chosen)

    def render(self) -> Content:
        return Content(" " * GAP).join(self._part(index) for index in range(len(self._choices)))

    def _part(self, index: int) -> Content:
        here = index == self.chosen
        tone = ("reverse" if self.has_focus else "bold $text-accent") if here else "$foreground"
        return Content.styled(SIGNS[here] + self._choices[index], tone)

    def watch_chosen(self) -> None:
        self.post_message(self.Changed())

    def validate_chosen(self, index: int) -> int:
        return max(0, min(index, len(self._choices) - 1))

    def action_choose(self, by: int) -> None:
        self.chosen += by

    def action_submit(self) -> None:
        self.post_message(self.Submitted())

    def on_click(self, event: events.Click) -> None:
        left = 0
        for index, choice in enumerate(self._choices):
            right = left + width(SIGNS[0] + choice)
            if left <= event.x < right:
                self.chosen = index
            left = right + GAP


TYPED = "until"
DATE_HELP = "YYYY-MM-DD (end of the day, local time) or RFC 3339"
DAY = "2027-01-31"
MISSING = "enter a date (YYYY-MM-DD) or an RFC 3339 timestamp"


class Until(Vertical):
    """Choices are pairs of label and duration. The last choice is a date, until its end in local time, or a timestamp.

    Durations begin when the input is created, so that the time shown is the time sent.
    """

    DEFAULT_CSS = """
    Until {
        height: 2;
        .until--row { height: 1; }
        .until--label { width: 13; color: $text-muted; }
        .until--text { height: 1; margin-left: 13; color: $text-muted; }
        .until--text.-problem { color: $text-error; }
        LineInput { margin-left: 1; display: none; }
        &.-typed LineInput { display: block; }
    }
    """

    class Changed(Message):
        """The time has changed, or the text is not a valid time."""

    def __init__(
        self,
        label: str,
        choices: Sequence[tuple[str, timedelta]],
        chosen: int,
        *,
        at_once: str = "",
        latest: datetime | None = None,
        id: str | None = None,
    ) -> None:
        """Create the input.

        Args:
            label: Label of the line.
            choices: Labels and durations. A duration of 0 means immediately.
            chosen: Index of the initial choice.
            at_once: Text shown for immediately.
            latest: Time of an expiry that applies if it is earlier.
            id: Id of the widget.
        """
        super().__init__(id=id)
        self.now = times.now().replace(microsecond=0)
        self._label, self._choices, self._first = label, choices, chosen
        self._at_once, self._latest = at_once, latest

    def compose(self) -> ComposeResult:
        with Horizontal(classes="until--row"):
            yield Static(self._label, classes="until--label", markup=False)
            yield ChoiceLine([*(label for label, _ in self._choices), TYPED], self._first)
            yield LineInput(placeholder=DAY)
        yield Static("", classes="until--text", markup=False)

    def on_mount(self) -> None:
        self._show()

    @property
    def line(self) -> ChoiceLine:
        """The choices."""
        return self.query_one(ChoiceLine)

    @property
    def problem(self) -> str:
        """Reason why there is no valid time; empty if there is one."""
        try:
            _ = self.moment
        except FrostError as error:
            if limit := (error.details or {}).get("limit"):
                return f"the entry {limit}"
            typed = self.query_one(LineInput).value.strip()
            return "not a date (YYYY-MM-DD) or an RFC 3339 timestamp" if typed else MISSING
        return ""

    @property
    def shows_problem(self) -> bool:
        """Whether the line below the choices has the problem. It has a help text until the user enters a date."""
        return bool(self.problem) and bool(self.query_one(LineInput).value)

    @property
    def moment(self) -> datetime | None:
        """The time, or None for immediately.

        Raises:
            FrostError: The text is not a valid time.
        """
        index = self.line.chosen
        if index == len(self._choices):
            return times.instant(self.query_one(LineInput).value.strip(), TYPED)
        away = self._choices[index][1]
        return self.now + away if away else None

    def take_focus(self) -> None:
        """Focus the date if it is displayed, otherwise the choices."""
        (self.query_one(LineInput) if self.has_class("-typed") else self.line).focus()

    def on_key(self, event: events.Key) -> None:
        """Take a digit on the choices as the beginning of a date."""
        if self.line.has_focus and event.character is not None and event.character.isdecimal():
            event.stop()
            self.line.chosen = len(self._choices)
            entry = self.query_one(LineInput)
            entry.value = event.character
            entry.cursor_position = 1
            self.call_after_refresh(self.take_focus)

    @on(ChoiceLine.Changed)
    def _chosen(self, event: ChoiceLine.Changed) -> None:
        event.stop()
        typed = self.line.chosen == len(self._choices)
        self.set_class(typed, "-typed")
        self._show()
        self.post_message(self.Changed())

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._show()
        self.post_message(self.Changed())

    def _show(self) -> None:
        problem = self.problem
        line = self.query_one(".until--text", Static)
        line.set_class(self.shows_problem, "-problem")
        line.update(Content(safe(DATE_HELP if problem == MISSING else problem or self._describe(self.moment))))

    def _describe(self, moment: datetime | None) -> str:
        if moment is None:
            return self._at_once
        if self._latest is not None and moment >= self._latest:
            return f"{_exact(self._latest)}: the key's own expiry is earlier"
        away = f"in {format_remaining(moment - self.now)}" if moment > self.now else "in the past"
        return f"{_exact(moment)}, {away}{_here(moment)}"


def _exact(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%SZ}"


def _here(moment: datetime) -> str:
    """Return the local time, or why it is UTC; empty if it is the same as UTC."""
    local = moment.astimezone()
    if local.utcoffset():
        return f" · {local:%Y-%m-%d %H:%M} local time"
    notice = unknown_zone_notice()
    return f" · {notice}" if notice else ""

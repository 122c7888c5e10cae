"""An instant chosen by how far away it is, or typed: the exact one stands below, always."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from client import clock, expiry
from client.errors import FrostError
from client.text import safe
from tui.key_table import left_words
from tui.widgets.choice_line import ChoiceLine
from tui.widgets.line_input import LineInput

TYPED = "until"
WANTED = "a day (to its end here), or 2027-01-31T12:00:00Z and the like"
DAY = "2027-01-31"
MISSING = "no instant yet: a day (YYYY-MM-DD) or an RFC 3339 timestamp"


class Until(Vertical):
    """Choices are (words, time from now); one more takes a date, which means the end of that day here, or an instant.

    Now is when it was opened, so that what is read on it is what is sent.
    """

    DEFAULT_CSS = """
    Until {
        height: 2;
        .until--row { height: 1; }
        .until--label { width: 13; color: $text-muted; }
        .until--words { height: 1; margin-left: 13; color: $text-muted; }
        .until--words.-problem { color: $text-error; }
        LineInput { margin-left: 1; display: none; }
        &.-typed LineInput { display: block; }
    }
    """

    class Changed(Message):
        """Another instant, or something that is none."""

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
        """
        Args:
            label: What ends then.
            choices: Words and how far away; no time at all means at once.
            chosen: The place of the first choice.
            at_once: What is said where it is at once.
            latest: An instant that comes first in any case.
            id: The widget's id.
        """
        super().__init__(id=id)
        self.now = clock.now().replace(microsecond=0)
        self._label, self._choices, self._first = label, choices, chosen
        self._at_once, self._latest = at_once, latest

    def compose(self) -> ComposeResult:
        with Horizontal(classes="until--row"):
            yield Static(self._label, classes="until--label", markup=False)
            yield ChoiceLine([*(words for words, _ in self._choices), TYPED], self._first)
            yield LineInput(placeholder=DAY)
        yield Static("", classes="until--words", markup=False)

    def on_mount(self) -> None:
        self._say()

    @property
    def line(self) -> ChoiceLine:
        """The choices."""
        return self.query_one(ChoiceLine)

    @property
    def problem(self) -> str:
        """Why there is no instant; empty when there is one."""
        try:
            _ = self.moment
        except FrostError:
            typed = self.query_one(LineInput).value.strip()
            return "neither a day (YYYY-MM-DD) nor an RFC 3339 timestamp" if typed else MISSING
        return ""

    @property
    def moment(self) -> datetime | None:
        """The instant, None for at once.

        Raises:
            FrostError: What was typed is none.
        """
        place = self.line.chosen
        if place == len(self._choices):
            return expiry.instant(self.query_one(LineInput).value.strip(), TYPED)
        away = self._choices[place][1]
        return self.now + away if away else None

    def take_focus(self) -> None:
        """Stand where the mistake is."""
        (self.query_one(LineInput) if self.has_class("-typed") else self.line).focus()

    @on(ChoiceLine.Changed)
    def _chosen(self, event: ChoiceLine.Changed) -> None:
        event.stop()
        typed = self.line.chosen == len(self._choices)
        self.set_class(typed, "-typed")
        self._say()
        self.post_message(self.Changed())

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._say()
        self.post_message(self.Changed())

    def _say(self) -> None:
        words = self.problem
        line = self.query_one(".until--words", Static)
        line.set_class(bool(words) and bool(self.query_one(LineInput).value), "-problem")
        line.update(Content(safe(WANTED if words == MISSING else words or self._words(self.moment))))

    def _words(self, moment: datetime | None) -> str:
        if moment is None:
            return self._at_once
        if self._latest is not None and moment >= self._latest:
            return f"{_exact(self._latest)}: its own expiry comes first"
        away = f"in {left_words(moment - self.now)}" if moment > self.now else "that is over"
        return f"{_exact(moment)}, {away}{_here(moment)}"


def _exact(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%SZ}"


def _here(moment: datetime) -> str:
    """What the clock on the wall says then, where that is another time."""
    local = moment.astimezone()
    return f" · {local:%Y-%m-%d %H:%M} here" if local.utcoffset() else ""

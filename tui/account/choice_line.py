"""A choice on one line: ← and → or a click select, Enter submits.

The selected choice has a sign in addition to its colour.
"""

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from client.text import safe, width

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

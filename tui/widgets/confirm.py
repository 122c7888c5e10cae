"""Confirmation of irreversible actions.

A simple one is answered by y/n or buttons. A strict one requires the name to be typed. Reversible actions are not
confirmed; they can be undone.
"""

from collections.abc import Iterator
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid, Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, Input, Static

from client.text import mixed_scripts, safe
from tui.widgets.dialog import Dialog, hint


class Confirm(Dialog[bool]):
    """Returns True only for an explicit yes. If the action is destructive, No has the focus.

    `facts` are (label, value) lines: the resource with its id, the tenant and the effect. With `typed`, the yes button
    is disabled until the input equals that word.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes", show=False),
        Binding("n", "answer(False)", "No", show=False),
        Binding("left,h", "app.focus_previous", show=False),
        Binding("right,l", "app.focus_next", show=False),
    ]

    DEFAULT_CSS = """
    Confirm {
        .confirm--facts { grid-size: 2; grid-columns: auto 1fr; grid-gutter: 0 2; grid-rows: auto; height: auto; }
        .confirm--label { width: auto; color: $text-muted; }
        .confirm--asked.-wrong { color: $text-error; }
    }
    """

    def __init__(
        self,
        question: str,
        facts: list[tuple[str, str]],
        *,
        yes: str = "Yes",
        typed: str | None = None,
        destructive: bool = True,
    ) -> None:
        super().__init__()
        self.question = question
        self.facts = facts
        self.yes = yes
        self.typed = typed
        self.set_class(destructive, "-destructive")

    def title_text(self) -> str:
        return self.question

    def content(self) -> ComposeResult:
        yield Grid(*self._facts(), classes="confirm--facts")
        yield from self.particulars()
        if any(mixed_scripts(value) for _, value in self.facts):
            yield hint("A name mixes letters of different scripts: compare the id.")
        if self.typed is not None:
            instruction = hint(self._instruction)
            instruction.add_class("confirm--asked")
            yield instruction
            typing = Input()
            typing.cursor_blink = False
            yield typing
        yes = Button(self.yes, id="yes", variant="error" if self.has_class("-destructive") else "primary")
        yes.disabled = self.typed is not None
        yield Horizontal(Button("No", id="no"), yes, classes="dialog--buttons")
        yield hint("Tab next · Esc No" if self.typed else f"y {self.yes} · n or Esc No{self.more_keys}")

    @property
    def more_keys(self) -> str:
        """Further keys for the hint."""
        return ""

    def particulars(self) -> ComposeResult:
        """Yield widgets below the facts."""
        yield from ()

    def _facts(self) -> Iterator[Static]:
        """Yield labels and values in two columns, so that a long value wraps within its column."""
        for name, value in self.facts:
            yield Static(name, classes="confirm--label", markup=False)
            yield Static(Content(safe(value)), markup=False)

    def first_focus(self) -> Widget:
        if self.typed is not None:
            return self.query_one(Input)
        return self.query_one("#no" if self.has_class("-destructive") else "#yes", Button)

    @property
    def _instruction(self) -> str:
        return f"Type {safe(self.typed or '')} to confirm"

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self.query_one("#yes", Button).disabled = event.value != self.typed
        self._say(self._instruction)

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        """Move the focus to the yes button, or show that the input differs. Enter alone never confirms."""
        if event.value == self.typed:
            self.set_focus(self.query_one("#yes", Button))
        else:
            self._say(f"Does not match: type {safe(self.typed or '')}", wrong=True)

    def _say(self, text: str, *, wrong: bool = False) -> None:
        line = self.query_one(".confirm--asked", Static)
        line.set_class(wrong, "-wrong")
        line.update(Content(text))

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        # y is not enough if the name must be typed.
        if action == "answer" and self.typed is not None:
            return False
        return super().check_action(action, parameters)

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)

    def action_cancel(self) -> None:
        self.dismiss(False)

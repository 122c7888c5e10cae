"""Questions before an action that cannot be taken back: the object, the tenant, the effect, default No.

design: Screens. Two grades: a plain question answered by y/n or buttons, and a wide one that wants the
name typed. Reversible actions never ask; they act and offer an undo.
"""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Button, Input

from client.text import mixed_scripts, safe
from tui.widgets.dialog import Dialog, hint, lines


class Confirm(Dialog[bool]):
    """Answers True only for a deliberate yes; Esc, n, Enter on the focused button all mean no.

    `facts` are (label, value) lines that name the object with its id, the tenant and the effect
    (checklist I04). With `typed` the yes button stays disabled until exactly that word was typed.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes", show=False),
        Binding("n", "answer(False)", "No", show=False),
        Binding("left,h", "app.focus_previous", show=False),
        Binding("right,l", "app.focus_next", show=False),
    ]

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
        label = max((len(name) for name, _ in self.facts), default=0)
        yield lines(*(f"{name:<{label}}  {value}" for name, value in self.facts))
        if any(mixed_scripts(value) for _, value in self.facts):
            yield hint("A name mixes letters of different scripts: compare the id.")
        if self.typed is not None:
            yield hint(f"Type {safe(self.typed)} to go on")
            typing = Input(placeholder=safe(self.typed))
            typing.cursor_blink = False
            yield typing
        with Horizontal(classes="dialog--buttons") as row:
            yes = Button(self.yes, id="yes", variant="error" if self.has_class("-destructive") else "primary")
            yes.disabled = self.typed is not None
            row.compose_add_child(Button("No", id="no"))
            row.compose_add_child(yes)
        yield row
        yield hint("Tab moves · Esc or n answers No" if self.typed else "y Yes · n or Esc No")

    def first_focus(self) -> Widget:
        if self.typed is not None:
            return self.query_one(Input)
        return self.query_one("#no" if self.has_class("-destructive") else "#yes", Button)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self.query_one("#yes", Button).disabled = event.value != self.typed

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        # y on its own is never enough where the name has to be typed.
        if action == "answer" and self.typed is not None:
            return False
        return super().check_action(action, parameters)

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)

    def action_cancel(self) -> None:
        self.dismiss(False)

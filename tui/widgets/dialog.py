"""Dialogs: the frame, confirmations, and forms that wait for a response.

A key typed while the dialog opens was meant for the screen behind it. A dialog therefore has no focus and ignores keys,
except Esc, until the queue of keys lets it listen (tui/terminal/textual_patches.py).

Only irreversible actions are confirmed, by y/n or buttons or, if strict, by the typed name. Others can be undone.
"""

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import ClassVar, Generic, NamedTuple, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid, Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Button, Input, Static
from textual.worker import Worker

from client.errors import FrostError
from client.text import mixed_scripts, safe
from tui.state import contexts
from tui.terminal.textual_patches import LaysOutOnce, PatchedApp

Result = TypeVar("Result")
Draft = TypeVar("Draft")

LIST_SHARE = 0.6
"""Share of a large terminal that a dialog with a list uses, in width and height."""
MAX_LIST_CELLS = 140


class Dialog(LaysOutOnce, ModalScreen[Result]):
    """A framed box in the middle of the screen. `dismiss` passes a value to the caller."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Cancel", show=False)]

    DEFAULT_CSS = """
    Dialog {
        align: center middle;
        background: $background 60%;
        & > .dialog {
            width: 64; max-width: 100%;
            height: auto; max-height: 100%;
            padding: 1 2;
            background: $surface;
            border: round $primary;
            border-title-color: $foreground;
            border-title-style: bold;
            border-subtitle-color: $text-muted;
        }
        &.-destructive > .dialog { border: round $error; }
        .dialog--hint { color: $text-muted; margin-top: 1; }
        .dialog--buttons { height: auto; margin-top: 1; align-horizontal: right; }
        .dialog--buttons Button { margin-left: 2; min-width: 10; }
    }
    """

    # Without focus, no widget receives keys until the dialog listens.
    AUTO_FOCUS = ""
    LISTENS_AT_ONCE: ClassVar[bool] = False
    """True for forms, where early keys do no harm."""
    MIN_CELLS: ClassVar[int] = 0
    """Least width of a dialog that grows with a wide terminal; 0 for a fixed width (CSS)."""

    def compose(self) -> ComposeResult:
        box = Vertical(*self.content(), classes="dialog")
        box.border_title = Content(safe(self.title_text()))
        if self.MIN_CELLS:
            box.styles.width = self.cells
        yield box

    listening = False
    _late_result: tuple[Result] | None = None

    def __init__(self) -> None:
        super().__init__()
        self._action = contexts.current_action()

    def run_in_action(self, work: Callable[[], Awaitable[None]], group: str) -> Worker[None]:
        """Run work in the background, as part of the action that opened the dialog."""
        return self.app.run_worker(partial(contexts.run_as, self._action, work), group=group, exit_on_error=False)

    def close_with(self, result: Result) -> None:
        """Dismiss the dialog; below another one, as soon as that one is closed. `dismiss` would close the other one."""
        if self.is_active:
            self.dismiss(result)
        else:
            self._late_result = (result,)

    @on(events.ScreenResume)
    def _close_late(self) -> None:
        if self._late_result is not None:
            self.dismiss(self._late_result[0])

    def content(self) -> ComposeResult:
        """Yield the widgets inside the frame."""
        yield from ()

    def title_text(self) -> str:
        """Return the title of the frame."""
        return ""

    def first_focus(self) -> Widget | None:
        """Return the widget to focus once the dialog listens; in a confirmation, the safe answer."""
        return None

    @property
    def cells(self) -> int:
        """Return the width of a dialog that grows: `LIST_SHARE` of the terminal, within limits."""
        columns = self.app.size.width
        return min(columns, max(self.MIN_CELLS, min(round(columns * LIST_SHARE), MAX_LIST_CELLS)))

    def list_rows(self, at_least: int) -> int:
        """Return the most lines of a list: `at_least`, or `LIST_SHARE` of a tall terminal."""
        return max(at_least, round(self.app.size.height * LIST_SHARE))

    def on_resize(self) -> None:
        if self.MIN_CELLS:
            self.query_one(".dialog").styles.width = self.cells

    def on_mount(self) -> None:
        if self.LISTENS_AT_ONCE:
            self._listen()
        else:
            assert isinstance(self.app, PatchedApp)
            self.app.type_ahead.open_question(self, self._listen)

    def _listen(self) -> None:
        self.listening = True
        widget = self.first_focus()
        if widget is not None:
            # `focus` would be deferred, and the next keys may be queued already.
            self.set_focus(widget)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.listening or action == "cancel"

    def action_cancel(self) -> None:
        self.dismiss(None)


def hint(text: str) -> Static:
    """Return the hint line at the end of a dialog."""
    return Static(text, classes="dialog--hint", markup=False)


SOON = 0.4
"""Seconds before a pending request is shown. Most responses are faster, which avoids flicker."""


class Waiting(NamedTuple):
    """Texts for a pending request: while waiting, after the first Esc, and after leaving with the second Esc."""

    pending: str
    warned: str
    left: str


class Sending(Dialog[Result | None], Generic[Draft, Result]):
    """Returns the response of `send`, or None if the user left. Errors are shown in the dialog, and the input is not
    lost. The dialog remains open if `send` returns None.

    A response may contain a secret that is shown only once: the first Esc warns, the second closes.
    """

    def __init__(self, send: Callable[[Draft], Awaitable[Result | None]], waiting: Waiting) -> None:
        super().__init__()
        self._send, self._waiting = send, waiting
        self._worker: Worker[None] | None = None
        self._warned = False

    def show_note(self, text: str) -> None:
        """Show a text in the line for problems."""
        raise NotImplementedError

    def show_refusal(self, error: FrostError) -> None:
        """Show an error."""
        raise NotImplementedError

    @property
    def sending(self) -> bool:
        """Whether a response is pending."""
        return self._worker is not None

    def deliver(self, draft: Draft) -> None:
        """Send the input, unless a response is pending."""
        if self._worker is None:
            self._warned = False
            self.show_note("")
            self._worker = self.run_in_action(partial(self._deliver, draft), "send")
            self.set_timer(SOON, self._say_waiting)

    async def _deliver(self, draft: Draft) -> None:
        try:
            answer = await self._send(draft)
        except FrostError as error:
            self._worker = None
            self.show_refusal(error)
        else:
            self.show_note("")
            if answer is not None:
                self.close_with(answer)
        finally:
            self._worker = None

    def _say_waiting(self) -> None:
        if self.sending and not self._warned:
            self.show_note(self._waiting.pending)

    def leave(self) -> None:
        """Close the dialog. While a response is pending, the first call only warns."""
        if self._worker is None:
            self.dismiss(None)
        elif not self._warned:
            self._warned = True
            self.show_note(self._waiting.warned)
        else:
            self._worker.cancel()
            self.app.notify(self._waiting.left, severity="warning", markup=False)
            self.dismiss(None)

    def action_cancel(self) -> None:
        self.leave()

    @on(Button.Pressed, "#cancel")
    def _cancelled(self, event: Button.Pressed) -> None:
        event.stop()
        self.leave()


class Confirm(Dialog[bool]):
    """Returns True only for an explicit yes. If the action is destructive, Cancel has the focus.

    `facts` are (label, value) lines: the resource with its id, the tenant and the effect. With `typed`, the yes button
    is disabled until the input equals that word.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes", show=False),
        Binding("n", "answer(False)", "Cancel", show=False),
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
            yield hint("A name has letters of different scripts: compare the ID.")
        if self.typed is not None:
            instruction = hint(self._instruction)
            instruction.add_class("confirm--asked")
            yield instruction
            typing = Input()
            typing.cursor_blink = False
            yield typing
        yes = Button(self.yes, id="yes", variant="error" if self.has_class("-destructive") else "primary")
        yes.disabled = self.typed is not None
        yield Horizontal(Button("Cancel", id="cancel"), yes, classes="dialog--buttons")
        yield hint("Tab next · Esc cancel" if self.typed else f"y {self.yes.lower()} · n or Esc cancel{self.more_keys}")

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
        return self.query_one("#cancel" if self.has_class("-destructive") else "#yes", Button)

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

    def on_principal_changed(self) -> None:
        """Close the question: its answer would apply to another user or context."""
        self.close_for_principal()

    def close_for_principal(self) -> None:
        """Close the question and report that."""
        reason = "Closed without an answer, because the user or the context changed"
        self.app.notify(f"{reason}: {self.question}", severity="warning", markup=False)
        self.close_with(False)

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)

    def action_cancel(self) -> None:
        self.dismiss(False)

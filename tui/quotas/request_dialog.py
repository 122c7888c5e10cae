"""Form for a quota request. It shows the expected outcome while the limit is typed."""

from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, Input, Static

from client import quota_rules
from client.errors import Exit, FrostError
from client.quota_rules import LONGEST_REASON, Foreseen, normalize_reason, whole_number
from client.text import safe
from tui.widgets.dialog import Result, Sending, Waiting, hint
from tui.widgets.lines import LineInput

SIGNS = {
    quota_rules.AT_ONCE: ("●", "$text-success"),
    quota_rules.LOWER: ("▼", "$text-warning"),
    quota_rules.REVIEW: ("◐", "$text-warning"),
    quota_rules.WAITS: ("◐", "$text-warning"),
    quota_rules.PENDING: ("◐", "$text-error"),
    quota_rules.SAME: ("=", "$text-muted"),
}
REFUSED = ("×", "$text-error")
BUTTONS = {quota_rules.LOWER: "Lower …", quota_rules.REVIEW: "For the organization …"}
OFFER = "; Enter requests a limit for the organization instead"
SENDS = "Request"
LIMIT_HINT = "Enter the new limit, not the increase"
NOT_SENT = "not sent, for the reason below the new limit"
LABEL = 14  # cells of the labels, as in the style sheet


class RequestDraft(NamedTuple):
    """Values of the form, with the expected outcome."""

    limit: int
    reason: str
    outcome: str


Facts = Callable[[], Sequence[tuple[str, str]]]


REQUESTING = Waiting(
    "Waiting for the platform …",
    "No response yet. Press Esc again to close; the limit may still change.",
    "Closed before the response: the request may exist. Check Quota requests",
)


class QuotaForm(Sending[RequestDraft, Result]):
    """Shows the expected outcome of a request, and sends it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", "Send", show=False, priority=True),
        Binding("up", "app.focus_previous", show=False),
        Binding("down", "app.focus_next", show=False),
    ]
    DEFAULT_CSS = """
    QuotaForm {
        & > .dialog { width: 76; padding: 0 2; overflow-y: auto; scrollbar-size-vertical: 1; }
        .quota--facts { height: auto; margin: 1 0; }
        .quota--label { width: 14; color: $text-muted; }
        .quota--row { height: 1; }
        .quota--unit { width: auto; color: $text-muted; margin-left: 1; }
        #field-limit { width: 20; }
        .quota--outcome { height: 2; margin-left: 14; color: $text-muted; }
        .quota--count { height: 1; margin-left: 14; color: $text-muted; }
        .quota--count.-problem { color: $text-error; }
        .quota--problem { height: auto; min-height: 1; max-height: 3; color: $text-error; }
        .quota--problem.-waiting { color: $text-muted; }
        .dialog--buttons { height: 1; margin-top: 0; }
        .dialog--buttons Button { border: none !important; height: 1; }
    }
    """
    LISTENS_AT_ONCE = True

    def __init__(
        self,
        title: str,
        facts: Facts,
        foresee: Callable[[int], Foreseen],
        send: Callable[[RequestDraft], Awaitable[Result | None]],
        *,
        unit: str,
        limit: int | None = None,
        reason: str = "",
    ) -> None:
        """Create the form.

        Args:
            title: The quota and its owner.
            facts: Returns the current figures; `show` calls it again.
            foresee: Returns the expected outcome of a limit.
            send: Sends the request. Returns None if it was not sent.
            unit: Unit of the limit; empty for plain numbers.
            limit: Initial limit.
            reason: Initial reason.
        """
        super().__init__(send, REQUESTING)
        self._title, self._facts, self._foresee = title, facts, foresee
        self._unit, self._limit, self._reason = unit, limit, reason

    def title_text(self) -> str:
        return self._title

    def content(self) -> ComposeResult:
        yield Static("", classes="quota--facts", markup=False)
        yield from self._line("New limit", "limit", "" if self._limit is None else str(self._limit), self._unit)
        yield Static("", classes="quota--outcome", markup=False)
        yield from self._line("Reason", "reason", self._reason, "")
        yield Static("", classes="quota--count", markup=False)
        yield Static("", classes="quota--problem", markup=False)
        yield Horizontal(
            Button("Cancel", id="cancel"), Button(SENDS, id="save", variant="primary"), classes="dialog--buttons"
        )
        yield hint("Enter send · Tab next field · Esc cancel")

    @staticmethod
    def _line(label: str, name: str, value: str, unit: str) -> ComposeResult:
        entry = LineInput(placeholder="purpose" if name == "reason" else "", id=f"field-{name}")
        entry.value = value
        parts: list[Widget] = [Static(label, classes="quota--label", markup=False), entry]
        if unit:
            parts.append(Static(unit, classes="quota--unit", markup=False))
        yield Horizontal(*parts, classes="quota--row")

    def first_focus(self) -> Widget:
        return self._entry("limit")

    def _entry(self, name: str) -> Input:
        return self.query_one(f"#field-{name}", Input)

    def on_mount(self) -> None:
        self.show()

    def show(self) -> None:
        lines = [Content.assemble((f"{name:<{LABEL}}", "$text-muted"), safe(value)) for name, value in self._facts()]
        self.query_one(".quota--facts", Static).update(Content("\n").join(lines))
        self._show_outcome()

    # Display

    def _show_outcome(self) -> None:
        """Show the expected outcome, the label of the button and the length of the reason."""
        text, outcome = self._outcome_text()
        self.query_one(".quota--outcome", Static).update(text)
        button, label = self.query_one("#save", Button), BUTTONS.get(outcome, SENDS)
        if str(button.label) != label:
            button.label = label
            button.refresh(layout=True)  # the label changes the width
        length = len(self._entry("reason").value.strip())
        count = self.query_one(".quota--count", Static)
        count.set_class(length > LONGEST_REASON, "-problem")
        count.update(f"{length} of {LONGEST_REASON} characters")

    def _outcome_text(self) -> tuple[Content, str]:
        typed = self._entry("limit").value.strip()
        try:
            forecast = self._foresee(whole_number(typed))
        except ValueError as problem:
            note = Content.styled(LIMIT_HINT, "$text-muted")
            return Content.assemble((f"{REFUSED[0]} {problem}", REFUSED[1])) if typed else note, ""
        sign, tone = SIGNS.get(forecast.outcome, REFUSED)
        offer = OFFER if forecast.outcome == quota_rules.REVIEW else ""
        return Content.assemble((f"{sign} ", tone), safe(forecast.explanation), offer), forecast.outcome

    def show_note(self, text: str) -> None:
        self._put(text, waiting=True)

    def show_refusal(self, error: FrostError) -> None:
        self._put(refused(error))
        self._show_outcome()

    def _show_problem(self, text: str, field: str) -> None:
        self._put(text)
        self._entry(field).focus()

    def _put(self, text: str, *, waiting: bool = False) -> None:
        line = self.query_one(".quota--problem", Static)
        line.set_class(waiting, "-waiting")
        line.update(Content(safe(text)))

    @on(Input.Changed)
    def _changed(self) -> None:
        if not self.sending:
            self._put("")
        self._show_outcome()

    # Sending

    def _valid_draft(self) -> RequestDraft | None:
        """Return the request. Show a problem and return None if it is invalid or would have no effect."""
        typed = self._entry("limit").value.strip()
        try:
            limit = whole_number(typed)
        except ValueError as problem:
            self._show_problem(NOT_SENT if typed else str(problem), "limit")
            return None
        forecast = self._foresee(limit)
        if forecast.outcome not in quota_rules.SENT and forecast.outcome != quota_rules.REVIEW:
            self._show_problem(NOT_SENT, "limit")
            return None
        try:
            return RequestDraft(limit, normalize_reason(self._entry("reason").value), forecast.outcome)
        except ValueError as problem:
            self._show_problem(str(problem), "reason")
            return None

    def action_save(self) -> None:
        draft = None if self.sending else self._valid_draft()
        if draft is not None:
            self.deliver(draft)

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self.action_save()

    @on(Button.Pressed, "#save")
    def _pressed(self) -> None:
        self.action_save()


def refused(error: FrostError) -> str:
    """Return why a request failed or, without a response, where to see whether it was created."""
    if error.exit_code is Exit.UNREACHABLE:
        return f"{error.message}; the request may exist: check Quota requests"
    return f"{error.message}; {error.hint}" if error.hint else error.message

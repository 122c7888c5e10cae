"""Quota planner: a plan typed as `TYPE=N …`, with its effect on the limits."""

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static
from textual.widgets.input import Selection

from client import quota_rules
from client.quota_rules import Need, Plan, whole_number
from client.tables.columns import Column, Kind, Record, quantity
from client.tables.quotas import amount_text
from client.text import safe
from tui.widgets.dialog import Dialog, hint
from tui.widgets.lines import LineInput
from tui.widgets.record_table import RecordTable

if TYPE_CHECKING:
    from client.models.quotas import Quota

SIGNS = {
    quota_rules.FITS: ("● fits", "good"),
    quota_rules.AT_ONCE: ("▲ request, no review", "warning"),
    quota_rules.REVIEW: ("◐ needs review", "warning"),
    quota_rules.SUPPORT: ("× contact support", "bad"),
    quota_rules.UNKNOWN: ("╱ use unknown", "dim"),
}
TALLEST = 8  # rows shown without scrolling


def _addition_text(record: Record) -> str:
    return amount_text(record.get("wanted"), record.get("unit"))


def _after_text(record: Record) -> str:
    unit = record.get("unit")
    return f"{quantity(record.get('after'), unit).removesuffix(' GB')} of {quantity(record['limit'], unit)}"


_COLUMNS = (
    Column("resourceType", "Type", whole=True),
    Column("wanted", "More", align="right", cell=_addition_text, whole=True),
    Column("after", "After", align="right", cell=_after_text, whole=True),
    Column("answer", "Result", cell=lambda record: SIGNS[record["answer"]][0], whole=True),
)
NEEDS = Kind("quota", "quotas", "resourceType", _COLUMNS, {}, "resourceType")


class InvalidPlan(ValueError):
    """The line is not a valid plan. The message has the reason."""


def parse_plan(line: str, types: Sequence[str]) -> dict[str, int]:
    """Parse a plan such as `instance=10 vcpu=40`. Amounts are in the units of the quotas.

    Raises:
        InvalidPlan: A part is not TYPE=N, has an unknown type, or repeats a type.
    """
    amounts: dict[str, int] = {}
    for word in line.replace(",", " ").split():
        name, equals, number = word.partition("=")
        if name not in types:
            near = get_close_matches(name.casefold(), types, 1)
            raise InvalidPlan(f"unknown type {safe(name, 30)}" + (f"; did you mean {near[0]}?" if near else ""))
        if not equals or not number:
            raise InvalidPlan(f"{name}=N: enter the number to add")
        if name in amounts:
            raise InvalidPlan(f"duplicate type {name}")
        try:
            amounts[name] = whole_number(number)
        except ValueError:
            raise InvalidPlan(f"{name}={safe(number, 20)}: expected a whole number") from None
    return amounts


class QuotaPlanner(Dialog[Need | None]):
    """Returns the need to request, chosen with Enter; None if cancelled."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "choose(-1)", show=False, priority=True),
        Binding("down", "choose(1)", show=False, priority=True),
        Binding("tab", "complete", show=False, priority=True),
    ]
    DEFAULT_CSS = """
    QuotaPlanner {
        & > .dialog { width: 76; padding: 0 2; }
        LineInput { margin: 1 0; }
        .planner--text { height: auto; min-height: 2; max-height: 3; }
        RecordTable { height: 3; margin-bottom: 1; }
    }
    """
    LISTENS_AT_ONCE = True

    def __init__(self, quotas: "Callable[[], Sequence[Quota]]", line: str = "", *, proposed: bool = False) -> None:
        """`proposed`: select the line, so that typing replaces it. A number, End and the right arrow keep it."""
        super().__init__()
        self._quotas, self._line, self._proposed = quotas, line, proposed
        self._plan: Plan | None = None

    def title_text(self) -> str:
        return "Plan"

    def content(self) -> ComposeResult:
        entry = LineInput(placeholder="instance=10 vcpu=40 ram=65536")
        entry.value = self._line
        yield entry
        table: RecordTable[Need] = RecordTable(NEEDS, tones={"answer": lambda record: SIGNS[record["answer"]][1]})
        table.can_focus = False
        yield table
        yield Static("", classes="planner--text", markup=False)
        yield hint("Tab complete · ↑ ↓ choose · Enter request limit · Esc close")

    def first_focus(self) -> Widget:
        return self.query_one(LineInput)

    def on_mount(self) -> None:
        entry = self.query_one(LineInput)
        entry.selection = Selection(0 if self._proposed else len(entry.value), len(entry.value))
        self._evaluate()

    @property
    def types(self) -> Sequence[str]:
        return [quota.resource_type for quota in self._quotas()]

    @on(Input.Changed)
    def _evaluate(self) -> None:
        entry = self.query_one(LineInput)
        if self._proposed and entry.value != self._line:
            self._proposed = False
            if entry.value.isdigit():  # a number for the proposed type
                entry.value = f"{self._line}{entry.value}"
                entry.cursor_position = len(entry.value)
        line = entry.value
        table = self.query_one(RecordTable)
        try:
            additions = parse_plan(line, self.types)
        except InvalidPlan as mistake:
            self._plan = None
            table.show(())
            self._show(str(mistake), "$text-muted")
            return
        plan = quota_rules.what_if([quota.wire() for quota in self._quotas()], additions)
        self._plan = plan
        table.show(plan.needs)
        table.styles.height = min(TALLEST, max(2, len(plan.needs))) + 1
        self._show(verdict(plan), "$foreground")

    def _show(self, text: str, tone: str) -> None:
        self.query_one(".planner--text", Static).update(Content.styled(safe(text), tone))

    @on(RecordTable.Highlighted)
    def _highlighted(self, event: RecordTable.Highlighted) -> None:
        event.stop()

    def action_choose(self, lines: int) -> None:
        self.query_one(RecordTable).action_move(lines)

    def action_complete(self) -> None:
        """Complete the last word to the shortest type that begins with it."""
        entry = self.query_one(LineInput)
        before, blank, word = entry.value.rpartition(" ")
        starting = [name for name in self.types if word and name.startswith(word.casefold())]
        if starting and "=" not in word:
            entry.value = f"{before}{blank}{min(starting, key=len)}="
            entry.cursor_position = len(entry.value)

    @on(Input.Submitted)
    def _submitted(self) -> None:
        """Return the need under the cursor, or else the first need, that can be requested."""
        if self._plan is None or not self._plan.needs:
            return
        index = self.query_one(RecordTable).cursor
        chosen = (self._plan.needs[index], *self._plan.needs)
        short = next((need for need in chosen if need.answer in (quota_rules.AT_ONCE, quota_rules.REVIEW)), None)
        if short is None:
            self._show(f"No limit to request. {verdict(self._plan)}", "$foreground")
        else:
            self.dismiss(short)


def verdict(plan: Plan) -> str:
    if not plan.needs:
        return "Enter types and the number to add; memory in MB."
    short = [need for need in plan.needs if need.answer not in (quota_rules.FITS, quota_rules.UNKNOWN)]
    reasons = "; ".join(_short(need) for need in short)
    if plan.fits is False:
        return f"The plan does not fit: {reasons}."
    unknown = ", ".join(need.resource_type for need in plan.needs if need.answer == quota_rules.UNKNOWN)
    if plan.fits is None:
        return f"The plan may not fit: the use of {unknown} is unknown, and the limit still applies."
    if plan.times is None:
        return "The plan fits."
    return f"The plan fits {plan.times_text}; {plan.first} runs out first."


def _short(need: Need) -> str:
    ways = {
        quota_rules.AT_ONCE: "which you can request without review",
        quota_rules.REVIEW: f"more than the {amount_text(need.requestable, need.unit)} that need no review",
        quota_rules.SUPPORT: "which only support can change",
    }
    amount = amount_text(need.least, need.unit)
    needs = f"at least {amount} (its use is unknown)" if need.after is None else amount
    return f"{need.resource_type} needs {needs}, {ways[need.answer]}"

"""A confirmation that shows the effect of a change: totals, principals, and the operations of each."""

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from client.tables.columns import Column, Kind, Record, fields, number_column
from client.text import safe
from client.texts.effects import CONDITIONAL, Effect, conditional_count
from tui.widgets.confirm import Confirm
from tui.widgets.dialog import hint
from tui.widgets.policy_text import kind_text
from tui.widgets.record_table import RecordTable


def _signed(key: str, sign: str) -> Column:
    number = number_column(key, sign)
    return number._replace(cell=lambda record: f"{sign}{record.get(key):,}" if record.get(key) else "0")


KINDS = {"workload_identity": "identity"}
"""Short names of types, which leave space for the other columns."""
_COLUMNS = (
    Column("name", "Key or identity"),
    Column("type", "Type", cell=lambda record: KINDS.get(str(record.get("type")), kind_text(record))),
    # Words do not fit 80 columns. The effect above explains the signs.
    _signed("gainedCount", "+"),
    _signed("lostCount", "−"),
    Column(
        "under", "~", align="right", cell=lambda record: f"~{count:,}" if (count := conditional_count(record)) else ""
    ),
    Column("status", "State"),
    # The last columns are dropped first on narrow screens. The totals include inert principals as well.
    Column("inert", "Then", cell=lambda record: "inert" if record.get("inert") else ""),
)
FEWEST_OPERATIONS = 4
"""Lines of operations that the shortest screen shows without scrolling."""
EFFECT = Kind("principal", "principals", "id", _COLUMNS, fields(_COLUMNS, name="name"), "name")


class EffectConfirm(Confirm):
    """A `Confirm` with the effect: ↑ ↓ select a principal, PgUp and PgDn scroll its operations."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "whose(-1)", show=False, priority=True),
        Binding("down,j", "whose(1)", show=False, priority=True),
        Binding("pageup", "operations(-1)", show=False, priority=True),
        Binding("pagedown", "operations(1)", show=False, priority=True),
    ]
    VERTICAL_BREAKPOINTS = [(0, "-short"), (34, "-tall")]  # noqa: RUF012  (declared on the base class)
    DEFAULT_CSS = """
    EffectConfirm {
        & > .dialog { width: 84; overflow-y: auto; }
        RecordTable { margin-top: 1; max-height: 7; }
        .effect--operations { height: auto; max-height: 8; margin-top: 1; scrollbar-size-vertical: 1; }
        .effect--operations > Static { height: auto; }
        &.-short > .dialog { padding: 0 2; }
        &.-short RecordTable { max-height: 4; }
        &.-short .effect--operations { max-height: 4; }
        &.-short .dialog--hint { margin-top: 0; }
        &.-short Button { border: none !important; height: 1; }
        &.-short .dialog--buttons { height: 1; }
    }
    """

    def __init__(
        self,
        question: str,
        facts: list[tuple[str, str]],
        effect: Effect,
        *,
        yes: str,
        destructive: bool = False,
    ) -> None:
        refused = [("Refused", effect.refused)] if effect.refused else []
        super().__init__(question, [*facts, ("Effect", effect.summary), *refused], yes=yes, destructive=destructive)
        self.effect = effect

    @property
    def more_keys(self) -> str:
        several, longest = len(self.effect.principals) > 1, max(map(_changed, self.effect.principals), default=0)
        choose = " · ↑ ↓ whose" if several else ""
        return choose + (" · PgDn more operations" if longest > FEWEST_OPERATIONS else "")

    def particulars(self) -> ComposeResult:
        if self.effect.principals:
            table = RecordTable(EFFECT, tones={"status": _tone})
            table.can_focus = False
            table.styles.height = len(self.effect.principals) + 1
            yield table
            scroll = VerticalScroll(Static("", markup=False), classes="effect--operations")
            scroll.can_focus = False
            yield scroll
        if self.effect.note:
            yield hint(safe(self.effect.note))

    def on_mount(self) -> None:
        super().on_mount()
        if self.effect.principals:
            self.query_one(RecordTable).show(self.effect.principals)

    @on(RecordTable.Highlighted)
    def _whose(self, event: RecordTable.Highlighted) -> None:
        event.stop()
        scroll = self.query_one(".effect--operations", VerticalScroll)
        scroll.query_one(Static).update(_operations(event.record or {}))
        scroll.scroll_home(animate=False)

    def action_whose(self, lines: int) -> None:
        if self.effect.principals:
            self.query_one(RecordTable).action_move(lines)

    def action_operations(self, pages: int) -> None:
        if self.effect.principals:
            scroll = self.query_one(".effect--operations", VerticalScroll)
            scroll.scroll_relative(y=pages * max(1, scroll.size.height - 1), animate=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action in ("whose", "operations") or super().check_action(action, parameters)


def _changed(principal: Record) -> int:
    """Return the number of lines that describe a principal's changes."""
    return len(_operations(principal).plain.splitlines())


def _tone(principal: Record) -> str | None:
    return None if principal.get("status") in (None, "active") else "warning"


def _operations(principal: Record) -> Content:
    lines = [
        *_side(principal, "lost", "−", "$text-error"),
        *_side(principal, "gained", "+", "$text-success"),
    ]
    for side, note in CONDITIONAL.items():
        lines += _side(principal, side, "~", "$text-warning", f"  {note}")
    return Content("\n").join(lines or [Content.styled("The same as before.", "$text-muted")])


def _side(principal: Record, side: str, sign: str, tone: str, note: str = "") -> list[Content]:
    operations: Sequence[object] = principal.get(side) or ()
    remark = (note, "$text-muted") if note else ""
    lines = [Content.assemble((f"{sign} ", f"bold {tone}"), safe(operation), remark) for operation in operations]
    more = int(principal.get(f"{side}Count", 0)) - len(operations)
    return lines + ([Content.styled(f"{sign} {more:,} more{note}", tone)] if more > 0 else [])

"""Effects of changes to groups and policies, from the preview of the platform, and the dialogs that show them."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from client.api import analysis, groups
from client.errors import FrostError
from client.models.analysis import PrincipalChange, PrincipalEffect, TargetCoverage
from client.tables.columns import Column, Kind, Record, fields, number_column
from client.text import safe
from client.texts.effects import CONDITIONAL, Effect, changes, conditional_count
from tui.state import contexts
from tui.widgets.dialog import Confirm, Dialog, hint
from tui.widgets.policy_text import distinct, kind_text
from tui.widgets.record_table import RecordTable

if TYPE_CHECKING:
    from tui.state.context_state import Requests

ProposedChange = Mapping[str, str]
"""A change as in `iam/preview`: `change` and the ids of its resources."""


async def effect(requests: "Requests", tenant_id: str, changes: Sequence[ProposedChange]) -> Effect:
    """Return the effect of several changes together. Errors become part of the result: the user must confirm anyway."""
    principals: dict[tuple[str, str], PrincipalEffect] = {}
    refused = ""
    try:
        for change in changes:
            names = {name: value for name, value in change.items() if name != "change"}
            answer = await requests.ask(analysis.preview(tenant_id, change["change"], **names))
            if not refused and answer.refused is not None:
                refused = answer.refused.message
            for principal in answer.principals:
                key = (principal.type, principal.id)
                principals[key] = _merge(principals.get(key), principal)
        await _add_states(requests, tenant_id, principals)
    except FrostError as error:
        if error.code == contexts.CONTEXT_CHANGED:
            raise
        return Effect(problem=error.message)
    return Effect(distinct(sorted(principals.values(), key=_weight)), refused=refused)


async def _add_states(requests: "Requests", tenant_id: str, principals: dict[tuple[str, str], PrincipalEffect]) -> None:
    """Add current states: a revoked key has permissions, but cannot use them."""
    kinds = {kind for kind, _ in principals}
    with suppress(FrostError):  # the effect is known without states
        for key in await requests.ask(groups.keys(tenant_id)) if "api_key" in kinds else ():
            _add_state(principals, "api_key", key.id, key.status)
        if "workload_identity" in kinds:
            async for page in requests.pages(groups.identity_page(tenant_id)):
                for binding in page:
                    _add_state(principals, "workload_identity", binding.id, "inert" if binding.inert else "active")


def _add_state(principals: dict[tuple[str, str], PrincipalEffect], kind: str, identifier: str, state: str) -> None:
    if (principal := principals.get((kind, identifier))) is not None:
        principals[kind, identifier] = PrincipalEffect.model_validate({**principal.wire(), "status": state})


def _merge(effect: PrincipalEffect | None, change: PrincipalChange) -> PrincipalEffect:
    """Add a change to the effect of earlier ones. All may include the same operations, which count once."""
    if effect is None:
        return PrincipalEffect.model_validate(change.wire())
    merged = {**effect.wire(), "inert": effect.inert and change.inert}
    for side in ("gained", "lost", *CONDITIONAL):
        names = sorted({name for each in (effect, change) for name in each.wire().get(side, ())})
        counts = (each.wire().get(f"{side}Count", 0) for each in (effect, change))
        merged |= {side: names, f"{side}Count": max(len(names), *counts)}
    return PrincipalEffect.model_validate(merged)


def _weight(principal: PrincipalEffect) -> tuple[int, str]:
    """Sort by the number of changes, largest first."""
    return -(principal.gained_count + principal.lost_count + principal.conditional_count), principal.name


def _signed_column(key: str, sign: str) -> Column:
    number = number_column(key, sign)
    return number._replace(cell=lambda record: f"{sign}{record.get(key):,}" if record.get(key) else "0")


KINDS = {"workload_identity": "identity"}
"""Short names of types, which leave space for the other columns."""
_COLUMNS = (
    Column("name", "Key or identity"),
    Column("type", "Type", cell=lambda record: KINDS.get(str(record.get("type")), kind_text(record))),
    # Words do not fit 80 columns. The effect above explains the signs.
    _signed_column("gainedCount", "+"),
    _signed_column("lostCount", "−"),
    Column(
        "under", "~", align="right", cell=lambda record: f"~{count:,}" if (count := conditional_count(record)) else ""
    ),
    Column("status", "Status"),
    # The last columns are dropped first on narrow screens. The totals include inert principals as well.
    Column("inert", "", cell=lambda record: "inert" if record.get("inert") else ""),
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
        several, longest = len(self.effect.principals) > 1, max(map(_change_count, self.effect.principals), default=0)
        choose = " · ↑ ↓ principal" if several else ""
        return choose + (" · PgDn more operations" if longest > FEWEST_OPERATIONS else "")

    def particulars(self) -> ComposeResult:
        if self.effect.principals:
            table: RecordTable[PrincipalEffect] = RecordTable(EFFECT, tones={"status": _tone})
            table.can_focus = False
            table.styles.height = len(self.effect.principals) + 1
            yield table
            scroll = VerticalScroll(Static("", markup=False), classes="effect--operations")
            scroll.can_focus = False
            yield scroll
        if self.effect.note:
            yield hint(safe(self.effect.note))

    def on_mount(self) -> None:
        if self.effect.principals:
            self.query_one(RecordTable).show(self.effect.principals)

    @on(RecordTable.Highlighted)
    def _whose(self, event: RecordTable.Highlighted) -> None:
        event.stop()
        scroll = self.query_one(".effect--operations", VerticalScroll)
        principal: PrincipalEffect | None = event.record
        scroll.query_one(Static).update(_operations(principal) if principal is not None else "")
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


def _change_count(principal: PrincipalEffect) -> int:
    """Return the number of lines that describe a principal's changes."""
    return len(_operations(principal).plain.splitlines())


def _tone(principal: Record) -> str | None:
    return None if principal.get("status") in (None, "active") else "warning"


def _operations(principal: PrincipalEffect) -> Content:
    lines = [
        *_side(principal.lost, principal.lost_count, "−", "$text-error"),
        *_side(principal.gained, principal.gained_count, "+", "$text-success"),
    ]
    for side, note in CONDITIONAL.items():
        lines += _side(*principal.conditional[side], "~", "$text-warning", f"  {note}")
    return Content("\n").join(lines or [Content.styled("No change.", "$text-muted")])


def _side(operations: Sequence[str], count: int, sign: str, tone: str, note: str = "") -> list[Content]:
    remark = (note, "$text-muted") if note else ""
    lines = [Content.assemble((f"{sign} ", f"bold {tone}"), safe(operation), remark) for operation in operations]
    more = count - len(operations)
    return lines + ([Content.styled(f"{sign} {more:,} more{note}", tone)] if more > 0 else [])


CONTEXT_LINES = 3


class Difference(Dialog[None]):
    """Compares a newer document with an older one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "lines(1)", show=False),
        Binding("k", "lines(-1)", show=False),
        Binding("enter,q", "cancel", show=False),
    ]
    DEFAULT_CSS = """
    Difference {
        & > .dialog { width: 100; height: 90%; }
        VerticalScroll { height: 1fr; scrollbar-size-vertical: 1; }
        VerticalScroll > Static { height: auto; }
    }
    """
    LISTENS_AT_ONCE = True

    def __init__(self, title: str, before: str, after: str, effect: TargetCoverage) -> None:
        """`effect` is the coverage of one target, compared with `before`."""
        super().__init__()
        self._title = title
        self.before, self.after = before, after
        self.effect = effect

    def title_text(self) -> str:
        return self._title

    def content(self) -> ComposeResult:
        yield VerticalScroll(
            Static(Content("\n").join(difference_lines(self.before, self.after, self.effect)), markup=False)
        )
        yield hint("↑ ↓ scroll · Esc close")

    def first_focus(self) -> Widget:
        return self.query_one(VerticalScroll)

    def action_lines(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)


def difference_lines(
    before: str, after: str, effect: TargetCoverage | FrostError, most: int | None = None
) -> Iterator[Content]:
    """Yield the difference: operations lost, gained and conditionally changed, then the text.

    Args:
        effect: The coverage of one target, compared with `before`; the error if it is unknown.
        most: Maximum operations of each kind; None for all.
    """
    if isinstance(effect, FrostError):
        yield Content.styled("Effect on *", "bold $text-accent")
        yield Content.styled(f"  unknown: {safe(effect.message)}", "$text-warning")
    else:
        yield Content.styled(f"Effect on {safe(effect.target)}", "bold $text-accent")
        yield from _effect_lines(before, effect, most)
    yield Content("")
    yield Content.styled("Difference in text", "bold $text-accent")
    yield from text_lines(before, after)


def _effect_lines(before: str, effect: TargetCoverage, most: int | None) -> Iterator[Content]:
    changed = changes(effect.wire())
    if not any(changed):
        yield Content.styled("  the same operations as before" if before else "  no operations gained", "$text-muted")
    else:
        counts = [(f"+{len(changed.gained):,} gained", "$text-success")] if changed.gained else []
        counts += [(f"−{len(changed.lost):,} lost", "$text-error")] if changed.lost else []
        counts += [(f"~{changed.conditional}", "$text-warning")] if changed.under else []
        yield Content("  ") + Content(", ").join(Content.styled(*one) for one in counts)
    yield from _operation_lines(changed.lost, "−", "$text-error", most)
    yield from _operation_lines(changed.gained, "+", "$text-success", most)
    yield from _operation_lines(changed.under, "~", "$text-warning", most)


def _operation_lines(operations: Mapping[str, str], sign: str, tone: str, most: int | None) -> Iterator[Content]:
    for operation, note in islice(operations.items(), most):
        remark = (f"  {note}", "$text-muted") if note else ""
        yield Content.assemble((f"  {sign} ", f"bold {tone}"), safe(operation), remark)
    if most is not None and len(operations) > most:
        yield Content.styled(f"  {sign} and {len(operations) - most:,} more", tone)


def text_lines(before: str, after: str) -> Iterator[Content]:
    """Yield a unified diff of the texts, with signs and colours."""
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=CONTEXT_LINES))[2:]
    if not lines:
        yield Content.styled("  no difference", "$text-muted")
    for line in lines:
        sign, text = line[:1], safe(line[1:])
        if sign == "@":
            if before:  # a new document has a single hunk, from line 1
                yield Content.styled(f"  … line {line.split('+')[-1].split(',')[0].rstrip(' @')}", "$text-muted")
        elif sign in "+-":
            tone = "$text-success" if sign == "+" else "$text-error"
            yield Content.styled(f"  {'−' if sign == '-' else sign} {text}", tone)
        else:
            yield Content.styled(f"    {text}", "$text-muted")

"""The panel and the lines of its views: rules, coverage, author check, problems."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from textual.content import Content
from textual.reactive import reactive

from client.models.analysis import Counterexample, DocumentProblem, SimulatedRule, TargetCoverage
from client.text import cut, safe, width, wrapped
from client.texts.effects import changes
from client.texts.refusals import facts_text
from tui.iam.editor import request
from tui.iam.editor.evaluation import Evaluation, example_rule, place
from tui.iam.editor.lists import Line, LineList, Ref

VIEWS = ("rules", "coverage", "author", "problems")
TITLES = {"text": "Text", "request": "Request", "rules": "Rules", "coverage": "Coverage", "author": "Author"}
TRUTH = {"true": ("✓", "$text-success"), "false": ("×", "$text-error"), "unknown": ("?", "$text-warning")}
MAX_BAR_CELLS = 12
MIN_BAR_CELLS = 3
PART_CELLS = 18
"""Cells before the text of a rule's part."""


class Panel(LineList):
    """Shows one view of the evaluation."""

    evaluation: reactive[Evaluation] = reactive(Evaluation(), repaint=False)
    view = reactive(VIEWS[0], repaint=False)
    _cells = 0
    """Width of the lines."""

    def watch_evaluation(self, before: Evaluation, evaluation: Evaluation) -> None:
        """Show the evaluation, unless it changes nothing in the view."""
        if _inputs(self.view, before) != _inputs(self.view, evaluation):
            self._show_view()

    def watch_view(self) -> None:
        self._show_view()

    def on_resize(self) -> None:
        if self._cells != self._available_cells:
            self._show_view()

    @property
    def _available_cells(self) -> int:
        return self.outer_size.width - 1  # less the scroll bar

    def _show_view(self) -> None:
        """Show the lines of the view, once its width is known."""
        self._cells = self._available_cells
        if self._cells > 0:
            self.show(lines(self.view, self.evaluation, self._cells))

    @property
    def counterexample(self) -> Counterexample | None:
        """The counterexample under the cursor of the author view, or the first; None without any."""
        index = self.ref.index if self.ref is not None and self.ref.kind == "example" else 0
        examples = self.evaluation.counterexamples
        return examples[index] if index < len(examples) else None


def _inputs(view: str, evaluation: Evaluation) -> tuple[object, ...]:
    """Return the inputs of the lines of a view."""
    if view == "problems":
        return evaluation.problems, id(evaluation.warnings)
    result = {"rules": evaluation.verdict, "coverage": evaluation.coverage, "author": evaluation.check}[view]
    return evaluation.stale_reason, id(result)


def title(view: str, evaluation: Evaluation) -> str:
    """Return the title of a view, with its main result."""
    if view == "author":
        answer = "" if evaluation.stale_reason or evaluation.check is None else evaluation.check.answer
        sign = {"within": " ✓", "beyond": " ×", "undecided": " ?"}.get(answer, "")
        return "Author" + sign
    if view == "problems":
        count = len(evaluation.problems) or len(evaluation.warnings)
        return f"Problems {count}" if evaluation.problems or not count else f"Warnings {count}"
    return TITLES[view]


def lines(view: str, evaluation: Evaluation, cells: int) -> list[Line]:
    """Return the lines of a view that is `cells` wide."""
    build = {"rules": _rules, "coverage": _coverage, "author": _author, "problems": _problems}[view]
    reason = evaluation.stale_reason if view != "problems" else ""
    note = [_plain(f"{reason[:1].upper()}{reason[1:]}:", "$text-warning")] if reason else []
    return [*note, *build(evaluation, cells)]


def _plain(text: str, tone: str = "$text-muted") -> Line:
    return Line(Content.styled(safe(text), tone))


def _wrap(text: str, cells: int, tone: str = "$text-muted", indent: str = "") -> Iterator[Line]:
    """Yield the text as wrapped, indented lines."""
    for part in wrapped(safe(text), max(16, cells - len(indent) - 1)):
        yield Line(Content.styled(indent + part, tone))


def _lazy(make: Callable[..., Content], *arguments: object, ref: Ref | None = None) -> Line:
    return Line(partial(make, *arguments), ref)


# Rules


def _rules(evaluation: Evaluation, cells: int) -> Iterator[Line]:
    verdict = evaluation.verdict
    if verdict is None:
        yield from _wrap(evaluation.undecided_text, cells)
        return
    old = bool(evaluation.stale_reason)
    deciding = verdict.deciding_rule.index if verdict.deciding_rule is not None else None
    nearest = verdict.nearest_rule.index if verdict.nearest_rule is not None else None
    for rule in verdict.rules:
        role = "decides" if rule.index == deciding else "nearest" if rule.index == nearest else ""
        yield _lazy(_rule, rule, role, old, ref=Ref("rule", rule.index))
        if rule.operation == "true" or role:
            yield from _parts(rule, old, cells)
    if verdict.missing:
        yield Line(Content(""))
        yield _plain("These could change the decision:")
        for fact in verdict.missing:
            field = request.field_of(fact.key)
            yield _plain(f"  {fact.key}  ({field.label})" if field is not None else f"  {fact.key}")


def _rule(rule: SimulatedRule, role: str, old: bool) -> Content:
    access, fires = rule.access, rule.fires
    number = f"{rule.index + 1:>3} "
    tone = ("$text-success" if access == "allow" else "$text-error") if fires and not old else "$text-muted"
    sign = {("allow", True): "✓", ("deny", True): "×"}.get((access, fires), "·")
    name = safe(rule.name or "(no name)")
    loud = "$text-muted" if old else "$text-accent"
    return Content.assemble(
        (number, "$text-muted"),
        (f"{sign} {access:<5} ", "bold " + tone),
        (f"{role}  " if role else "", "bold " + loud),
        (name, "$text-muted" if old else "$foreground"),
    )


def _parts(rule: SimulatedRule, old: bool, cells: int) -> Iterator[Line]:
    yield _lazy(_part, "operation", rule.operation, old)
    yield _lazy(_part, "target", rule.target, old)
    for constraint in rule.constraints:
        text = safe(f"{constraint.operator} {constraint.key} {', '.join(constraint.values)}")
        first, *rest = wrapped(text, max(16, cells - PART_CELLS - 1))
        yield _lazy(_part, first, constraint.result, old)
        yield from (_plain(" " * PART_CELLS + part) for part in rest)
    if rule.within_author is not None:
        yield _lazy(_part, "your permission", "true" if rule.within_author else "false", old)


def _part(text: str, truth: str, old: bool) -> Content:
    sign, tone = TRUTH.get(truth, ("?", "$text-warning"))
    tone = "$text-muted" if old else tone
    return Content.assemble(("        ", ""), (f"{sign} {truth:<8}", tone), (safe(text), "$text-muted"))


# Coverage


class _Row(NamedTuple):
    """Coverage of a service: numbers of operations and of changed operations."""

    service: str
    total: int
    effective: int
    conditional: int
    denied: int
    gained: int
    lost: int
    under: int

    @property
    def tail(self) -> Iterator[tuple[str, str]]:
        """The text after the bar, as (text, tone); zeros are omitted."""
        yield f" {self.effective:>3} of {self.total:<3}", "$text-muted"
        for text, count, tone in (
            ("?{}", self.conditional, "bold $text-warning"),
            ("+{}", self.gained, "bold $text-success"),
            ("−{}", self.lost, "bold $text-error"),
            ("~{}", self.under, "bold $text-warning"),
            ("{} denied", self.denied, "$text-muted"),
        ):
            if count:
                yield f"  {text.format(count)}", tone


def _coverage(evaluation: Evaluation, cells: int) -> Iterator[Line]:
    coverage = evaluation.any_target
    if coverage is None:
        yield _plain("No result yet.")
        return
    services = list(_services(coverage))
    # Omit services without allowed or changed operations.
    rows = [
        service
        for service in services
        if service.effective or service.conditional or service.gained or service.lost or service.under
    ]
    target = "any target" if coverage.target == "*" else coverage.target
    yield from _wrap(f"On {target}, for any request. Enter names the operations.", cells)
    if legend := ", ".join(_legend(rows)):
        yield from _wrap(legend, cells)
    name_cells = max((width(safe(row.service)) for row in rows), default=0)
    longest = max((sum(width(text) for text, _ in row.tail) for row in rows), default=0)
    bar = max(MIN_BAR_CELLS, min(MAX_BAR_CELLS, cells - name_cells - 2 - longest))
    for row in rows:
        yield _lazy(_service, row, name_cells, bar, bool(evaluation.stale_reason), ref=Ref("service", name=row.service))
    if not rows:
        yield _plain("The draft allows no operations there.")
    rest = len(services) - len(rows)
    if rest and rows:
        yield _plain(f"{rest} other services: none")


def _legend(rows: Sequence[_Row]) -> Iterator[str]:
    """Yield explanations of the symbols that occur in the rows."""
    if any(row.effective for row in rows):
        yield "━ in effect"
    if any(row.conditional for row in rows):
        yield "╍ ? under conditions"
    changed = [
        f"{sign} {text}"
        for sign, text, count in (
            ("+", "gained", sum(row.gained for row in rows)),
            ("−", "lost", sum(row.lost for row in rows)),
            ("~", "conditional changes", sum(row.under for row in rows)),
        )
        if count
    ]
    if changed:
        yield f"{', '.join(changed)} since the stored version"


def _services(coverage: TargetCoverage) -> Iterator[_Row]:
    changed = [Counter(operation.partition(":")[0] for operation in side) for side in changes(coverage.wire())]
    for service in coverage.services:
        numbers = (service.total, service.effective, service.conditional, service.denied)
        yield _Row(service.service, *numbers, *(side[service.service] for side in changed))


def _service(row: _Row, name_cells: int, bar: int, old: bool) -> Content:
    effective = _filled_cells(row.effective, row.total, bar)
    conditional = min(_filled_cells(row.conditional, row.total, bar), bar - effective)
    tone = "$text-muted" if old else "$text-accent"
    return Content.assemble(
        (f"{safe(row.service):<{name_cells}}  ", "$foreground"),
        ("━" * effective, tone),
        ("╍" * conditional, tone),
        ("─" * (bar - effective - conditional), "$text-disabled"),
        *row.tail,
    )


def _filled_cells(count: int, total: int, bar: int) -> int:
    """Return the filled cells of a bar: at least one unless `count` is 0."""
    return max(round(bar * count / total), 1) if count and total else 0


# Author


def _author(evaluation: Evaluation, cells: int) -> Iterator[Line]:
    check = evaluation.check
    if check is None:
        yield _plain("Waiting for the author check.")
        return
    answer = check.answer
    if answer == "within" and evaluation.stale_reason:
        yield from _wrap("The draft granted nothing beyond your permissions.", cells)
        return
    if answer == "within":
        yield from _wrap("✓ The draft grants nothing beyond your permissions.", cells, "$text-success")
        yield from _wrap("Saving also checks other users' keys and identities with this policy.", cells)
        return
    examples = evaluation.counterexamples
    if answer == "undecided":
        yield from _wrap("? Too complex to decide. Saving will be refused.", cells, "$text-warning")
        yield from _wrap("Use fewer rules, patterns or constraints.", cells)
    else:
        would = "would have allowed" if evaluation.stale_reason else "would allow"
        yield from _wrap(f"× The draft {would} operations beyond your own permissions:", cells, "$text-error")
    for at, example in enumerate(examples):
        yield Line(Content(""))
        yield _lazy(_example, example, ref=Ref("example", at))
        facts = facts_text(example.facts.wire())
        details = (f"on {example.target}", f"with {facts}" if facts else "", f"by {example_rule(example)}")
        for text in (*details, example.why):
            yield from _wrap(text, cells, indent="    ") if text else ()


def _example(example: Counterexample) -> Content:
    return Content.assemble(("  × ", "bold $text-error"), (safe(example.operation), "$foreground"))


# Problems


def _problems(evaluation: Evaluation, cells: int) -> Iterator[Line]:
    problems, kind = evaluation.problems, "problem"
    if not problems:
        problems, kind = evaluation.warnings, "warning"
    if not problems:
        yield _plain("No problems.")
        return
    if kind == "warning":
        yield from _wrap("Valid, but probably unintended:", cells)
    for at, problem in enumerate(problems):
        if at or kind == "warning":
            yield Line(Content(""))
        yield _lazy(_place, problem, kind, ref=Ref(kind, at))
        yield from _wrap(problem.reason, cells, "$foreground", "    ")
        if problem.suggestions:
            yield from _wrap(f"did you mean {' or '.join(problem.suggestions)}?", cells, indent="    ")


def _place(problem: DocumentProblem, kind: str) -> Content:
    tone = "$text-error" if kind == "problem" else "$text-warning"
    path = cut(safe(problem.path), 40)
    return Content.assemble(("  ! ", "bold " + tone), (place(problem), "$foreground"), (f"  {path}", "$text-muted"))

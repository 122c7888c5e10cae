"""Evaluation of the document: requests after each change, the latest results, and marks in the text.

While the document is invalid or the platform does not respond, the last results remain and are marked as stale.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, TypeAlias

from client.api import analysis
from client.errors import Exit, FrostError
from client.models.analysis import (
    AuthorCheck,
    Counterexample,
    CoverageMap,
    DecidingRule,
    DocumentProblem,
    ErrorDetails,
    Simulation,
    TargetCoverage,
)
from client.policy.problems import MAX_EXAMPLES
from client.tables.iam import mismatch_text, unsure_text
from client.text import safe
from client.texts.effects import counted
from client.transport.call import Ask
from tui.iam.editor import json_scanner
from tui.iam.editor.request import Request

MIN_DELAY_SECONDS, MAX_DELAY_SECONDS = 0.015, 0.1
"""Bounds of the delay before a request, which is a quarter of the last response time."""
MAX_DOCUMENT_BYTES = 256 * 1024
"""Maximum size of a document. Larger documents are not sent for evaluation."""


Result: TypeAlias = Simulation | CoverageMap | AuthorCheck | tuple[DocumentProblem, ...] | FrostError
"""A result of an evaluation: the verdict, the coverage, the author check, the problems of the text, or an error."""


class Spawn(Protocol):
    """Runs work in place of the work of the same group, which may not have started. None only cancels that work."""

    def __call__(self, group: str, work: Callable[[], Coroutine[None, None, None]] | None, /) -> None: ...


class Evaluator:
    """Evaluates a document on the platform: the verdict for a request, then coverage and author check of the text.

    Coverage and author check do not depend on the request. A change of the request alone does not ask for them again.

    Args:
        publish: Called on the event loop with each result for the newest text and request.
    """

    def __init__(self, ask: Ask, tenant_id: str, *, publish: Callable[[Result], None], spawn: Spawn) -> None:
        self._ask = ask
        self.tenant_id = tenant_id
        self.generation = 0
        """Number of the newest text and request."""
        self.last_seconds = 0.0
        """Response time of the last verdict."""
        self._publish = publish
        self._spawn = spawn
        self._policy_id, self._version = "", 0
        self._text: str | None = None
        self._text_generation = 0
        self._analysis_due = True
        """Whether coverage and author check of the text are not requested yet."""

    def compare_with(self, policy_id: str, version: int) -> None:
        """Set the stored version that coverage is compared with; "" and 0 for a new policy."""
        self._policy_id, self._version = policy_id, version
        self.forget_analysis()

    def forget_analysis(self) -> None:
        """Request coverage and author check again at the next evaluation, even of the same text."""
        self._text = None

    def evaluate(self, text: str, request: Request, *, at_once: bool = False) -> None:
        """Start the evaluation of a text and a request. `at_once` omits the delay."""
        self.generation += 1
        if text != self._text:
            self._text, self._text_generation, self._analysis_due = text, self.generation, True
            self._spawn("analysis", None)
        delay = 0.0 if at_once else self.delay
        self._spawn("evaluation", partial(self._evaluate, self.generation, text, request, delay))

    @property
    def delay(self) -> float:
        """Delay before a request, in seconds: longer if responses are slow."""
        return min(max(self.last_seconds / 4, MIN_DELAY_SECONDS), MAX_DELAY_SECONDS)

    async def _evaluate(self, generation: int, text: str, request: Request, delay: float) -> None:
        await asyncio.sleep(delay)
        size = len(text.encode(errors="replace"))
        if size > MAX_DOCUMENT_BYTES:
            reason = f"{size:,} bytes are too large: a policy document has at most {MAX_DOCUMENT_BYTES:,}"
            self._publish((DocumentProblem(path="$", reason=reason),))
            return
        if request.operation and not await self._simulate(generation, text, request):
            return
        # These do not depend on the request, so they run even if the request is invalid.
        if self._analysis_due and generation == self.generation:
            self._analysis_due = False
            self._spawn("analysis", partial(self._analyse, self._text_generation, text))

    async def _simulate(self, generation: int, text: str, request: Request) -> bool:
        """Request the verdict. Return whether coverage and author check can succeed."""
        start = time.monotonic()
        tenant, facts = self.tenant_id, request.facts
        try:
            verdict = await self._ask(
                analysis.simulate(tenant, text, request.operation, request.target, facts, as_author=request.as_author)
            )
        except FrostError as error:
            if generation == self.generation:
                self._publish(error)
            return error.code != "INVALID_POLICY_DOCUMENT" and bool(error.status)
        self.last_seconds = time.monotonic() - start
        if generation == self.generation:
            self._publish(verdict)
        return True

    async def _analyse(self, text_generation: int, text: str) -> None:
        await asyncio.gather(self._cover(text_generation, text), self._check(text_generation, text))

    async def _cover(self, text_generation: int, text: str) -> None:
        """Request the coverage for any request. The trial request does not limit the effect of a save."""
        compare = {"policyId": self._policy_id, "version": self._version} if self._policy_id else None
        try:
            coverage = await self._ask(
                analysis.coverage(self.tenant_id, text, facts={"currentTime": None}, compare=compare)
            )
        except FrostError as error:
            self._publish_analysis(text_generation, error)
        else:
            self._publish_analysis(text_generation, coverage)

    async def _check(self, text_generation: int, text: str) -> None:
        try:
            check = await self._ask(analysis.check(self.tenant_id, text))
        except FrostError as error:
            self._publish_analysis(text_generation, error)
        else:
            self._publish_analysis(text_generation, check)

    def _publish_analysis(self, text_generation: int, result: CoverageMap | AuthorCheck | FrostError) -> None:
        if text_generation == self._text_generation:
            self._analysis_due = self._analysis_due or isinstance(result, FrostError)
            self._publish(result)


REASONS = {
    "no_match": "no rule matches",
    "explicit_deny": "denied by",
    "allowed": "allowed by",
    "unknown_context": "not enough is known",
}


@dataclass(frozen=True)
class Evaluation:
    """The latest result of each kind."""

    verdict: Simulation | None = None
    coverage: CoverageMap | None = None
    check: AuthorCheck | None = None
    problems: Sequence[DocumentProblem] = ()
    """Why the newest text is invalid; empty if it is valid or not yet evaluated."""
    problem_index: int = 0
    """Index of the problem at the cursor; 0 without one."""
    request_problem: str = ""
    """Why the request is invalid; empty if it is valid."""
    request: Request | None = None
    """The newest request."""
    verdict_request: Request | None = None
    """The request of the verdict."""
    error: FrostError | None = None
    """Why the newest text could not be evaluated."""
    platform_stopped: bool = False
    """Whether the platform was stopped intentionally."""
    current: frozenset[str] = frozenset()
    """Kinds whose result is for the newest text and request: verdict, coverage, check."""
    overdue: bool = False
    """Whether the newest evaluation takes long."""

    def with_result(self, result: Result, *, platform_stopped: bool = False) -> "Evaluation":
        """Return the evaluation with a result for the newest text and request."""
        match result:
            case FrostError():
                evaluation = self._with_failure(result)
            case Simulation():
                evaluation = replace(
                    self._valid("verdict"), verdict=result, request_problem="", verdict_request=self.request
                )
            case CoverageMap():
                evaluation = replace(self._valid("coverage"), coverage=result)
            case AuthorCheck():
                evaluation = replace(self._valid("check"), check=result)
            case _:
                evaluation = self._with_problems(result)
        return replace(evaluation, platform_stopped=platform_stopped, overdue=False)

    def _valid(self, kind: str) -> "Evaluation":
        """Return the evaluation of a valid text, with a current result of a kind."""
        return replace(self, problems=(), error=None, current=self.current | {kind})

    def with_refusal(self, details: ErrorDetails) -> "Evaluation":
        """Return the evaluation with the author check in the details of a refused save."""
        if not details.answer:
            return self
        check = AuthorCheck(
            answer=details.answer, counterexamples=details.counterexamples, warnings=tuple(self.warnings)
        )
        return replace(self, check=check)

    def _with_failure(self, error: FrostError) -> "Evaluation":
        details = ErrorDetails.read(error.details)
        if error.code == "INVALID_POLICY_DOCUMENT":
            return self._with_problems(details.problems or [DocumentProblem(reason=error.message)])
        if (
            error.exit_code in (Exit.UNREACHABLE, Exit.NOT_SIGNED_IN)
            or error.status in (0, 403, 429)
            or error.status >= 500
        ):
            return replace(self, error=error)
        return self.with_request_problem(error.message + did_you_mean(details.suggestions))

    def _with_problems(self, problems: Sequence[DocumentProblem]) -> "Evaluation":
        return replace(self, problems=problems, error=None, problem_index=0, current=frozenset())

    def with_request_problem(self, problem: str) -> "Evaluation":
        """Return the evaluation with a reason why the request is invalid."""
        return replace(self, request_problem=problem, current=self.current - {"verdict"})

    def at_cursor(self, line: int, column: int) -> "Evaluation":
        """Return the evaluation with the problem at a cursor position, zero-based."""
        if not self.problems:
            return self if not self.problem_index else replace(self, problem_index=0)
        in_line = [at for at, problem in enumerate(self.problems) if problem.line == line + 1]
        before = [at for at in in_line if self.problems[at].column <= column + 1]
        index = before[-1] if before else in_line[0] if in_line else 0
        return self if index == self.problem_index else replace(self, problem_index=index)

    def edited(self, request: Request, *, text_changed: bool = True) -> "Evaluation":
        """Return the evaluation with outdated results, after a change of the text or only of the request."""
        current = frozenset() if text_changed else self.current - {"verdict"}
        return replace(self, request=request, current=current, overdue=False)

    @property
    def undecided_text(self) -> str:
        """Why there is no decision yet."""
        if self.problems:
            return "Not evaluated: the text has problems."
        if self.request_problem:
            return f"Not evaluated: {self.request_problem}."
        if self.error is None and self.request is not None and self.request.operation:
            return "Waiting for the decision …"
        return "Not evaluated: enter an operation in the request."

    @property
    def stale_reason(self) -> str:
        """Why the results do not apply to the current text; empty if they do or if an evaluation is running."""
        if self.problems:
            same = self.verdict_request in (None, self.request)
            return "for the last valid text" if same else "for an earlier text and request"
        return "for the last response" if self.error is not None else ""

    @property
    def warnings(self) -> Sequence[DocumentProblem]:
        """Valid parts of the document that are probably unintended."""
        return next(
            (result.warnings for result in (self.check, self.coverage, self.verdict) if result is not None),
            (),
        )

    @property
    def counterexamples(self) -> Sequence[Counterexample]:
        """The counterexamples of the author check."""
        return self.check.counterexamples if self.check is not None else ()

    @property
    def any_target(self) -> TargetCoverage | None:
        """The coverage of any target for any request; None before the first result."""
        return self.coverage.targets[0] if self.coverage is not None and self.coverage.targets else None

    @property
    def deciding_rule(self) -> tuple[int, str] | None:
        """Index and access of the deciding rule; None if there is none."""
        if self.verdict is None or self.verdict.deciding_rule is None:
            return None
        return self.verdict.deciding_rule.index, "allow" if self.verdict.allowed else "deny"


def did_you_mean(suggestions: Iterable[str]) -> str:
    """Return `; did you mean a or b?`; empty without suggestions."""
    names = " or ".join(suggestions)
    return f"; did you mean {names}?" if names else ""


def example_count(check: AuthorCheck) -> str:
    """Return the number of counterexamples, as `3 examples`; `5+ examples` at the limit of the platform; or ""."""
    count = len(check.counterexamples)
    return f"{count}+ examples" if count >= MAX_EXAMPLES else counted(count, "example") if count else ""


def rule_name(rule: DecidingRule) -> str:
    """Return a label such as `rule 2 office-only`. Numbers start at 1."""
    return f"rule {rule.index + 1}" + (f" {rule.name}" if rule.name else "")


def example_rule(example: Counterexample) -> str:
    """Return the label of the rule that allows a counterexample."""
    return rule_name(DecidingRule(index=example.rule_index, name=example.rule_name))


def verdict_reason(verdict: Simulation) -> str:
    """Return the reason of a verdict."""
    if verdict.because:
        return safe(verdict.because)
    reason, rule, nearest = verdict.reason, verdict.deciding_rule, verdict.nearest_rule
    if rule is not None and reason in ("allowed", "explicit_deny"):
        text = f"{REASONS[reason]} {rule_name(rule)}"
        if reason == "explicit_deny" and verdict.missing:
            text += f", because {_missing(verdict)} unknown"
        return text
    text = REASONS.get(reason, reason.replace("_", " "))
    if reason == "unknown_context" and verdict.missing:
        text = f"{_missing(verdict)} unknown"
    if nearest is not None:
        part_text = unsure_text if reason == "unknown_context" else mismatch_text
        text += f"; nearest is {rule_name(nearest)}: {part_text(nearest.failed or '')}"
    return text


def _missing(verdict: Simulation) -> str:
    keys = [fact.key for fact in verdict.missing]
    return ", ".join(keys) + (" is" if len(keys) == 1 else " are")


def place(problem: DocumentProblem) -> str:
    """Return the position of a problem, such as `line 4, column 12`."""
    return f"line {problem.line}, column {problem.column}"


def problem_text(problem: DocumentProblem) -> str:
    """Return the reason of a problem, with suggestions."""
    return problem.reason + did_you_mean(problem.suggestions)


@dataclass(frozen=True, slots=True)
class Marks:
    """Marks by zero-based line. Kinds are component classes of the pane: problem, warning, allow, deny."""

    lines: Mapping[int, str] = field(default_factory=dict)
    spans: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """Start and end column of the problem in a line."""
    signs: Mapping[int, str] = field(default_factory=dict)


def marks_of(evaluation: Evaluation, text: str) -> Marks:
    """Return the marks of a text: its problems or, without any, its warnings and the deciding rule."""
    lines = text.split("\n")
    if evaluation.problems:
        return problem_marks(evaluation.problems, lines)
    marks = problem_marks(evaluation.warnings, lines, "warning")
    if evaluation.deciding_rule is None or evaluation.stale_reason or evaluation.request_problem:
        return marks
    index, access = evaluation.deciding_rule
    spans = json_scanner.rules(text, index + 1)
    if index >= len(spans):
        return marks
    kinds, signs = dict(marks.lines), dict(marks.signs)
    rows = json_scanner.Lines(text).range(spans[index])
    for row in rows:
        kinds[row] = access
        signs.setdefault(row, "│")
    signs[rows.start] = "✓" if access == "allow" else "×"
    return Marks(kinds, marks.spans, signs)


def problem_marks(problems: Iterable[DocumentProblem], lines: Sequence[str], kind: str = "problem") -> Marks:
    """Return the marks of problems, whose lines and columns start at 1."""
    kinds: dict[int, str] = {}
    spans: dict[int, tuple[int, int]] = {}
    signs: dict[int, str] = {}
    for problem in problems:
        row = min(max(problem.line - 1, 0), max(0, len(lines) - 1))
        if row in kinds:
            continue
        kinds[row], signs[row] = kind, "!"
        column = max(problem.column - 1, 0)
        text = lines[row] if row < len(lines) else ""
        end = next((end for start, end, _ in json_scanner.tokens(text) if start <= column < end), column + 1)
        if column < len(text):
            spans[row] = (column, min(end, len(text)))
    return Marks(kinds, spans, signs)

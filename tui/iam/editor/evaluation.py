"""Evaluation of the draft: requests after each change, the latest results, and marks in the text.

While the document is invalid or the platform does not respond, the last results remain and are marked as stale.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol

from client.api import analysis
from client.errors import Exit, FrostError
from client.text import safe
from tui.iam.editor import json_scanner
from tui.iam.editor.request import Request
from tui.state.workspace import Workspace

SHORTEST, LONGEST = 0.015, 0.1
"""Bounds of the delay before a request, in seconds. The delay is a quarter of the last response time."""


LARGEST = 256 * 1024
"""Maximum size of a document, in bytes. Larger documents are not sent for evaluation."""


class Answer(NamedTuple):
    """A result for the draft `number`. Kinds: verdict, coverage, check, problems, failure."""

    number: int
    kind: str
    content: Any


class Spawn(Protocol):
    """Runs an evaluation and cancels the previous one, which may not have started."""

    def __call__(self, work: Callable[[], Coroutine[None, None, None]], /) -> None: ...


class Live:
    """Evaluates drafts on the platform.

    Args:
        tell: Called with each result for the newest draft, on the event loop.
        spawn: Runs an evaluation and cancels the previous one.
    """

    def __init__(
        self,
        workspace: Workspace,
        tenant_id: str,
        policy_id: str,
        version: int,
        *,
        tell: Callable[[Answer], None],
        spawn: Spawn,
    ) -> None:
        self.workspace = workspace
        self.tenant_id = tenant_id
        self.policy_id = policy_id
        self.version = version
        """Version of the stored policy that drafts are compared with; 0 without one."""
        self.number = 0
        """Number of the newest draft."""
        self.took = 0.0
        """Response time of the last verdict, in seconds."""
        self._tell = tell
        self._spawn = spawn

    def ask(self, text: str, request: Request, *, at_once: bool = False) -> int:
        """Start the evaluation of a draft and return its number. `at_once` omits the delay."""
        self.number += 1
        self._spawn(partial(self._ask, self.number, text, request, 0.0 if at_once else self.pause))
        return self.number

    @property
    def pause(self) -> float:
        """Delay before a request, in seconds: longer if responses are slow."""
        return min(max(self.took / 4, SHORTEST), LONGEST)

    async def _ask(self, number: int, text: str, request: Request, pause: float) -> None:
        await asyncio.sleep(pause)
        size = len(text.encode(errors="replace"))
        if size > LARGEST:
            reason = f"{size:,} bytes are too many: a policy document has at most {LARGEST:,}"
            self._told(number, "problems", [{"path": "$", "line": 1, "column": 1, "reason": reason}])
            return
        begun = time.monotonic()
        tenant, facts = self.tenant_id, request.facts
        try:
            if request.operation:
                verdict = await self.workspace.ask(
                    analysis.simulate(
                        tenant, text, request.operation, request.target, facts, as_author=request.as_author
                    )
                )
                self.took = time.monotonic() - begun
                self._told(number, "verdict", verdict)
        except FrostError as error:
            self._told(number, "failure", error)
            if error.code == "INVALID_POLICY_DOCUMENT" or not error.status:
                return
        # These do not depend on the request, so they run even if the request is invalid.
        await asyncio.gather(self._map(number, text), self._check(number, text))

    async def _map(self, number: int, text: str) -> None:
        """Request the coverage for any request. The trial request does not limit the effect of a save."""
        compare = {"policyId": self.policy_id, "version": self.version} if self.policy_id else None
        try:
            answer = await self.workspace.ask(
                analysis.coverage(self.tenant_id, text, facts={"currentTime": None}, compare=compare)
            )
            self._told(number, "coverage", answer)
        except FrostError as error:
            self._told(number, "failure", error)

    async def _check(self, number: int, text: str) -> None:
        try:
            answer = await self.workspace.ask(analysis.check(self.tenant_id, text))
            self._told(number, "check", answer)
        except FrostError as error:
            self._told(number, "failure", error)

    def _told(self, number: int, kind: str, content: Any) -> None:
        if number == self.number:
            self._tell(Answer(number, kind, content))


Problem = Mapping[str, Any]
REASONS = {
    "no_match": "no rule matches",
    "explicit_deny": "denied by",
    "allowed": "allowed by",
    "unknown_context": "not everything it depends on is known",
}


@dataclass
class Findings:
    """The latest result of each kind."""

    verdict: Mapping[str, Any] | None = None
    coverage: Mapping[str, Any] | None = None
    check: Mapping[str, Any] | None = None
    problems: Sequence[Problem] = ()
    """Why the newest text is invalid; empty if it is valid or not yet evaluated."""
    problem_at: int = 0
    """Index of the problem at the cursor; 0 without one."""
    request_problem: str = ""
    """Why the request is invalid; empty if it is valid."""
    asked: Request | None = None
    """The newest request."""
    tried: Request | None = None
    """The request of the verdict."""
    lost: FrostError | None = None
    """Why the newest text could not be evaluated."""
    stopped: bool = False
    """Whether the platform was stopped intentionally."""
    readable_number: int = 0
    """Number of the last valid draft."""
    fresh: dict[str, bool] = field(default_factory=dict)
    """Kinds whose result is for the newest draft."""

    def take(self, answer: Answer) -> None:
        """Store a result for the newest draft."""
        kind, content = answer.kind, answer.content
        if kind == "problems":
            self._unreadable(content)
        elif kind == "failure":
            self._failed(content)
        else:
            setattr(self, kind, content)
            self.fresh[kind] = True
            self.problems, self.lost = (), None
            self.readable_number = answer.number
            if kind == "verdict":
                self.request_problem, self.tried = "", self.asked

    def _failed(self, error: FrostError) -> None:
        problems = (error.details or {}).get("problems")
        if error.code == "INVALID_POLICY_DOCUMENT" and problems:
            self._unreadable(problems)
        elif (
            error.exit_code in (Exit.UNREACHABLE, Exit.NOT_SIGNED_IN)
            or error.status in (0, 403, 429)
            or (error.status >= 500)
        ):
            self.lost = error
        else:
            meant = (error.details or {}).get("suggestions") or ()
            self.request_problem = error.message + (f"; did you mean {' or '.join(map(str, meant))}?" if meant else "")
            self.fresh["verdict"] = False

    def stand_at(self, line: int, column: int) -> bool:
        """Set the cursor position, zero-based. Return whether this selects another problem."""
        before = self.problem_at
        here = [
            at
            for at, one in enumerate(self.problems)
            if int(one.get("line", 1)) == line + 1 and int(one.get("column", 1)) <= column + 1
        ]
        in_line = [at for at, one in enumerate(self.problems) if int(one.get("line", 1)) == line + 1]
        self.problem_at = here[-1] if here else in_line[0] if in_line else 0
        return self.problem_at != before

    def _unreadable(self, problems: Sequence[Problem]) -> None:
        self.problems, self.lost, self.problem_at = problems, None, 0
        self.fresh.clear()

    def typed(self, request: Request) -> None:
        """Set the newest request and mark all results as outdated, after a change of text or request."""
        self.asked = request
        self.fresh.clear()

    @property
    def stale(self) -> str:
        """Why the results do not apply to the current text; empty if they do or if an evaluation is running."""
        if self.problems:
            same = self.tried in (None, self.asked)
            return "as of the last readable text" if same else "of an earlier text and request"
        return "as of the last answer" if self.lost is not None else ""

    @property
    def warnings(self) -> Sequence[Problem]:
        """Valid parts of the document that are probably unintended."""
        for said in (self.check, self.coverage, self.verdict):
            if said is not None:
                return said.get("warnings") or ()
        return ()

    @property
    def examples(self) -> Sequence[Mapping[str, Any]]:
        """The counterexamples of the author check."""
        return (self.check or {}).get("counterexamples") or ()

    @property
    def map(self) -> Mapping[str, Any]:
        """The coverage of any target for any request; empty before the first result."""
        targets: Sequence[Mapping[str, Any]] = (self.coverage or {}).get("targets") or ({},)
        return targets[0]

    @property
    def deciding(self) -> tuple[int, str] | None:
        """Index and access of the deciding rule; None if there is none."""
        if self.verdict is None or not self.verdict.get("decidingRule"):
            return None
        return int(self.verdict["decidingRule"]["index"]), (
            "allow" if self.verdict.get("decision") == "allowed" else "deny"
        )


def rule_name(rule: Mapping[str, Any]) -> str:
    """Return a label such as `rule 2 office-only`. Numbers start at 1."""
    name = str(rule.get("name", ""))
    return f"rule {int(rule.get('index', 0)) + 1}" + (f" {name}" if name else "")


def why(verdict: Mapping[str, Any]) -> str:
    """Return the reason of a verdict."""
    if because := verdict.get("because"):
        return safe(because)
    reason = str(verdict.get("reason", ""))
    rule = verdict.get("decidingRule")
    if rule and reason in ("allowed", "explicit_deny"):
        words = f"{REASONS[reason]} {rule_name(rule)}"
        if reason == "explicit_deny" and verdict.get("missing"):
            words += f", as {_missing(verdict)} not known"
        return words
    words = REASONS.get(reason, reason.replace("_", " "))
    nearest = verdict.get("nearestRule")
    if reason == "unknown_context" and verdict.get("missing"):
        words = f"{_missing(verdict)} not known"
    if nearest:
        words += f"; nearest is {rule_name(nearest)}: {failed(nearest.get('failed'))}"
    return words


def _missing(verdict: Mapping[str, Any]) -> str:
    keys = [str(one.get("key", "")) for one in verdict["missing"]]
    return ", ".join(keys) + (" is" if len(keys) == 1 else " are")


def failed(part: object) -> str:
    """Describe the part of the nearest rule that failed."""
    text = str(part or "")
    return {
        "operations": "it is about other operations",
        "targets": "it is about other targets",
        "author": "you do not hold it yourself",
    }.get(text, f"{text} does not hold" if text else "")


def place(problem: Problem) -> str:
    """Return the position of a problem, such as `line 4, column 12`."""
    return f"line {problem.get('line', 1)}, column {problem.get('column', 1)}"


def words(problem: Problem) -> str:
    """Return the reason of a problem, with suggestions."""
    meant = problem.get("suggestions") or ()
    return str(problem.get("reason", "")) + (f"; did you mean {' or '.join(map(str, meant))}?" if meant else "")


@dataclass(frozen=True, slots=True)
class Marks:
    """Marks by zero-based line. Kinds are component classes of the pane: problem, warning, allow, deny."""

    lines: Mapping[int, str] = field(default_factory=dict)
    spans: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """Start and end column of the problem in a line."""
    signs: Mapping[int, str] = field(default_factory=dict)


def marks_of(found: Findings, text: str) -> Marks:
    """Return the marks of a text: its problems or, without any, its warnings and the deciding rule."""
    lines = text.split("\n")
    if found.problems:
        return problem_marks(found.problems, lines)
    marks = problem_marks(found.warnings, lines, "warning")
    if found.deciding is None or found.stale or found.request_problem:
        return marks
    index, access = found.deciding
    spans = json_scanner.rules(text, index + 1)
    if index >= len(spans):
        return marks
    kinds, signs = dict(marks.lines), dict(marks.signs)
    lit = json_scanner.Lines(text).range(spans[index])
    for row in lit:
        kinds[row] = access
        signs.setdefault(row, "│")
    signs[lit.start] = "✓" if access == "allow" else "×"
    return Marks(kinds, marks.spans, signs)


def problem_marks(problems: Iterable[Mapping[str, Any]], lines: Sequence[str], kind: str = "problem") -> Marks:
    """Return the marks of problems, whose lines and columns start at 1."""
    kinds: dict[int, str] = {}
    spans: dict[int, tuple[int, int]] = {}
    signs: dict[int, str] = {}
    for problem in problems:
        row = min(max(int(problem.get("line", 1)) - 1, 0), max(0, len(lines) - 1))
        if row in kinds:
            continue
        kinds[row], signs[row] = kind, "!"
        column = max(int(problem.get("column", 1)) - 1, 0)
        text = lines[row] if row < len(lines) else ""
        end = next((end for start, end, _ in json_scanner.painted(text) if start <= column < end), column + 1)
        if column < len(text):
            spans[row] = (column, min(end, len(text)))
    return Marks(kinds, spans, signs)

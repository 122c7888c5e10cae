"""What is known of the draft: the last answers, whether they are still those of the text on the screen, and in words.

While a document cannot be read, or nobody answers, the last answers stay and say that they are old: they never
change into an answer that was not given.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from client.errors import Exit, FrostError
from client.text import safe
from tui.editor.live import Answer
from tui.editor.request import Request

Problem = Mapping[str, Any]
REASONS = {
    "no_match": "no rule matches",
    "explicit_deny": "denied by",
    "allowed": "allowed by",
    "unknown_context": "not everything it depends on is known",
}


@dataclass
class Findings:
    """The last answers of each kind."""

    verdict: Mapping[str, Any] | None = None
    coverage: Mapping[str, Any] | None = None
    check: Mapping[str, Any] | None = None
    problems: Sequence[Problem] = ()
    """Why the newest text cannot be read; empty when it can, or when nobody has looked yet."""
    problem_at: int = 0
    """Which of them the cursor stands on, else the first one."""
    request_problem: str = ""
    """Why the request cannot be tried."""
    asked: Request | None = None
    """The newest request."""
    tried: Request | None = None
    """The one of the verdict."""
    lost: FrostError | None = None
    """Why nothing was answered to the newest text."""
    stopped: bool = False
    """Whether nobody answers because the platform was stopped on purpose."""
    readable_number: int = 0
    """Of the last draft that could be read."""
    fresh: dict[str, bool] = field(default_factory=dict)
    """Kinds whose answer is that of the newest draft."""

    def take(self, answer: Answer) -> None:
        """Note an answer to the newest draft."""
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
        """Note where the cursor stands, from 0; True when it is another problem that is told of now."""
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
        """The text or the request became another: what was said is of an older one until it is said again."""
        self.asked = request
        self.fresh.clear()

    @property
    def stale(self) -> str:
        """Why what is shown is not about the text on the screen; empty while that is being asked, and when it is."""
        if self.problems:
            same = self.tried in (None, self.asked)
            return "as of the last readable text" if same else "of an earlier text and request"
        return "as of the last answer" if self.lost is not None else ""

    @property
    def warnings(self) -> Sequence[Problem]:
        """What is legal in the document but seldom meant."""
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
        """The coverage of any target, whatever the request is; empty before the first answer."""
        targets: Sequence[Mapping[str, Any]] = (self.coverage or {}).get("targets") or ({},)
        return targets[0]

    @property
    def deciding(self) -> tuple[int, str] | None:
        """Index and access of the rule that decides."""
        if self.verdict is None or not self.verdict.get("decidingRule"):
            return None
        return int(self.verdict["decidingRule"]["index"]), (
            "allow" if self.verdict.get("decision") == "allowed" else "deny"
        )


def rule_name(rule: Mapping[str, Any]) -> str:
    """`rule 2 office-only`; numbers count from 1, as people do."""
    name = str(rule.get("name", ""))
    return f"rule {int(rule.get('index', 0)) + 1}" + (f" {name}" if name else "")


def why(verdict: Mapping[str, Any]) -> str:
    """The reason of a verdict in one sentence."""
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
    """What failed of the nearest rule, in words."""
    text = str(part or "")
    return {
        "operations": "it is about other operations",
        "targets": "it is about other targets",
        "author": "you do not hold it yourself",
    }.get(text, f"{text} does not hold" if text else "")


def place(problem: Problem) -> str:
    """`line 4, column 12`."""
    return f"line {problem.get('line', 1)}, column {problem.get('column', 1)}"


def words(problem: Problem) -> str:
    """The reason of a problem with what may have been meant."""
    meant = problem.get("suggestions") or ()
    return str(problem.get("reason", "")) + (f"; did you mean {' or '.join(map(str, meant))}?" if meant else "")

"""Why a request is decided as it is: every rule and every part of it as true, false or unknown.

The slower path beside the engine. The verdict is the engine's own; a test holds the two together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from client.policy.engine import Engine, GrantedRule, Source
from client.policy.matching import (
    STAR,
    OperationPattern,
    Target,
    may_cover,
    must_cover,
    parse_operation,
    parse_target,
    resolve_target,
)
from client.policy.model import (
    CURRENT_TIME,
    PRINCIPAL_TYPE,
    REGION,
    REQUEST_TAG,
    RESOURCE_TAG,
    SOURCE_IP,
    TENANT,
    AccessRequest,
    Constraint,
    RequestContext,
)
from client.policy.partial import exists_allowed_target


class Truth(StrEnum):
    """Three values: a fact may be known to hold, known not to, or not known."""

    TRUE = "true"
    FALSE = "false"
    UNKNOWN = "unknown"


class Reason(StrEnum):
    """Why, in one word (checklist S10)."""

    EXPLICIT_DENY = "explicit_deny"
    ALLOWED = "allowed"
    NO_MATCH = "no_match"
    UNKNOWN_CONTEXT = "unknown_context"


@dataclass(frozen=True, slots=True)
class ConstraintTrace:
    """One constraint of a rule and how it came out."""

    operator: str
    key: str
    values: tuple[str, ...]
    truth: Truth

    def __str__(self) -> str:
        return f"{self.operator} {self.key} {', '.join(self.values)}"


@dataclass(frozen=True, slots=True)
class RuleTrace:
    """One rule with all its parts; `fires` says whether it takes part in the decision."""

    source: Source
    name: str
    access: str
    operation: Truth
    target: Truth
    constraints: tuple[ConstraintTrace, ...]
    # An allow beyond its author's present rights gives nothing: None where the rule has no cap.
    within_author: bool | None
    fires: bool

    @property
    def truth(self) -> Truth:
        """All parts together."""
        return _all(self.operation, self.target, *(part.truth for part in self.constraints))

    def failing(self) -> list[str]:
        """The parts that are not surely true, in the order they are written."""
        named = [("operations", self.operation), ("targets", self.target)]
        named += [(str(part), part.truth) for part in self.constraints]
        return [name for name, truth in named if truth is not Truth.TRUE]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The decision on a request and what it rests on."""

    allowed: bool
    reason: Reason
    deciding: RuleTrace | None
    # On a refusal without a deny: the allow that came nearest, and the one part to look at first.
    nearest: RuleTrace | None
    failed: str | None
    rules: tuple[RuleTrace, ...]
    # With unknown target parts: whether some target there would be allowed; None where it took too long to find out.
    some_target: bool | None
    # The facts that, if known, could turn the decision: the names of their keys.
    missing: tuple[str, ...]


def explain(engine: Engine, question: AccessRequest) -> Explanation:
    """Decide a request and say why. The operation and the target must be well-formed (`PatternRefused` otherwise)."""
    operation = parse_operation(question.operation)
    target = resolve_target(parse_target(question.target), operation.service, question.facts.region)
    tracer = _Tracer(engine, operation, target, question.facts)
    traces = tuple([tracer.trace(number, granted) for number, granted in enumerate(engine.rules, 1)])
    verdict = engine.decide(str(operation), str(target), question.facts)
    deciding = traces[abs(verdict) - 1] if verdict else None
    undecided = [trace for trace in traces if trace.access == "allow" and trace.truth is Truth.UNKNOWN]
    if verdict:
        reason = Reason.ALLOWED if verdict > 0 else Reason.EXPLICIT_DENY
    else:
        reason = Reason.UNKNOWN_CONTEXT if undecided else Reason.NO_MATCH
    nearest = _nearest(traces) if verdict == 0 else None
    return Explanation(
        allowed=verdict > 0,
        reason=reason,
        deciding=deciding,
        nearest=nearest,
        failed=next(iter(nearest.failing()), "author") if nearest is not None else None,
        rules=traces,
        some_target=exists_allowed_target(engine, operation, target, question.facts) if STAR in target else None,
        missing=_missing(traces, verdict),
    )


def explain_unmatched(explained: Explanation) -> Explanation:
    """Return the explanation of a request that no rule can be about: denied, and no rule covers its target."""
    rules = tuple(replace(trace, target=Truth.FALSE, fires=False) for trace in explained.rules)
    nearest = _nearest(rules)
    return Explanation(
        allowed=False,
        reason=Reason.NO_MATCH,
        deciding=None,
        nearest=nearest,
        failed="targets" if nearest is not None else None,
        rules=rules,
        some_target=None,
        missing=(),
    )


class _Tracer:
    """The traces of all rules for one request. A pattern or constraint that several rules have is tried once."""

    def __init__(self, engine: Engine, operation: OperationPattern, target: Target, facts: RequestContext) -> None:
        self._engine = engine
        self._operation = str(operation)
        self._target = target
        self._facts = facts
        self._candidates = frozenset(engine.candidates(operation))
        self._targets: dict[Target, Truth] = {}
        self._parts: dict[Constraint, ConstraintTrace] = {}

    def trace(self, number: int, granted: GrantedRule) -> RuleTrace:
        """Return the trace of a rule; `number` counts from 1."""
        rule = granted.rule
        matches = Truth.TRUE if number in self._candidates else Truth.FALSE
        where = self._where(rule.targets)
        parts = tuple([self._part(constraint) for constraint in rule.constraints])
        within = None
        if granted.cap is not None and not rule.denies:
            within = granted.cap.decide(self._operation, str(self._target), self._facts) > 0
        whole = _all(matches, where, *[part.truth for part in parts])
        fires = whole is not Truth.FALSE if rule.denies else whole is Truth.TRUE and within is not False
        return RuleTrace(granted.source, rule.name, rule.access, matches, where, parts, within, fires)

    def _where(self, patterns: Sequence[Target]) -> Truth:
        found = Truth.FALSE
        for pattern in patterns:
            truth = self._targets.get(pattern)
            if truth is None:
                truth = self._targets[pattern] = _target_truth(pattern, self._target)
            if truth is Truth.TRUE:
                return truth
            if truth is Truth.UNKNOWN:
                found = truth
        return found

    def _part(self, constraint: Constraint) -> ConstraintTrace:
        part = self._parts.get(constraint)
        if part is None:
            surely, possibly = self._engine.truth_tests(constraint)
            truth = Truth.TRUE if surely(self._facts) else Truth.UNKNOWN if possibly(self._facts) else Truth.FALSE
            part = self._parts[constraint] = ConstraintTrace(*constraint, truth)
        return part


def _target_truth(pattern: Target, asked: Target) -> Truth:
    if must_cover(pattern, asked):
        return Truth.TRUE
    return Truth.UNKNOWN if may_cover(pattern, asked) else Truth.FALSE


def _all(*truths: Truth) -> Truth:
    if Truth.FALSE in truths:
        return Truth.FALSE
    return Truth.UNKNOWN if Truth.UNKNOWN in truths else Truth.TRUE


def _nearest(traces: tuple[RuleTrace, ...]) -> RuleTrace | None:
    """The allow with the fewest parts against it: the operation weighs most, unknown less than false."""

    def distance(trace: RuleTrace) -> int:
        against = 16 * (trace.operation is not Truth.TRUE)
        for truth in (trace.target, *(part.truth for part in trace.constraints)):
            against += {Truth.TRUE: 0, Truth.UNKNOWN: 1, Truth.FALSE: 2}[truth]
        return against

    allows = [trace for trace in traces if trace.access == "allow"]
    return min(allows, key=distance, default=None)


def _missing(traces: tuple[RuleTrace, ...], verdict: int) -> tuple[str, ...]:
    """Keys that are unknown in rules which would otherwise count: denies that fire for it, allows that do not."""
    keys: dict[str, None] = {}
    for trace in traces:
        counts = trace.access == "deny" or verdict == 0
        if counts and trace.truth is Truth.UNKNOWN:
            for part in trace.constraints:
                if part.truth is Truth.UNKNOWN:
                    keys[part.key] = None
    return tuple(keys)


FLAGS = {
    SOURCE_IP: "--source-ip",
    CURRENT_TIME: "--time",
    REGION: "--region",
    PRINCIPAL_TYPE: "--principal-type",
    TENANT: "--tenant",
}


def flag_for(key: str) -> str:
    """The flag of `iam simulate` that makes a fact known (checklist S15)."""
    if key.startswith(REQUEST_TAG):
        return "--request-tag"
    return "--resource-tag" if key.startswith(RESOURCE_TAG) else FLAGS[key]

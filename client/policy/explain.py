"""Explains a decision and the difference between two sets of rules. Slower than the engine.

In a decision, each part of each rule is true, false or unknown. The effects of two sets of rules on a target are
compared, unconditional and under conditions.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from client.policy import model
from client.policy.coverage import CatalogueMasks, Coverage
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
    Rule,
)
from client.policy.partial import exists_allowed_target


class Truth(StrEnum):
    TRUE = "true"
    FALSE = "false"
    UNKNOWN = "unknown"


class Reason(StrEnum):
    EXPLICIT_DENY = "explicit_deny"
    ALLOWED = "allowed"
    NO_MATCH = "no_match"
    UNKNOWN_CONTEXT = "unknown_context"


@dataclass(frozen=True, slots=True)
class ConstraintTrace:
    operator: str
    key: str
    values: tuple[str, ...]
    truth: Truth

    def __str__(self) -> str:
        return f"{self.operator} {self.key} {', '.join(self.values)}"


@dataclass(frozen=True, slots=True)
class RuleTrace:
    """A rule with the truth of its parts. `applies` is true if the rule takes part in the decision."""

    source: Source
    name: str
    effect: str
    operation: Truth
    target: Truth
    constraints: tuple[ConstraintTrace, ...]
    # Whether the author currently has the right; None without a cap.
    within_author: bool | None
    applies: bool

    @property
    def truth(self) -> Truth:
        return _conjunction(self.operation, self.target, *(part.truth for part in self.constraints))

    def failing_parts(self) -> list[str]:
        parts = [("operations", self.operation), ("targets", self.target)]
        parts += [(str(part), part.truth) for part in self.constraints]
        return [name for name, truth in parts if truth is not Truth.TRUE]


@dataclass(frozen=True, slots=True)
class Explanation:
    allowed: bool
    reason: Reason
    deciding_rule: RuleTrace | None
    # If no rule matched: the allow with the fewest failing parts, and the first of these, or `author`.
    nearest_rule: RuleTrace | None
    failed_part: str | None
    rules: tuple[RuleTrace, ...]
    # Whether some value of the target's unknown parts is allowed; None without unknown parts or beyond the budget.
    some_target_allowed: bool | None
    # Unknown keys that could change the decision.
    missing_keys: tuple[str, ...]


def explain(engine: Engine, request: AccessRequest) -> Explanation:
    """Decide a request and explain the decision. Raises `InvalidPattern` for a malformed operation or target."""
    operation = parse_operation(request.operation)
    target = resolve_target(parse_target(request.target), operation.service, request.context.region)
    tracer = _Tracer(engine, operation, target, request.context)
    traces = tuple([tracer.trace(number, granted) for number, granted in enumerate(engine.rules, 1)])
    decision = engine.decide(str(operation), str(target), request.context)
    deciding_rule = traces[abs(decision) - 1] if decision else None
    undecided = [trace for trace in traces if trace.effect == "allow" and trace.truth is Truth.UNKNOWN]
    if decision:
        reason = Reason.ALLOWED if decision > 0 else Reason.EXPLICIT_DENY
    else:
        reason = Reason.UNKNOWN_CONTEXT if undecided else Reason.NO_MATCH
    nearest_rule = _nearest(traces) if decision == 0 else None
    return Explanation(
        allowed=decision > 0,
        reason=reason,
        deciding_rule=deciding_rule,
        nearest_rule=nearest_rule,
        failed_part=next(iter(nearest_rule.failing_parts()), "author") if nearest_rule is not None else None,
        rules=traces,
        some_target_allowed=exists_allowed_target(engine, operation, target, request.context)
        if STAR in target
        else None,
        missing_keys=_missing(traces, decision),
    )


def explain_unmatched(explanation: Explanation) -> Explanation:
    """Return the explanation for a target that no rule covers."""
    rules = tuple(replace(trace, target=Truth.FALSE, applies=False) for trace in explanation.rules)
    nearest_rule = _nearest(rules)
    return Explanation(
        allowed=False,
        reason=Reason.NO_MATCH,
        deciding_rule=None,
        nearest_rule=nearest_rule,
        failed_part="targets" if nearest_rule is not None else None,
        rules=rules,
        some_target_allowed=None,
        missing_keys=(),
    )


class _Tracer:
    def __init__(self, engine: Engine, operation: OperationPattern, target: Target, context: RequestContext) -> None:
        self._engine = engine
        self._operation = str(operation)
        self._target = target
        self._context = context
        self._candidates = frozenset(engine.candidates(operation))
        self._targets: dict[Target, Truth] = {}
        self._constraint_traces: dict[Constraint, ConstraintTrace] = {}

    def trace(self, number: int, granted: GrantedRule) -> RuleTrace:
        rule = granted.rule
        operation_truth = Truth.TRUE if number in self._candidates else Truth.FALSE
        target_truth = self._target_truth_of(rule.targets)
        parts = tuple([self._constraint_trace(constraint) for constraint in rule.constraints])
        within_author = None
        if granted.cap is not None and not rule.denies:
            within_author = granted.cap.decide(self._operation, str(self._target), self._context) > 0
        truth = _conjunction(operation_truth, target_truth, *[part.truth for part in parts])
        applies = truth is not Truth.FALSE if rule.denies else truth is Truth.TRUE and within_author is not False
        return RuleTrace(
            granted.source, rule.name, rule.effect, operation_truth, target_truth, parts, within_author, applies
        )

    def _target_truth_of(self, patterns: Sequence[Target]) -> Truth:
        result = Truth.FALSE
        for pattern in patterns:
            truth = self._targets.get(pattern)
            if truth is None:
                truth = self._targets[pattern] = _target_truth(pattern, self._target)
            if truth is Truth.TRUE:
                return truth
            if truth is Truth.UNKNOWN:
                result = truth
        return result

    def _constraint_trace(self, constraint: Constraint) -> ConstraintTrace:
        part = self._constraint_traces.get(constraint)
        if part is None:
            surely, possibly = self._engine.truth_tests(constraint)
            truth = Truth.TRUE if surely(self._context) else Truth.UNKNOWN if possibly(self._context) else Truth.FALSE
            part = self._constraint_traces[constraint] = ConstraintTrace(*constraint, truth)
        return part


def _target_truth(pattern: Target, requested: Target) -> Truth:
    if must_cover(pattern, requested):
        return Truth.TRUE
    return Truth.UNKNOWN if may_cover(pattern, requested) else Truth.FALSE


def _conjunction(*truths: Truth) -> Truth:
    if Truth.FALSE in truths:
        return Truth.FALSE
    return Truth.UNKNOWN if Truth.UNKNOWN in truths else Truth.TRUE


def _nearest(traces: tuple[RuleTrace, ...]) -> RuleTrace | None:
    """Return the allow with the fewest failing parts: the operation weighs most, unknown less than false."""

    def distance(trace: RuleTrace) -> int:
        penalty = 16 * (trace.operation is not Truth.TRUE)
        for truth in (trace.target, *(part.truth for part in trace.constraints)):
            penalty += {Truth.TRUE: 0, Truth.UNKNOWN: 1, Truth.FALSE: 2}[truth]
        return penalty

    allows = [trace for trace in traces if trace.effect == "allow"]
    return min(allows, key=distance, default=None)


def _missing(traces: tuple[RuleTrace, ...], decision: int) -> tuple[str, ...]:
    """Return the unknown keys of denies and, if no rule matched, of allows."""
    keys: dict[str, None] = {}
    for trace in traces:
        is_relevant = trace.effect == "deny" or decision == 0
        if is_relevant and trace.truth is Truth.UNKNOWN:
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
    """Return the flag of `frost iam simulate` that sets a key."""
    if key.startswith(REQUEST_TAG):
        return "--request-tag"
    return "--resource-tag" if key.startswith(RESOURCE_TAG) else FLAGS[key]


class Condition(NamedTuple):
    """Condition for a rule to match: one of the targets (any if empty), and all constraints."""

    denies: bool
    targets: frozenset[Target]
    constraints: frozenset[tuple[str, str, frozenset[str]]]


def conditions_by_target(
    masks: CatalogueMasks, rules: Iterable[GrantedRule], targets: Iterable[tuple[Target, int]], context: RequestContext
) -> list[dict[Condition, int]]:
    """Return, for each target, its conditions with the requested operations that they apply to."""
    open_rules = [_OpenRule(masks, granted.rule, context) for granted in rules]
    results = []
    for target, operations in targets:
        result: dict[Condition, int] = {}
        for rule in open_rules:
            if rule.mask & operations:
                for patterns, within in rule.conditions_on(target):
                    condition = Condition(rule.denies, patterns, rule.constraints)
                    result[condition] = result.get(condition, 0) | rule.mask & within & operations
        results.append(result)
    return results


def differing_operations(before: dict[Condition, int], after: dict[Condition, int]) -> int:
    mask = 0
    for condition in before.keys() | after.keys():
        mask |= before.get(condition, 0) ^ after.get(condition, 0)
    return mask


def classify_changes(before: Coverage, after: Coverage, differing: int) -> dict[str, int]:
    """Return the operations that change on one target, by kind of change.

    `gained` and `lost` are unconditional. `nowUnconditional` were allowed under conditions before; `nowConditional`
    still are. `conditionalGained` were not allowed before; `conditionalLost` are no longer allowed.
    """
    allowed_before, allowed_after = before.effective, after.effective
    conditional_before, conditional_after = before.conditional, after.conditional
    return {
        "gained": allowed_after & ~allowed_before,
        "lost": allowed_before & ~allowed_after,
        "nowUnconditional": conditional_before & allowed_after,
        "nowConditional": allowed_before & conditional_after,
        "conditionalGained": conditional_after & ~conditional_before & ~allowed_before,
        "conditionalLost": conditional_before & ~conditional_after & ~allowed_after,
        "conditionsChanged": conditional_before & conditional_after & differing,
    }


class _OpenRule:
    """A rule as a mask of operations, target patterns, and constraints that the context does not satisfy."""

    __slots__ = ("constraints", "denies", "mask", "masks", "patterns", "region")

    def __init__(self, masks: CatalogueMasks, rule: Rule, context: RequestContext) -> None:
        self.masks = masks
        self.denies = rule.denies
        self.region = context.region
        constraints = [constraint for constraint in rule.constraints if not model.must_hold(constraint)(context)]
        self.constraints = frozenset(
            (constraint.operator, constraint.key, frozenset(constraint.values)) for constraint in constraints
        )
        never = any(not model.may_hold(constraint)(context) for constraint in constraints)
        self.mask = 0 if never else masks.for_rule(rule)
        self.patterns = [] if never else [(target.service, target._replace(service=STAR)) for target in rule.targets]

    def conditions_on(self, target: Target) -> Iterator[tuple[frozenset[Target], int]]:
        """Yield the patterns that may cover a target (none if one must cover it), with operations of their service."""
        requested = resolve_target(target, STAR, self.region)
        open_service = target.service == STAR
        applicable = [
            (service if open_service else STAR, pattern)
            for service, pattern in self.patterns
            if (open_service or service in (STAR, target.service)) and may_cover(pattern, requested)
        ]
        services = {service for service, _ in applicable} - {STAR}
        rest = self.masks.all
        for service in services:
            operations = self.masks.for_service(service)
            rest &= ~operations
            yield _deciding([pattern for own, pattern in applicable if own in (STAR, service)], requested), operations
        general = [pattern for own, pattern in applicable if own == STAR]
        if general:
            yield _deciding(general, requested), rest


def _deciding(patterns: Sequence[Target], requested: Target) -> frozenset[Target]:
    return frozenset(() if any(must_cover(pattern, requested) for pattern in patterns) else patterns)

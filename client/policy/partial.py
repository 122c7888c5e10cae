"""Partial evaluation of requests with unknown attributes or target parts.

`exists_allowed_target` searches for an allowed value of the target's unknown parts: "not allowed on all" does not mean
"denied on each". It intersects each allow with its author's allows and searches there for a target that no deny covers.
A value that no deny names represents all other values of a field, a witness each class of ids (`class_witnesses`).
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from client.policy.bitsets import Budget, OutOfBudget
from client.policy.engine import Engine, GrantedRule
from client.policy.matching import (
    ANY_TARGET,
    STAR,
    OperationPattern,
    Target,
    class_witnesses,
    compile_glob,
    may_cover,
    must_cover,
    parse_operation,
    parse_target,
)
from client.policy.model import RequestContext
from client.policy.request_classes import unused_value

MAX_WORK_UNITS = 400_000


class UndeterminedRules(NamedTuple):
    """Allows that may apply, and denies that may override them; both empty if the request is certainly denied."""

    allows: tuple[GrantedRule, ...] = ()
    denies: tuple[GrantedRule, ...] = ()


def undetermined_rules(engine: Engine, operation: str, target: str, context: RequestContext) -> UndeterminedRules:
    """Return the rules with effects that depend on unknown attributes. Each rule is evaluated alone."""
    requested = parse_target(target)
    allows, denies = [], []
    for number in engine.candidates(parse_operation(operation)):
        granted = engine.rules[number - 1]
        rule = granted.rule
        if not any(may_cover(pattern, requested) for pattern in rule.targets):
            continue
        tests = [engine.truth_tests(constraint) for constraint in rule.constraints]
        if not all(possibly(context) for _, possibly in tests):
            continue
        if not rule.denies:
            if granted.cap is None or _may_allow(granted.cap, operation, target, context):
                allows.append(granted)
        elif any(must_cover(pattern, requested) for pattern in rule.targets) and all(
            surely(context) for surely, _ in tests
        ):
            return UndeterminedRules()
        else:
            denies.append(granted)
    return UndeterminedRules(tuple(allows), tuple(denies))


def _may_allow(cap: Engine, operation: str, target: str, context: RequestContext) -> bool:
    return cap.decide(operation, target, context) > 0 or bool(
        undetermined_rules(cap, operation, target, context).allows
    )


def exists_allowed_target(
    engine: Engine, operation: OperationPattern, requested: Target, context: RequestContext
) -> bool | None:
    """Return whether some values of the target's unknown parts are allowed; None if undecided."""
    try:
        return _exists_allowed(engine, operation, requested, context, Budget(MAX_WORK_UNITS))
    except OutOfBudget:
        return None


class _Bounds(NamedTuple):
    """Limits of the allows with the same cap: targets allowed to their author, and targets that a deny covers.

    `unnamed` has a value that no deny names for each field except the id.
    """

    allows: Sequence[Target]
    denies: Sequence[Target]
    unnamed: Sequence[str]


def _exists_allowed(
    engine: Engine, operation: OperationPattern, requested: Target, context: RequestContext, budget: Budget
) -> bool:
    bounds: dict[int, _Bounds] = {}
    allows: dict[tuple[int, Target], None] = {}
    own_denies = _targets(engine, operation, requested, context, denying=True)
    for granted in _effective_rules(engine, operation, context, denying=False):
        cap = id(granted.cap)
        if cap not in bounds:
            bounds[cap] = _bounds(granted.cap, own_denies, operation, requested, context)
        allows |= {(cap, pattern): None for pattern in granted.rule.targets if may_cover(pattern, requested)}
    patterns = chain(
        (pattern for _, pattern in allows), *(chain(bound.allows, bound.denies) for bound in bounds.values())
    )
    ids = _IdWitnesses(requested.id, (pattern.id for pattern in patterns), budget)
    for cap, pattern in allows:
        bound = bounds[cap]
        for author_pattern in bound.allows:
            budget.consume(1)
            fields = [_intersect(parts) for parts in zip(requested[:4], pattern[:4], author_pattern[:4], strict=True)]
            if None in fields:
                continue
            values = [unnamed if field == STAR else field for field, unnamed in zip(fields, bound.unnamed, strict=True)]
            for id_ in ids.common(pattern.id, author_pattern.id):
                budget.consume(len(bound.denies))
                witness = Target._make([*map(str, values), id_])
                if not any(must_cover(deny, witness) for deny in bound.denies):
                    return True
    return False


def _bounds(
    cap: Engine | None,
    own_denies: Sequence[Target],
    operation: OperationPattern,
    requested: Target,
    context: RequestContext,
) -> _Bounds:
    allows, denies = [ANY_TARGET], [*own_denies]
    if cap is not None:
        allows = _targets(cap, operation, requested, context, denying=False)
        denies += _targets(cap, operation, requested, context, denying=True)
    return _Bounds(allows, denies, [unused_value([deny[index] for deny in denies]) for index in range(4)])


def _effective_rules(
    engine: Engine, operation: OperationPattern, context: RequestContext, *, denying: bool
) -> Iterator[GrantedRule]:
    """Yield the allows that must hold, or the denies that may hold, for an operation on any target."""
    for number in engine.candidates(operation):
        granted = engine.rules[number - 1]
        rule = granted.rule
        tests = (engine.truth_tests(constraint)[denying] for constraint in rule.constraints)
        if rule.denies is denying and all(test(context) for test in tests):
            yield granted


def _targets(
    engine: Engine, operation: OperationPattern, requested: Target, context: RequestContext, *, denying: bool
) -> list[Target]:
    effective = _effective_rules(engine, operation, context, denying=denying)
    patterns = dict.fromkeys(pattern for granted in effective for pattern in granted.rule.targets)
    return [pattern for pattern in patterns if may_cover(pattern, requested)]


def _intersect(parts: Iterable[str]) -> str | None:
    """Return the common value of fields: `*` for any, None for a contradiction."""
    values = {part for part in parts if part != STAR}
    if len(values) > 1:
        return None
    return values.pop() if values else STAR


class _IdWitnesses:
    """Ids to try: the requested id, or a witness of each class."""

    def __init__(self, requested: str, patterns: Iterable[str], budget: Budget) -> None:
        self.budget = budget
        self.ids = dict.fromkeys([requested] if requested != STAR else class_witnesses(patterns, budget, min_length=1))

    def common(self, *patterns: str) -> Iterator[str]:
        literal = next((pattern for pattern in patterns if pattern in self.ids), None)
        matchers = [compile_glob(pattern) for pattern in patterns]
        for id_ in self.ids if literal is None else (literal,):
            self.budget.consume(1)
            if all(matches(id_) for matches in matchers):
                yield id_

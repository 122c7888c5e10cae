"""Which rules a request depends on that is not allowed for certain: what is not known of it may turn out for them.

Whether some value of a target's unknown parts would be allowed: "denied for all of it" is not "denied for each".

An allow is met with its author's allows into the widest target both cover, and of that one name is looked for that no
deny covers. A field nobody names is as far from every deny as there is; ids are tried class by class (`glob_classes`).
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from client.policy.bitsets import Budget, OutOfBudget
from client.policy.engine import Engine, GrantedRule
from client.policy.glob_classes import class_witnesses
from client.policy.matching import (
    ANY_TARGET,
    STAR,
    OperationPattern,
    Target,
    compile_glob,
    may_cover,
    must_cover,
    parse_operation,
    parse_target,
)
from client.policy.model import RequestContext
from client.policy.request_classes import unused_value


class UndeterminedRules(NamedTuple):
    """The allows that may hold and the denies that may stand against them; both empty where nothing can turn out."""

    allows: tuple[GrantedRule, ...] = ()
    denies: tuple[GrantedRule, ...] = ()


def undetermined_rules(engine: Engine, operation: str, target: str, facts: RequestContext) -> UndeterminedRules:
    """What the facts and target parts that are not known decide. Each rule is looked at by itself, as in a map."""
    asked = parse_target(target)
    allows, denies = [], []
    for number in engine.candidates(parse_operation(operation)):
        granted = engine.rules[number - 1]
        rule = granted.rule
        if not any(may_cover(pattern, asked) for pattern in rule.targets):
            continue
        tests = [engine.truth_tests(constraint) for constraint in rule.constraints]
        if not all(possibly(facts) for _, possibly in tests):
            continue
        if not rule.denies:
            if granted.cap is None or _may(granted.cap, operation, target, facts):
                allows.append(granted)
        elif any(must_cover(pattern, asked) for pattern in rule.targets) and all(surely(facts) for surely, _ in tests):
            return UndeterminedRules()
        else:
            denies.append(granted)
    return UndeterminedRules(tuple(allows), tuple(denies))


def _may(cap: Engine, operation: str, target: str, facts: RequestContext) -> bool:
    return cap.decide(operation, target, facts) > 0 or bool(undetermined_rules(cap, operation, target, facts).allows)


MAX_WORK_UNITS = 400_000
"""Units of work; beyond, nobody says."""


def exists_allowed_target(
    engine: Engine, operation: OperationPattern, asked: Target, facts: RequestContext
) -> bool | None:
    """Whether the rules allow the operation on some target the asked one may turn out to be; None: not found out."""
    try:
        return _some_target(engine, operation, asked, facts, Budget(MAX_WORK_UNITS))
    except OutOfBudget:
        return None


class _Bounds(NamedTuple):
    """Where some allows end: the targets their author is allowed, and those that anybody is denied.

    `free` has for each field but the id a value that no deny names.
    """

    allows: Sequence[Target]
    denies: Sequence[Target]
    free: Sequence[str]


def _some_target(
    engine: Engine, operation: OperationPattern, asked: Target, facts: RequestContext, work: Budget
) -> bool:
    bounds: dict[int, _Bounds] = {}
    allows: dict[tuple[int, Target], None] = {}
    own = _targets(engine, operation, asked, facts, denying=True)
    for granted in _counting(engine, operation, facts, denying=False):
        cap = id(granted.cap)
        if cap not in bounds:
            bounds[cap] = _bounds(granted.cap, own, operation, asked, facts)
        allows |= {(cap, pattern): None for pattern in granted.rule.targets if may_cover(pattern, asked)}
    named = chain((pattern for _, pattern in allows), *(chain(one.allows, one.denies) for one in bounds.values()))
    ids = _Ids(asked.id, (pattern.id for pattern in named), work)
    for cap, pattern in allows:
        author = bounds[cap]
        for other in author.allows:
            work.spend(1)
            fields = [_met(parts) for parts in zip(asked[:4], pattern[:4], other[:4], strict=True)]
            if None in fields:
                continue
            chosen = [free if field == STAR else field for field, free in zip(fields, author.free, strict=True)]
            for name in ids.common(pattern.id, other.id):
                work.spend(len(author.denies))
                witness = Target._make([*map(str, chosen), name])
                if not any(must_cover(deny, witness) for deny in author.denies):
                    return True
    return False


def _bounds(
    cap: Engine | None, own: Sequence[Target], operation: OperationPattern, asked: Target, facts: RequestContext
) -> _Bounds:
    allows, denies = [ANY_TARGET], [*own]
    if cap is not None:
        allows = _targets(cap, operation, asked, facts, denying=False)
        denies += _targets(cap, operation, asked, facts, denying=True)
    return _Bounds(allows, denies, [unused_value([deny[place] for deny in denies]) for place in range(4)])


def _counting(
    engine: Engine, operation: OperationPattern, facts: RequestContext, *, denying: bool
) -> Iterator[GrantedRule]:
    """Yield the rules of one kind that count for an operation, apart from their targets."""
    for number in engine.candidates(operation):
        granted = engine.rules[number - 1]
        rule = granted.rule
        # An allow counts where it surely holds, a deny where it may.
        tests = (engine.truth_tests(constraint)[denying] for constraint in rule.constraints)
        if rule.denies is denying and all(test(facts) for test in tests):
            yield granted


def _targets(
    engine: Engine, operation: OperationPattern, asked: Target, facts: RequestContext, *, denying: bool
) -> list[Target]:
    counting = _counting(engine, operation, facts, denying=denying)
    patterns = dict.fromkeys(pattern for granted in counting for pattern in granted.rule.targets)
    return [pattern for pattern in patterns if may_cover(pattern, asked)]


def _met(parts: Iterable[str]) -> str | None:
    """The one value some fields leave; `*` for any, None where they contradict each other."""
    named = {part for part in parts if part != STAR}
    if len(named) > 1:
        return None
    return named.pop() if named else STAR


class _Ids:
    """Names to try for an id: the asked one, or one of each class that the patterns tell apart."""

    def __init__(self, asked: str, patterns: Iterable[str], work: Budget) -> None:
        self.work = work
        self.names = dict.fromkeys([asked] if asked != STAR else class_witnesses(patterns, work, shortest=1))

    def common(self, *patterns: str) -> Iterator[str]:
        """Those that all of the patterns match."""
        literal = next((pattern for pattern in patterns if pattern in self.names), None)
        tests = [compile_glob(pattern) for pattern in patterns]
        for name in self.names if literal is None else (literal,):
            self.work.spend(1)
            if all(test(name) for test in tests):
                yield name

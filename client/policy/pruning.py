"""Removes rules from the author check that a single rule of the other side settles, by comparing their text.

Also groups rules so that few globs are compared at a time.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import combinations, product

from client.policy import conditions
from client.policy.matching import ANY_TARGET, STAR, OperationPattern, Target
from client.policy.model import TENANT, Constraint, RequestContext, Rule

MAX_SUBSETS = 4
"""Rules with more constraints are not looked up by every subset."""
MAX_GLOBS = 3
"""Entangled globs of a dimension that are compared at a time."""

Scope = tuple[frozenset[Target], frozenset[Constraint]]


_ANYWHERE = frozenset((ANY_TARGET,))


def restrict_to_tenant(rule: Rule, tenant: str) -> Rule | None:
    """Return a rule without constraints on `frn:tenant`; None if it matches no request."""
    targets = tuple([target for target in rule.targets if target.tenant in (STAR, tenant)])
    constraints = tuple([constraint for constraint in rule.constraints if constraint.key != TENANT])
    if len(targets) == len(rule.targets) and len(constraints) == len(rule.constraints):
        return rule
    context = RequestContext(tenant=tenant)
    if not targets or not all(
        conditions.must_hold(constraint)(context) for constraint in rule.constraints if constraint.key == TENANT
    ):
        return None
    return replace(rule, targets=targets, constraints=constraints)


class RuleIndex:
    """Operation patterns of rules by scope, to find a rule that contains another."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._operations: dict[Scope, set[OperationPattern]] = {}
        for rule in rules:
            self._operations.setdefault(scope_of(rule), set()).update(rule.operations)

    def uncovered(self, rule: Rule) -> Rule | None:
        """Return the rule with the operations that no single indexed rule covers; None if all are covered."""
        if not self._operations:
            return rule
        targets, constraints = scope_of(rule)
        wider_rules = [
            operations
            for subset in _subsets(constraints)
            for targets_key in dict.fromkeys((targets, _ANYWHERE))
            if (operations := self._operations.get((targets_key, subset)))
        ]
        if not wider_rules:
            return rule
        uncovered_operations = tuple(
            pattern
            for pattern in rule.operations
            if all(operations.isdisjoint(_at_least(pattern)) for operations in wider_rules)
        )
        if len(uncovered_operations) == len(rule.operations):
            return rule
        return replace(rule, operations=uncovered_operations) if uncovered_operations else None


def scope_of(rule: Rule) -> Scope:
    """Return the canonical scope of a rule that `restrict_to_tenant` returned."""
    targets = frozenset(map(_in_tenant, rule.targets))
    return (_ANYWHERE if ANY_TARGET in targets else targets), frozenset(rule.constraints)


def uncovered_rules(rules: Iterable[Rule], index: RuleIndex) -> list[Rule]:
    """Return the parts of rules that no single indexed rule covers, without duplicates."""
    result: dict[tuple[frozenset[OperationPattern], Scope], Rule] = {}
    for rule in rules:
        remainder = index.uncovered(rule)
        if remainder is not None:
            result.setdefault((frozenset(remainder.operations), scope_of(remainder)), remainder)
    return list(result.values())


def _in_tenant(target: Target) -> Target:
    """Return the target with tenant `*`, and an id of stars as a single star."""
    id_ = target.id if target.id.strip(STAR) else STAR
    if target.tenant == STAR and id_ is target.id:
        return target
    return Target(target.service, target.region, STAR, target.type, id_)


def _subsets(constraints: frozenset[Constraint]) -> Iterator[frozenset[Constraint]]:
    """Yield sets of constraints that hold wherever these hold, by their text."""
    yield constraints
    if len(constraints) <= MAX_SUBSETS:
        for size in range(len(constraints)):
            yield from map(frozenset, combinations(constraints, size))
    else:
        yield frozenset()


@lru_cache(maxsize=4_096)
def _at_least(pattern: OperationPattern) -> frozenset[tuple[str, str, str]]:
    """Return all patterns that match every operation of this one."""
    services, resources, actions = ((part, STAR) for part in pattern)
    return frozenset(product(services, resources, actions))


def split_entangled(rule: Rule) -> list[Rule]:
    """Split a rule into equivalent rules with few entangled ids each."""
    entangled_targets = [target for target in rule.targets if _is_entangled(target.id)]
    if len(entangled_targets) <= MAX_GLOBS:
        return [rule]
    plain = tuple(target for target in rule.targets if not _is_entangled(target.id))
    parts = [plain] if plain else []
    parts += [(target,) for target in entangled_targets]
    return [replace(rule, targets=part) for part in parts]


class GlobSet:
    """The entangled globs of some rules. Each further glob of a dimension may double its classes."""

    def __init__(self, globs: Iterable[tuple[str, str]] = ()) -> None:
        self.globs = set(globs)

    def try_add(self, rule: Rule) -> bool:
        """Add the globs of a rule, unless a dimension would have too many."""
        additional = entangled_globs(rule) - self.globs
        if additional:
            counts: dict[str, int] = {}
            for key, _ in (*self.globs, *additional):
                counts[key] = counts.get(key, 0) + 1
            if any(counts[key] > MAX_GLOBS for key, _ in additional):
                return False
            self.globs |= additional
        return True


def group_rules(rules: Iterable[Rule]) -> list[list[Rule]]:
    """Group rules so that each group has few entangled globs, plain rules first."""
    groups: list[tuple[GlobSet, list[Rule]]] = []
    for rule in sorted(rules, key=lambda rule: bool(entangled_globs(rule))):
        if not groups or not groups[-1][0].try_add(rule):
            groups.append((GlobSet(entangled_globs(rule)), []))
        groups[-1][1].append(rule)
    return [group for _, group in groups]


def entangled_globs(rule: Rule) -> set[tuple[str, str]]:
    """Return the globs of a rule with text after a star, each with the key of its dimension."""
    globs = {("", target.id) for target in rule.targets if _is_entangled(target.id)}
    globs |= {(c.key, c.values[0]) for c in rule.constraints if c.operator == "like" and _is_entangled(c.values[0])}
    return globs


def _is_entangled(pattern: str) -> bool:
    """Return whether a glob has text after a star. Trailing stars are cheap to distinguish."""
    return STAR in pattern.rstrip(STAR)

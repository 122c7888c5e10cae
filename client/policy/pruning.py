"""Which rules the author check must still compare: those that one rule of the other side does not already settle.

Everything here is decided by the text of the rules, without cutting the space of requests: a rule that occurs on both
sides, an allow within an unconditional one, an author's deny that the draft repeats.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import combinations, product

from client.policy import conditions
from client.policy.matching import ANY_TARGET, STAR, OperationPattern, Target
from client.policy.model import TENANT, Constraint, RequestContext, Rule

MAX_SUBSETS = 4
"""Constraints of a rule of which every subset is looked up."""
MAX_GLOBS = 3
"""Entangled globs that are compared with each other on one coordinate at a time."""

Scope = tuple[frozenset[Target], frozenset[Constraint]]
"""Where a rule matches, apart from its operations."""

_ANYWHERE = frozenset((ANY_TARGET,))


def restrict_to_tenant(rule: Rule, tenant: str) -> Rule | None:
    """Return the rule as it counts in a tenant, without constraints on `frn:tenant`; None if it never matches there."""
    targets = tuple([target for target in rule.targets if target.tenant in (STAR, tenant)])
    kept = tuple([one for one in rule.constraints if one.key != TENANT])
    if len(targets) == len(rule.targets) and len(kept) == len(rule.constraints):
        return rule
    facts = RequestContext(tenant=tenant)
    if not targets or not all(conditions.must_hold(one)(facts) for one in rule.constraints if one.key == TENANT):
        return None
    return replace(rule, targets=targets, constraints=kept)


class RuleIndex:
    """Operation patterns of some rules by their scope, to find whether one of them holds another rule."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._operations: dict[Scope, set[OperationPattern]] = {}
        for rule in rules:
            self._operations.setdefault(scope_of(rule), set()).update(rule.operations)

    def rest(self, rule: Rule) -> Rule | None:
        """Return the rule with those operations that no single one of the rules gives; None if there are none."""
        if not self._operations:
            return rule
        targets, constraints = scope_of(rule)
        wider = [
            held
            for fewer in _subsets(constraints)
            for place in dict.fromkeys((targets, _ANYWHERE))
            if (held := self._operations.get((place, fewer)))
        ]
        if not wider:
            return rule
        left = tuple(
            pattern for pattern in rule.operations if all(held.isdisjoint(_at_least(pattern)) for held in wider)
        )
        if len(left) == len(rule.operations):
            return rule
        return replace(rule, operations=left) if left else None


def scope_of(rule: Rule) -> Scope:
    """Return where an applicable rule matches, in a form in which equal scopes are equal."""
    targets = frozenset(map(_in_tenant, rule.targets))
    return (_ANYWHERE if ANY_TARGET in targets else targets), frozenset(rule.constraints)


def uncovered_rules(rules: Iterable[Rule], settled: RuleIndex) -> list[Rule]:
    """Return what no single one of the settled rules holds, each rule once."""
    found: dict[tuple[frozenset[OperationPattern], Scope], Rule] = {}
    for rule in rules:
        rest = settled.rest(rule)
        if rest is not None:
            found.setdefault((frozenset(rest.operations), scope_of(rest)), rest)
    return list(found.values())


def _in_tenant(target: Target) -> Target:
    """Return the target with its tenant left open, and an id of nothing but stars as one star."""
    name = target.id if target.id.strip(STAR) else STAR
    if target.tenant == STAR and name is target.id:
        return target
    return Target(target.service, target.region, STAR, target.type, name)


def _subsets(constraints: frozenset[Constraint]) -> Iterator[frozenset[Constraint]]:
    """Yield the sets of constraints that hold wherever these do, as far as the text tells."""
    yield constraints
    if len(constraints) <= MAX_SUBSETS:
        for size in range(len(constraints)):
            yield from map(frozenset, combinations(constraints, size))
    else:
        yield frozenset()


@lru_cache(maxsize=4_096)
def _at_least(pattern: OperationPattern) -> frozenset[tuple[str, str, str]]:
    """Return every pattern that matches all operations of this one."""
    services, resources, actions = ((part, STAR) for part in pattern)
    return frozenset(product(services, resources, actions))


def split_entangled(rule: Rule) -> list[Rule]:
    """Return the rule as rules with few entangled ids each; together they match what it matches."""
    tangled = [target for target in rule.targets if _is_entangled(target.id)]
    if len(tangled) <= MAX_GLOBS:
        return [rule]
    plain = tuple(target for target in rule.targets if not _is_entangled(target.id))
    parts = [plain] if plain else []
    parts += [(target,) for target in tangled]
    return [replace(rule, targets=part) for part in parts]


class GlobSet:
    """The entangled globs of some rules on each coordinate. Each one more may double the classes of texts."""

    def __init__(self, globs: Iterable[tuple[str, str]] = ()) -> None:
        self.globs = set(globs)

    def takes(self, rule: Rule) -> bool:
        """Add the globs of a rule, unless that makes them too many on one coordinate."""
        more = entangled_globs(rule) - self.globs
        if more:
            counts: dict[str, int] = {}
            for key, _ in (*self.globs, *more):
                counts[key] = counts.get(key, 0) + 1
            if any(counts[key] > MAX_GLOBS for key, _ in more):
                return False
            self.globs |= more
        return True


def group_rules(rules: Iterable[Rule]) -> list[list[Rule]]:
    """Return the rules in groups that have few entangled globs each, plain rules first."""
    groups: list[tuple[GlobSet, list[Rule]]] = []
    for rule in sorted(rules, key=lambda rule: bool(entangled_globs(rule))):
        if not groups or not groups[-1][0].takes(rule):
            groups.append((GlobSet(entangled_globs(rule)), []))
        groups[-1][1].append(rule)
    return [group for _, group in groups]


def entangled_globs(rule: Rule) -> set[tuple[str, str]]:
    """Return the globs of a rule that have text behind a star, each with the key of its coordinate."""
    globs = {("", target.id) for target in rule.targets if _is_entangled(target.id)}
    globs |= {(c.key, c.values[0]) for c in rule.constraints if c.operator == "like" and _is_entangled(c.values[0])}
    return globs


def _is_entangled(pattern: str) -> bool:
    """Whether a glob has text behind a star; those with stars at the end only are told apart without much work."""
    return STAR in pattern.rstrip(STAR)

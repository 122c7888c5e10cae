"""Prepares rules for the author check: removes settled ones, groups the others, and turns them into boxes of requests.

A rule is settled if a single rule of the other side covers it, by the text of both. The groups have few globs, which
are compared at a time. The space of requests has the dimensions that the rules of a group can distinguish.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations, product

from client.policy import model
from client.policy.bitsets import Box, Budget, indices, merge_boxes, union
from client.policy.matching import ANY_TARGET, STAR, OperationPattern, Target
from client.policy.model import REGION as REGION_KEY
from client.policy.model import REQUEST_TAG, RESOURCE_TAG, TENANT, Constraint, RequestContext, Rule
from client.policy.request_classes import (
    Dimension,
    context_dimension,
    id_dimension,
    id_mask,
    literal_mask,
    operation_dimension,
    region_dimension,
    type_dimension,
)

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
        model.must_hold(constraint)(context) for constraint in rule.constraints if constraint.key == TENANT
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


# Dimensions: three operation parts, then the target's region, type and id, then the constraint keys. The target has the
# operation's service and the document's tenant; `frn:region` and `frn:tenant` are those of the target.
SERVICE, RESOURCE, ACTION, REGION, TYPE, ID = range(6)


class Space:
    """The dimensions that some rules need, without constraints on `frn:tenant` (see `restrict_to_tenant`)."""

    def __init__(self, rules: Sequence[Rule], tenant: str, budget: Budget, regions: Sequence[str] = ()) -> None:
        self.tenant = tenant
        self.budget = budget
        operations = [pattern for rule in rules for pattern in rule.operations]
        targets = [pattern for rule in rules for pattern in rule.targets]
        services = [pattern.service for pattern in operations] + [target.service for target in targets]
        by_key: dict[str, list[Constraint]] = {}
        for rule in rules:
            for constraint in rule.constraints:
                by_key.setdefault(constraint.key, []).append(constraint)
        assert TENANT not in by_key
        region_constraints = by_key.pop(REGION_KEY, [])
        self.keys = sorted(by_key)
        self._axis_of = {REGION_KEY: REGION} | {key: axis for axis, key in enumerate(self.keys, 6)}
        self.dimensions: list[Dimension] = [
            operation_dimension(services, budget),
            operation_dimension([pattern.resource for pattern in operations], budget),
            operation_dimension([pattern.action for pattern in operations], budget),
            region_dimension([*regions, *(target.region for target in targets)], region_constraints, budget),
            type_dimension([target.type for target in targets], budget),
            id_dimension([target.id for target in targets], budget),
            *(context_dimension(key, by_key[key], budget) for key in self.keys),
        ]
        self.full: Box = tuple(dimension.full for dimension in self.dimensions)

    def subspaces(self) -> list[Box]:
        """Divide the space by known and unknown tag maps, because the keys of a map are unknown only together."""
        result = [list(self.full)]
        for prefix in (REQUEST_TAG, RESOURCE_TAG):
            axes = [6 + number for number, key in enumerate(self.keys) if key.startswith(prefix)]
            if len(axes) < 2:
                continue
            halves = []
            for subspace in result:
                for unknown in (False, True):
                    half = list(subspace)
                    for axis in axes:
                        dimension = self.dimensions[axis]
                        half[axis] = dimension.only_unknown() if unknown else dimension.without_unknown()
                    halves.append(half)
            result = halves
        return [tuple(subspace) for subspace in result]

    def boxes(self, rule: Rule) -> list[Box]:
        """Return a rule as boxes: an allow where it must hold, a deny where it may hold."""
        masks = list(self.full)
        for constraint in rule.constraints:
            axis = self._axis_of[constraint.key]
            masks[axis] &= self.dimensions[axis].constraint_mask(constraint, deny=rule.denies)
        if not all(masks):
            return []
        region_mask, rest = masks[REGION], masks[6:]
        boxes = set()
        operations, targets = self._operations(rule), self._targets(rule)
        self.budget.consume(2 * len(operations) * len(targets) * (6 + len(self.full)))
        for service, resource, action in operations:
            for target_service, target_region, type_, id_ in targets:
                common_service, common_region = service & target_service, target_region & region_mask
                if common_service and common_region:
                    boxes.add((common_service, resource, action, common_region, type_, id_, *rest))
        return list(boxes)

    def _operations(self, rule: Rule) -> set[tuple[int, int, int]]:
        parts = self.dimensions
        masks = [
            tuple(literal_mask(parts[axis], part, deny=rule.denies) for axis, part in enumerate(pattern))
            for pattern in rule.operations
        ]
        return {(a, b, c) for a, b, c in merge_boxes(masks)}

    def _targets(self, rule: Rule) -> set[tuple[int, int, int, int]]:
        parts, deny = self.dimensions, rule.denies
        masks = [
            (
                literal_mask(parts[SERVICE], target.service, deny=deny),
                literal_mask(parts[REGION], target.region, deny=deny),
                literal_mask(parts[TYPE], target.type, deny=deny),
                id_mask(parts[ID], target.id, deny=deny),
            )
            for target in rule.targets
            if target.tenant in (STAR, self.tenant)
        ]
        return {(a, b, c, d) for a, b, c, d in merge_boxes(masks)}

    def unnamed_value(self, axis: int) -> str:
        """Return the atom for values that no rule names."""
        return str(self.dimensions[axis].atoms[-2])

    def known_operations(self, box: Box, catalogue: "CatalogueIndex") -> Iterator[OperationPattern]:
        for number in indices(catalogue.within(box)):
            yield OperationPattern(*catalogue.operations[number])


class CatalogueIndex:
    """The catalogue by the atoms of a space: bit i of a set is operation i."""

    def __init__(self, operations: Sequence[list[str]], space: Space) -> None:
        self.operations = operations
        self._atoms: list[list[int]] = []
        for axis in (SERVICE, RESOURCE, ACTION):
            atoms = space.dimensions[axis].atoms
            # The last atom represents all values that no rule names.
            numbers = {value: number for number, value in enumerate(atoms[:-1])}
            sets = [0] * len(atoms)
            for number, name in enumerate(self.operations):
                sets[numbers.get(name[axis], len(atoms) - 1)] |= 1 << number
            self._atoms.append(sets)

    def within(self, box: Box) -> int:
        result = (1 << len(self.operations)) - 1
        for axis, sets in enumerate(self._atoms):
            result &= union(sets[number] for number in indices(box[axis]))
        return result


def split_names(names: Iterable[str]) -> list[list[str]]:
    return [name.split(":") for name in names]

"""The space of requests that some rules can distinguish, and rules as boxes in it."""

from collections.abc import Iterable, Iterator, Sequence

from client.policy.bitsets import Box, Budget, indices, merge_boxes, union
from client.policy.matching import STAR, OperationPattern
from client.policy.model import REGION as REGION_KEY
from client.policy.model import REQUEST_TAG, RESOURCE_TAG, TENANT, Constraint, Rule
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

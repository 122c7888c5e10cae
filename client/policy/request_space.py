"""The space of requests that some rules can tell apart, and rules as boxes in it."""

from collections.abc import Iterable, Iterator, Sequence

from client.policy.bitsets import Box, Budget, indices, merge_boxes, union
from client.policy.matching import STAR, OperationPattern
from client.policy.model import REGION as REGION_KEY
from client.policy.model import REQUEST_TAG, RESOURCE_TAG, TENANT, Constraint, Rule
from client.policy.request_classes import (
    Coordinate,
    context_coordinate,
    id_coordinate,
    id_mask,
    literal_mask,
    operation_coordinate,
    region_coordinate,
    type_coordinate,
)

# Coordinates 0 to 2 are the operation's parts, 3 to 5 the target's region, type and id; facts follow. The target's
# service is the operation's, its tenant is the document's, and `frn:region` and `frn:tenant` are the target's own, so
# none of these is a coordinate of its own.
SERVICE, RESOURCE, ACTION, REGION, TYPE, ID = range(6)


class Space:
    """The coordinates that some rules need. The rules have no constraint on `frn:tenant` (see `applicable`)."""

    def __init__(self, rules: Sequence[Rule], tenant: str, work: Budget, regions: Sequence[str] = ()) -> None:
        self.tenant = tenant
        self.work = work
        operations = [pattern for rule in rules for pattern in rule.operations]
        targets = [pattern for rule in rules for pattern in rule.targets]
        services = [pattern.service for pattern in operations] + [target.service for target in targets]
        by_key: dict[str, list[Constraint]] = {}
        for rule in rules:
            for constraint in rule.constraints:
                by_key.setdefault(constraint.key, []).append(constraint)
        assert TENANT not in by_key
        of_region = by_key.pop(REGION_KEY, [])
        self.keys = sorted(by_key)
        self._places = {REGION_KEY: REGION} | {key: place for place, key in enumerate(self.keys, 6)}
        self.coordinates: list[Coordinate] = [
            operation_coordinate(services, work),
            operation_coordinate([pattern.resource for pattern in operations], work),
            operation_coordinate([pattern.action for pattern in operations], work),
            region_coordinate([*regions, *(target.region for target in targets)], of_region, work),
            type_coordinate([target.type for target in targets], work),
            id_coordinate([target.id for target in targets], work),
            *(context_coordinate(key, by_key[key], work) for key in self.keys),
        ]
        self.full: Box = tuple(coordinate.full for coordinate in self.coordinates)

    def worlds(self) -> list[Box]:
        """The whole space, split where a tag map is known or unknown: its keys are unknown only together."""
        found = [list(self.full)]
        for prefix in (REQUEST_TAG, RESOURCE_TAG):
            places = [6 + number for number, key in enumerate(self.keys) if key.startswith(prefix)]
            if len(places) < 2:
                continue
            split = []
            for world in found:
                for unknown in (False, True):
                    half = list(world)
                    for place in places:
                        coordinate = self.coordinates[place]
                        half[place] = coordinate.only_unknown() if unknown else coordinate.without_unknown()
                    split.append(half)
            found = split
        return [tuple(world) for world in found]

    def boxes(self, rule: Rule) -> list[Box]:
        """Return a rule as boxes: an allow where it surely holds, a deny where it may hold."""
        masks = list(self.full)
        for constraint in rule.constraints:
            place = self._places[constraint.key]
            masks[place] &= self.coordinates[place].mask_of(constraint, deny=rule.denies)
        if not all(masks):
            return []
        place_mask, facts = masks[REGION], masks[6:]
        found = set()
        operations, targets = self._operations(rule), self._targets(rule)
        self.work.spend(2 * len(operations) * len(targets) * (6 + len(self.full)))
        for service, resource, action in operations:
            for target_service, target_region, kind, name in targets:
                both, here = service & target_service, target_region & place_mask
                if both and here:
                    found.add((both, resource, action, here, kind, name, *facts))
        return list(found)

    def _operations(self, rule: Rule) -> set[tuple[int, int, int]]:
        parts = self.coordinates
        found = [
            tuple(literal_mask(parts[place], part, deny=rule.denies) for place, part in enumerate(pattern))
            for pattern in rule.operations
        ]
        return {(a, b, c) for a, b, c in merge_boxes(found)}

    def _targets(self, rule: Rule) -> set[tuple[int, int, int, int]]:
        parts, deny = self.coordinates, rule.denies
        found = [
            (
                literal_mask(parts[SERVICE], target.service, deny=deny),
                literal_mask(parts[REGION], target.region, deny=deny),
                literal_mask(parts[TYPE], target.type, deny=deny),
                id_mask(parts[ID], target.id, deny=deny),
            )
            for target in rule.targets
            if target.tenant in (STAR, self.tenant)
        ]
        return {(a, b, c, d) for a, b, c, d in merge_boxes(found)}

    def unnamed(self, place: int) -> str:
        """Return the atom for all values of a target part that no rule names."""
        return str(self.coordinates[place].atoms[-2])

    def operations_in(self, box: Box, names: "CatalogueIndex") -> Iterator[OperationPattern]:
        """Yield the operations of today's catalogue in the box."""
        for number in indices(names.within(box)):
            yield OperationPattern(*names.names[number])


class CatalogueIndex:
    """The catalogue cut by the atoms of a space: bit i of a set is operation i."""

    def __init__(self, names: Sequence[list[str]], space: Space) -> None:
        self.names = names
        self._atoms: list[list[int]] = []
        for place in (SERVICE, RESOURCE, ACTION):
            atoms = space.coordinates[place].atoms
            # The last atom is every value that is not named.
            numbers = {value: number for number, value in enumerate(atoms[:-1])}
            sets = [0] * len(atoms)
            for number, name in enumerate(self.names):
                sets[numbers.get(name[place], len(atoms) - 1)] |= 1 << number
            self._atoms.append(sets)

    def within(self, box: Box) -> int:
        """Return the operations of a box."""
        found = (1 << len(self.names)) - 1
        for place, sets in enumerate(self._atoms):
            found &= union(sets[number] for number in indices(box[place]))
        return found


def split_names(names: Iterable[str]) -> list[list[str]]:
    return [name.split(":") for name in names]

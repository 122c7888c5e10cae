"""Coordinates of the request space, each cut into atoms that no pattern of either side can tell apart.

A pattern becomes a bit mask over the atoms of its coordinate, a rule a union of boxes (one mask for each
coordinate). "Unknown" is an ordinary atom of a coordinate and "absent" one of every tag: an allow covers the atoms
where it surely holds, a deny those where it may hold, so that three-valued evaluation becomes membership.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import compress, count
from math import ceil, floor
from typing import Any

from client.policy import conditions
from client.policy.bitsets import Budget, mask_from
from client.policy.conditions import parse_cidr_block
from client.policy.glob_classes import class_witnesses
from client.policy.matching import STAR, compile_glob, is_region
from client.policy.model import (
    CURRENT_TIME,
    PRINCIPAL_TYPE,
    REGION,
    REQUEST_TAG,
    RESOURCE_TAG,
    SOURCE_IP,
    TENANT,
    Address,
    Constraint,
    RequestContext,
    parse_instant,
)

PRINCIPAL_TYPES = ("api_key", "workload_identity", "user")
OTHER = "any-other"
FIRST_INSTANT = datetime(1, 1, 1, tzinfo=UTC).timestamp()
LAST_INSTANT = datetime(9999, 12, 31, 23, 59, 59, 999_900, tzinfo=UTC).timestamp()


class Unknown:
    """The atom of a fact nobody said."""

    def __repr__(self) -> str:
        return "unknown"


class Absent:
    """The atom of a tag known not to be there."""

    def __repr__(self) -> str:
        return "absent"


UNKNOWN = Unknown()
ABSENT = Absent()

Atom = Any
"""A witness of the atom: a text, an address, an instant, or one of the two above."""


@dataclass
class Dimension:
    """One dimension. `atoms` are in order of preference for a counterexample: known values first."""

    atoms: list[Atom]
    budget: Budget
    _contexts: list[RequestContext] | None = None
    _masks: dict[object, int] = field(default_factory=dict)
    _index: dict[Atom, int] = field(init=False)

    def __post_init__(self) -> None:
        self._index = {atom: index for index, atom in enumerate(self.atoms)}

    @property
    def full(self) -> int:
        return (1 << len(self.atoms)) - 1

    def pattern_mask(self, key: object, holds: Callable[[Atom], bool]) -> int:
        """The atoms a pattern holds for; `key` names the pattern, so that it is tried once only."""
        mask = self._masks.get(key)
        if mask is None:
            self.budget.consume(len(self.atoms))
            mask = self._masks[key] = self._to_mask(map(holds, self.atoms))
        return mask

    def constraint_mask(self, constraint: Constraint, *, deny: bool) -> int:
        """The atoms a constraint holds for, or may hold for, by the very tests the engine uses."""
        if self._contexts is None:
            self.budget.consume(10 * len(self.atoms))
            self._contexts = [context_of_atoms({constraint.key: atom}) for atom in self.atoms]
        mask = self._masks.get((constraint, deny))
        if mask is None:
            self.budget.consume(len(self.atoms))
            holds = conditions.may_hold(constraint) if deny else conditions.must_hold(constraint)
            mask = self._masks[constraint, deny] = self._to_mask(map(holds, self._contexts))
        return mask

    def _to_mask(self, values: Iterable[bool]) -> int:
        return mask_from(compress(count(), values), len(self.atoms))

    def mask_of_atom(self, atom: Atom) -> int:
        """One atom that is there."""
        return 1 << self._index[atom]

    def without_unknown(self) -> int:
        """All atoms but unknown."""
        return self.full & ~self.only_unknown()

    def only_unknown(self) -> int:
        """The unknown atom, or 0 where the coordinate has none."""
        return 1 << self._index[UNKNOWN] if UNKNOWN in self._index else 0


def operation_dimension(literals: Sequence[str], budget: Budget) -> Dimension:
    """A part of an operation: the catalogue may grow, so there is always another value than those named."""
    named = [literal for literal in dict.fromkeys(literals) if literal != STAR]
    return Dimension([*named, unused_value(named)], budget)


def type_dimension(literals: Sequence[str], budget: Budget) -> Dimension:
    """The type of a target."""
    named = [literal for literal in dict.fromkeys(literals) if literal != STAR]
    return Dimension([*named, unused_value(named), UNKNOWN], budget)


def region_dimension(literals: Sequence[str], constraints: Sequence[Constraint], budget: Budget) -> Dimension:
    """The region of a target, which is also `frn:region`. Literals come first, in their order. Raises `OutOfBudget`."""
    named = [literal for literal in literals if literal != STAR]
    named += [c.values[0] for c in constraints if c.operator != "like"]
    globs = [c.values[0] for c in constraints if c.operator == "like"]
    # A text that is not a region name is no request's region, and no region matches a glob that asks for such text.
    usable = [text for text in named if is_region(text)]
    usable += [pattern for pattern in globs if not pattern.strip(STAR) or is_region(pattern.replace(STAR, ""))]
    return Dimension([*class_witnesses(usable, budget, min_length=1), UNKNOWN], budget)


def id_dimension(patterns: Sequence[str], budget: Budget) -> Dimension:
    """The id of a target, by the globs that are used. Raises `OutOfBudget`."""
    return Dimension([*class_witnesses(patterns, budget, min_length=1), UNKNOWN], budget)


def literal_mask(dimension: Dimension, literal: str, *, deny: bool) -> int:
    """A literal or `*` on a part."""
    if literal == STAR:
        return dimension.full
    return dimension.mask_of_atom(literal) | (dimension.only_unknown() if deny else 0)


def id_mask(dimension: Dimension, pattern: str, *, deny: bool) -> int:
    """A glob on the id."""
    if not pattern.strip(STAR):
        return dimension.full
    if STAR not in pattern:
        return literal_mask(dimension, pattern, deny=deny)
    matches = compile_glob(pattern)
    return dimension.pattern_mask((pattern, deny), lambda atom: deny if atom is UNKNOWN else matches(atom))


def context_dimension(key: str, constraints: Sequence[Constraint], budget: Budget) -> Dimension:
    """The coordinate of a constraint key, cut by every constraint on it. Raises `OutOfBudget`."""
    if key == SOURCE_IP:
        return Dimension([*_addresses(constraints), UNKNOWN], budget)
    if key == CURRENT_TIME:
        return Dimension([*_instants(constraints), UNKNOWN], budget)
    if key == PRINCIPAL_TYPE:
        return Dimension([*PRINCIPAL_TYPES, UNKNOWN], budget)
    tag = key.startswith((REQUEST_TAG, RESOURCE_TAG))
    # A literal of `equals` may hold a star as text: only `like` reads it as a glob.
    literals = dict.fromkeys(c.values[0] for c in constraints if c.operator != "like")
    globs = [c.values[0] for c in constraints if c.operator == "like"]
    texts = class_witnesses([*(t for t in literals if STAR not in t), *globs], budget)
    # No class has a star in its witness.
    texts += [literal for literal in literals if STAR in literal]
    return Dimension([*texts, ABSENT, UNKNOWN] if tag else [*texts, UNKNOWN], budget)


def context_of_atoms(atoms: "dict[str, Atom]") -> RequestContext:
    """Facts with the given atoms; everything else is unknown. Tags of one map go together."""
    tags: dict[str, dict[str, str] | None] = {REQUEST_TAG: None, RESOURCE_TAG: None}
    values: dict[str, Any] = {}
    for key, atom in atoms.items():
        prefix = next((candidate for candidate in tags if key.startswith(candidate)), None)
        if atom is UNKNOWN:
            continue
        if prefix is None:
            values[key] = atom
            continue
        mapping = tags[prefix] if tags[prefix] is not None else {}
        assert mapping is not None
        if atom is not ABSENT:
            mapping[key.removeprefix(prefix)] = atom
        tags[prefix] = mapping
    return RequestContext(
        source_ip=values.get(SOURCE_IP),
        current_time=values.get(CURRENT_TIME),
        region=values.get(REGION),
        principal_type=values.get(PRINCIPAL_TYPE),
        tenant=values.get(TENANT),
        request_tags=tags[REQUEST_TAG],
        resource_tags=tags[RESOURCE_TAG],
    )


def unused_value(named: Collection[str]) -> str:
    """A value that is none of the named ones."""
    used = frozenset(named)
    value, number = OTHER, 1
    while value in used:
        number += 1
        value = f"{OTHER}-{number}"
    return value


def _addresses(constraints: Sequence[Constraint]) -> list[Address]:
    """The first address of every interval between the edges of the blocks, IPv4 and IPv6 apart."""
    # IPv4-mapped addresses count as IPv4: the stretch of IPv6 that writes them holds no address of its own.
    mapped = 0xFFFF << 32
    edges: dict[int, set[int]] = {4: {0}, 6: {0, mapped, mapped + (1 << 32)}}
    for constraint in constraints:
        for text in constraint.values:
            version, first, last = parse_cidr_block(text)
            edges[version] |= {first, last + 1}
    size = {4: 1 << 32, 6: 1 << 128}
    edges[6].discard(mapped)
    return [(version, edge) for version in (4, 6) for edge in sorted(edges[version]) if edge < size[version]]


def _instants(constraints: Sequence[Constraint]) -> list[float]:
    """Every instant that is named, and one that can be written in each gap between them, a whole second if possible."""
    named = sorted({number for c in constraints if (number := parse_instant(c.values[0])) is not None})
    if not named:
        return [0.0]
    instants = [float(floor(named[0])) - 86_400]
    for before, after in zip(named, [*named[1:], named[-1] + 2 * 86_400], strict=True):
        instants.append(before)
        between = _between(before, after)
        if between is not None:
            instants.append(between)
    # Before the first and after the last instant that can be written there is no request to find. The two themselves
    # are the witnesses of the gap they are in, where its own instant lies beyond.
    instants = [number for number in instants if FIRST_INSTANT <= number <= LAST_INSTANT]
    return list(dict.fromkeys([*instants, FIRST_INSTANT, LAST_INSTANT]))


def _between(before: float, after: float) -> float | None:
    """Return an instant strictly between two others; None if there is none in whole microseconds."""
    middle = (before + after) / 2
    for instant in (float(floor(middle)), float(ceil(middle)), round(middle * 1e6) / 1e6):
        if before < instant < after:
            return instant
    return None

"""Dimensions of the request space, each divided into atoms that no pattern of either side can distinguish.

A pattern becomes a mask over atoms, a rule a union of boxes. Dimensions have an atom "unknown", tags also "absent". An
allow covers the atoms where it must hold, a deny those where it may hold, so three-valued evaluation is set membership.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import compress, count
from math import ceil, floor
from typing import Any

from client.policy import model
from client.policy.bitsets import Budget, mask_from
from client.policy.instants import parse_stored_timestamp
from client.policy.matching import STAR, class_witnesses, compile_glob, is_region
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
    parse_cidr_block,
)

PRINCIPAL_TYPES = ("api_key", "workload_identity", "user")
OTHER = "any-other"
FIRST_INSTANT = datetime(1, 1, 1, tzinfo=UTC).timestamp()
LAST_INSTANT = datetime(9999, 12, 31, 23, 59, 59, 999_900, tzinfo=UTC).timestamp()


class Unknown:
    def __repr__(self) -> str:
        return "unknown"


class Absent:
    def __repr__(self) -> str:
        return "absent"


UNKNOWN = Unknown()
ABSENT = Absent()

Atom = Any
"""A witness: a text, an address, a time, or one of the two constants above."""


@dataclass
class Dimension:
    """Atoms in order of preference for counterexamples, known values first."""

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
        """Return the atoms that a pattern matches; `key` is its cache key."""
        mask = self._masks.get(key)
        if mask is None:
            self.budget.consume(len(self.atoms))
            mask = self._masks[key] = self._to_mask(map(holds, self.atoms))
        return mask

    def constraint_mask(self, constraint: Constraint, *, deny: bool) -> int:
        """Return the atoms where a constraint must hold or, for a deny, may hold."""
        if self._contexts is None:
            self.budget.consume(10 * len(self.atoms))
            self._contexts = [context_of_atoms({constraint.key: atom}) for atom in self.atoms]
        mask = self._masks.get((constraint, deny))
        if mask is None:
            self.budget.consume(len(self.atoms))
            holds = model.may_hold(constraint) if deny else model.must_hold(constraint)
            mask = self._masks[constraint, deny] = self._to_mask(map(holds, self._contexts))
        return mask

    def _to_mask(self, values: Iterable[bool]) -> int:
        return mask_from(compress(count(), values), len(self.atoms))

    def mask_of_atom(self, atom: Atom) -> int:
        return 1 << self._index[atom]

    def without_unknown(self) -> int:
        return self.full & ~self.only_unknown()

    def only_unknown(self) -> int:
        """Return the unknown atom; 0 if the dimension has none."""
        return 1 << self._index[UNKNOWN] if UNKNOWN in self._index else 0


def operation_dimension(literals: Sequence[str], budget: Budget) -> Dimension:
    """Return the dimension of an operation part, with an atom for future catalogue entries."""
    named = [literal for literal in dict.fromkeys(literals) if literal != STAR]
    return Dimension([*named, unused_value(named)], budget)


def type_dimension(literals: Sequence[str], budget: Budget) -> Dimension:
    named = [literal for literal in dict.fromkeys(literals) if literal != STAR]
    return Dimension([*named, unused_value(named), UNKNOWN], budget)


def region_dimension(literals: Sequence[str], constraints: Sequence[Constraint], budget: Budget) -> Dimension:
    """Return the dimension of the target's region and `frn:region`; literals first. Raises `OutOfBudget`."""
    named = [literal for literal in literals if literal != STAR]
    named += [c.values[0] for c in constraints if c.operator != "like"]
    globs = [c.values[0] for c in constraints if c.operator == "like"]
    # Requests have valid regions only, and these match no glob with invalid characters.
    usable = [text for text in named if is_region(text)]
    usable += [pattern for pattern in globs if not pattern.strip(STAR) or is_region(pattern.replace(STAR, ""))]
    return Dimension([*class_witnesses(usable, budget, min_length=1), UNKNOWN], budget)


def id_dimension(patterns: Sequence[str], budget: Budget) -> Dimension:
    """Return the dimension of the target's id. Raises `OutOfBudget`."""
    return Dimension([*class_witnesses(patterns, budget, min_length=1), UNKNOWN], budget)


def literal_mask(dimension: Dimension, literal: str, *, deny: bool) -> int:
    if literal == STAR:
        return dimension.full
    return dimension.mask_of_atom(literal) | (dimension.only_unknown() if deny else 0)


def id_mask(dimension: Dimension, pattern: str, *, deny: bool) -> int:
    if not pattern.strip(STAR):
        return dimension.full
    if STAR not in pattern:
        return literal_mask(dimension, pattern, deny=deny)
    matches = compile_glob(pattern)
    return dimension.pattern_mask((pattern, deny), lambda atom: deny if atom is UNKNOWN else matches(atom))


def context_dimension(key: str, constraints: Sequence[Constraint], budget: Budget) -> Dimension:
    """Return the dimension of a constraint key, divided by all its constraints. Raises `OutOfBudget`."""
    if key == SOURCE_IP:
        return Dimension([*_addresses(constraints), UNKNOWN], budget)
    if key == CURRENT_TIME:
        return Dimension([*_instants(constraints), UNKNOWN], budget)
    if key == PRINCIPAL_TYPE:
        return Dimension([*PRINCIPAL_TYPES, UNKNOWN], budget)
    tag = key.startswith((REQUEST_TAG, RESOURCE_TAG))
    # Only `like` has globs.
    literals = dict.fromkeys(c.values[0] for c in constraints if c.operator != "like")
    globs = [c.values[0] for c in constraints if c.operator == "like"]
    texts = class_witnesses([*(t for t in literals if STAR not in t), *globs], budget)
    # No class witness contains a star.
    texts += [literal for literal in literals if STAR in literal]
    return Dimension([*texts, ABSENT, UNKNOWN] if tag else [*texts, UNKNOWN], budget)


def context_of_atoms(atoms: "dict[str, Atom]") -> RequestContext:
    """Return a request context; attributes without an atom are unknown."""
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
    used = frozenset(named)
    value, number = OTHER, 1
    while value in used:
        number += 1
        value = f"{OTHER}-{number}"
    return value


def _addresses(constraints: Sequence[Constraint]) -> list[Address]:
    """Return the first address of each interval between the ends of the blocks, for both versions."""
    # IPv4-mapped addresses are IPv4, so their IPv6 range is empty.
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
    """Return each named time and a time in each gap, in whole seconds if possible."""
    named = sorted({parse_stored_timestamp(c.values[0]) for c in constraints})
    if not named:
        return [0.0]
    instants = [float(floor(named[0])) - 86_400]
    for before, after in zip(named, [*named[1:], named[-1] + 2 * 86_400], strict=True):
        instants.append(before)
        between = _time_between(before, after)
        if between is not None:
            instants.append(between)
    # Requests have no times outside this range; its ends are witnesses of their gaps.
    instants = [instant for instant in instants if FIRST_INSTANT <= instant <= LAST_INSTANT]
    return list(dict.fromkeys([*instants, FIRST_INSTANT, LAST_INSTANT]))


def _time_between(before: float, after: float) -> float | None:
    """Return a time strictly between two others, at most to the microsecond; None without one."""
    middle = (before + after) / 2
    for instant in (float(floor(middle)), float(ceil(middle)), round(middle * 1e6) / 1e6):
        if before < instant < after:
            return instant
    return None

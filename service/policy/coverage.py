"""The coverage map: which operations of the catalogue a set of rules gives on each of some targets.

Bit i of a mask is operation i of the catalogue. A pattern is the AND of two or three masks, a rule the OR of
its patterns, so the work is rules times targets, never operations times targets.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from service.policy import conditions
from service.policy.engine import GrantedRule
from service.policy.facts import Facts
from service.policy.matching import STAR, OperationPattern, Target, asked_target, may_cover, surely_covers
from service.policy.rules import Rule


class CatalogueMasks:
    """One mask for each value a part of an operation takes. Build it once for each catalogue."""

    def __init__(self, operations: Sequence[str]) -> None:
        self.operations = tuple(operations)
        self.all = (1 << len(self.operations)) - 1
        bits: tuple[dict[str, list[int]], ...] = ({}, {}, {})
        for place, name in enumerate(self.operations):
            for part, values in zip(name.split(":"), bits, strict=True):
                values.setdefault(part, []).append(place)
        # One pass through bytes: setting bits one by one in a long integer would copy it each time.
        self._parts = tuple({value: _mask(places, len(self.operations)) for value, places in p.items()} for p in bits)

    def of(self, pattern: OperationPattern) -> int:
        """The operations a pattern stands for."""
        mask = self.all
        for value, masks in zip(pattern, self._parts, strict=True):
            if value != STAR:
                mask &= masks.get(value, 0)
        return mask

    def of_service(self, service: str) -> int:
        """The operations of a service."""
        return self._parts[0].get(service, 0)

    def of_rule(self, rule: Rule) -> int:
        """The operations of all patterns of a rule."""
        mask = 0
        for pattern in rule.operations:
            mask |= self.of(pattern)
        return mask

    def names(self, mask: int) -> list[str]:
        """The operations of a mask, in the order of the catalogue."""
        found = []
        while mask:
            low = mask & -mask
            found.append(self.operations[low.bit_length() - 1])
            mask ^= low
        return found


def _mask(places: list[int], length: int) -> int:
    data = bytearray(length // 8 + 1)
    for place in places:
        data[place >> 3] |= 1 << (place & 7)
    return int.from_bytes(data, "little")


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the rules give on one target: masks of the operations allowed by a rule, denied, and in effect."""

    target: Target
    allowed: int
    denied: int

    @property
    def effective(self) -> int:
        return self.allowed & ~self.denied


def cover(
    masks: CatalogueMasks, rules: Sequence[GrantedRule], targets: Sequence[Target], facts: Facts
) -> list[Coverage]:
    """The map for each target. Caps are left out: the author's rights are shown by the author check."""
    prepared = [_Prepared(masks, granted.rule) for granted in rules if _holds(granted.rule, facts)]
    found = []
    for target in targets:
        open_service = target.service == STAR
        asked = asked_target(target, STAR, facts.region)
        allowed = denied = 0
        for rule in prepared:
            if not rule.mask & ~(denied if rule.denies else allowed):
                continue
            covers = may_cover if rule.denies else surely_covers
            within = 0
            for service, pattern in rule.patterns:
                # A target whose service is open takes its service from each operation.
                if service not in (STAR, target.service) and not open_service:
                    continue
                if covers(pattern, asked):
                    within |= masks.all if service == STAR or not open_service else masks.of_service(service)
            if rule.denies:
                denied |= rule.mask & within
            else:
                allowed |= rule.mask & within
        found.append(Coverage(target, allowed, denied))
    return found


class _Prepared:
    """A rule as a mask of operations and target patterns with their service apart."""

    __slots__ = ("denies", "mask", "patterns")

    def __init__(self, masks: CatalogueMasks, rule: Rule) -> None:
        self.denies = rule.denies
        self.mask = masks.of_rule(rule)
        self.patterns = [(pattern.service, pattern._replace(service=STAR)) for pattern in rule.targets]


def _holds(rule: Rule, facts: Facts) -> bool:
    polarity = conditions.possibly if rule.denies else conditions.surely
    return all(polarity(constraint)(facts) for constraint in rule.constraints)

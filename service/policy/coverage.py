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
    prepared = [(masks.of_rule(granted.rule), granted.rule, _holds(granted.rule, facts)) for granted in rules]
    prepared = [(mask, rule, holds) for mask, rule, holds in prepared if mask and holds]
    # A target whose service is open takes its service from each operation, so each service is asked for itself.
    services = {name.partition(":")[0] for name in masks.operations}
    found = []
    for target in targets:
        asked = [asked_target(target, service, facts.region) for service in sorted(services)]
        if target.service != STAR:
            asked = [asked_target(target, target.service, facts.region)]
        allowed = denied = 0
        for one in asked:
            within = masks.of(OperationPattern(one.service, STAR, STAR)) if target.service == STAR else masks.all
            for mask, rule, _ in prepared:
                if rule.denies and mask & within & ~denied and any(may_cover(p, one) for p in rule.targets):
                    denied |= mask & within
                elif not rule.denies and mask & within & ~allowed and any(surely_covers(p, one) for p in rule.targets):
                    allowed |= mask & within
        found.append(Coverage(target, allowed, denied))
    return found


def _holds(rule: Rule, facts: Facts) -> bool:
    polarity = conditions.possibly if rule.denies else conditions.surely
    return all(polarity(constraint)(facts) for constraint in rule.constraints)

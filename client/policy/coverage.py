"""The coverage map: which operations of the catalogue a set of rules gives on each of some targets.

Bit i of a mask is operation i of the catalogue. A pattern is the AND of two or three masks, a rule the OR of
its patterns, so the work is rules times targets, never operations times targets.

Which operations a set of rules can give in a tenant at all: always, under conditions, or never.

The coarse map beside the coverage of one target: what a principal may do "somewhere, somehow", by bit masks.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from client.policy import conditions
from client.policy.bitsets import indices, mask_from
from client.policy.engine import GrantedRule
from client.policy.matching import STAR, OperationPattern, Target, may_cover, must_cover, resolve_target
from client.policy.model import Constraint, RequestContext, Rule


class CatalogueMasks:
    """One mask for each value a part of an operation takes. Build it once for each catalogue."""

    def __init__(self, operations: Sequence[str]) -> None:
        self.operations = tuple(operations)
        self.all = (1 << len(self.operations)) - 1
        bits: tuple[dict[str, list[int]], ...] = ({}, {}, {})
        for place, name in enumerate(self.operations):
            for part, values in zip(name.split(":"), bits, strict=True):
                values.setdefault(part, []).append(place)
        self._parts = tuple(
            {value: mask_from(places, len(self.operations)) for value, places in p.items()} for p in bits
        )

    def of(self, pattern: OperationPattern) -> int:
        """The operations a pattern stands for."""
        services, resources, actions = self._parts
        service, resource, action = pattern
        mask = self.all if service == STAR else services.get(service, 0)
        if resource != STAR:
            mask &= resources.get(resource, 0)
        return mask if action == STAR else mask & actions.get(action, 0)

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
        return [self.operations[place] for place in indices(mask)]


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the rules give on one target, as masks of operations.

    `allowed` and `denied` decide whatever is not known: an allow that surely holds, a deny that may. `possible` and
    `shut` are the other way round: an allow that may hold, a deny that surely does.
    """

    target: Target
    allowed: int
    denied: int
    possible: int = 0
    shut: int = 0

    @property
    def effective(self) -> int:
        """Allowed whatever the facts that are not known turn out to be."""
        return self.allowed & ~self.denied

    @property
    def conditional(self) -> int:
        """Allowed or not, as the facts turn out."""
        return self.possible & ~self.shut & ~self.effective

    def within(self, mask: int) -> "Coverage":
        """The same of some of the operations only."""
        return Coverage(self.target, self.allowed & mask, self.denied & mask, self.possible & mask, self.shut & mask)


def compute_coverage(
    masks: CatalogueMasks, rules: Sequence[GrantedRule], targets: Sequence[Target], facts: RequestContext
) -> list[Coverage]:
    """The map for each target. Caps are left out: the author's rights are shown by the author check."""
    truths: dict[tuple[Constraint, ...], bool | None] = {}
    prepared = []
    for granted in rules:
        constraints = granted.rule.constraints
        if constraints not in truths:
            truths[constraints] = _hold(constraints, facts)
        if truths[constraints] is not False:
            prepared.append(_Prepared(masks, granted.rule, bool(truths[constraints])))
    found = []
    for target in targets:
        open_service = target.service == STAR
        asked = resolve_target(target, STAR, facts.region)
        allowed = denied = possible = shut = 0
        for rule in prepared:
            mask = rule.mask
            # Nothing new from a rule whose operations are all decided the same way already.
            if not mask & ~((denied & shut) if rule.denies else (possible & allowed)):
                continue
            some = every = 0
            for service, pattern in rule.patterns:
                # A target whose service is open takes its service from each operation.
                if service not in (STAR, target.service) and not open_service:
                    continue
                if may_cover(pattern, asked):
                    here = masks.all if service == STAR or not open_service else masks.of_service(service)
                    some |= here
                    if rule.sure and must_cover(pattern, asked):
                        every |= here
            if rule.denies:
                denied |= mask & some
                shut |= mask & every
            else:
                possible |= mask & some
                allowed |= mask & every
        found.append(Coverage(target, allowed, denied, possible, shut))
    return found


class _Prepared:
    """A rule as a mask of operations and target patterns with their service apart; `sure` if its constraints hold."""

    __slots__ = ("denies", "mask", "patterns", "sure")

    def __init__(self, masks: CatalogueMasks, rule: Rule, sure: bool) -> None:
        self.denies = rule.denies
        self.mask = masks.of_rule(rule)
        self.patterns = [(pattern.service, pattern._replace(service=STAR)) for pattern in rule.targets]
        self.sure = sure


def _hold(constraints: Iterable[Constraint], facts: RequestContext) -> bool | None:
    """Whether all constraints hold; None when what is not known decides."""
    sure = True
    for constraint in constraints:
        if not conditions.may_hold(constraint)(facts):
            return False
        sure = sure and conditions.must_hold(constraint)(facts)
    return True if sure else None


@dataclass(frozen=True, slots=True)
class OperationBounds:
    """Masks of operations.

    `named` are those some allow speaks of, `shut` those a deny without any condition takes away, `possible` those some
    request gets, as far as conditions go, and `sure` those every request in the tenant gets.
    """

    named: int
    shut: int
    possible: int
    sure: int

    def within(self, other: "OperationBounds") -> "OperationBounds":
        """Both together: what each of the two gives."""
        return OperationBounds(
            self.named & other.named, self.shut | other.shut, self.possible & other.possible, self.sure & other.sure
        )


def unlimited_bounds(masks: CatalogueMasks) -> OperationBounds:
    """Of somebody nothing limits."""
    return OperationBounds(masks.all, 0, masks.all, masks.all)


def exact_bounds(mask: int) -> OperationBounds:
    """Of a plain set of operations, such as scopes are."""
    return OperationBounds(mask, 0, mask, mask)


def operation_bounds(masks: CatalogueMasks, rules: Iterable[GrantedRule], tenant: str) -> OperationBounds:
    """The reach of rules in a tenant; each allow ends where the reach of its author's rights ends."""
    named = possible = sure = denied = shut = 0
    caps: dict[int, OperationBounds] = {}
    for granted in rules:
        some, every = rule_bounds(masks, granted.rule, tenant)
        if granted.rule.denies:
            denied |= some
            shut |= every
            continue
        if granted.cap is not None:
            cap = caps.get(id(granted.cap))
            if cap is None:
                cap = caps[id(granted.cap)] = operation_bounds(masks, granted.cap.rules, tenant)
            some, every = some & cap.possible, every & cap.sure
        named |= some
        possible |= some
        sure |= every
    return OperationBounds(named, shut, possible & ~shut, sure & ~denied)


def rule_bounds(masks: CatalogueMasks, rule: Rule, tenant: str) -> tuple[int, int]:
    """The operations a rule matches on some request of the tenant, and those it matches on every one."""
    some = every = 0
    for target in rule.targets:
        if target.tenant not in (STAR, tenant):
            continue
        here = masks.of(OperationPattern(target.service, STAR, STAR))
        some |= here
        if not rule.constraints and _covers_all(target):
            every |= here
    mask = masks.of_rule(rule)
    return mask & some, mask & every


def _covers_all(target: Target) -> bool:
    return target.region == STAR and target.type == STAR and target.id.strip(STAR) == ""

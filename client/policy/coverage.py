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
        for index, name in enumerate(self.operations):
            for part, values in zip(name.split(":"), bits, strict=True):
                values.setdefault(part, []).append(index)
        self._masks_by_part = tuple(
            {value: mask_from(positions, len(self.operations)) for value, positions in values.items()}
            for values in bits
        )

    def for_pattern(self, pattern: OperationPattern) -> int:
        """The operations a pattern stands for."""
        services, resources, actions = self._masks_by_part
        service, resource, action = pattern
        mask = self.all if service == STAR else services.get(service, 0)
        if resource != STAR:
            mask &= resources.get(resource, 0)
        return mask if action == STAR else mask & actions.get(action, 0)

    def for_service(self, service: str) -> int:
        """The operations of a service."""
        return self._masks_by_part[0].get(service, 0)

    def for_rule(self, rule: Rule) -> int:
        """The operations of all patterns of a rule."""
        mask = 0
        for pattern in rule.operations:
            mask |= self.for_pattern(pattern)
        return mask

    def names(self, mask: int) -> list[str]:
        """The operations of a mask, in the order of the catalogue."""
        return [self.operations[index] for index in indices(mask)]


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
    always_denied: int = 0

    @property
    def effective(self) -> int:
        """Allowed whatever the facts that are not known turn out to be."""
        return self.allowed & ~self.denied

    @property
    def conditional(self) -> int:
        """Allowed or not, as the facts turn out."""
        return self.possible & ~self.always_denied & ~self.effective

    def within(self, mask: int) -> "Coverage":
        """The same of some of the operations only."""
        return Coverage(
            self.target, self.allowed & mask, self.denied & mask, self.possible & mask, self.always_denied & mask
        )


def compute_coverage(
    masks: CatalogueMasks, rules: Sequence[GrantedRule], targets: Sequence[Target], context: RequestContext
) -> list[Coverage]:
    """The map for each target. Caps are left out: the author's rights are shown by the author check."""
    truths: dict[tuple[Constraint, ...], bool | None] = {}
    prepared = []
    for granted in rules:
        constraints = granted.rule.constraints
        if constraints not in truths:
            truths[constraints] = _hold_all(constraints, context)
        if truths[constraints] is not False:
            prepared.append(_Prepared(masks, granted.rule, bool(truths[constraints])))
    results = []
    for target in targets:
        open_service = target.service == STAR
        requested = resolve_target(target, STAR, context.region)
        allowed = denied = possible = always_denied = 0
        for rule in prepared:
            mask = rule.mask
            # Nothing new from a rule whose operations are all decided the same way already.
            if not mask & ~((denied & always_denied) if rule.denies else (possible & allowed)):
                continue
            partial = full = 0
            for service, pattern in rule.patterns:
                # A target whose service is open takes its service from each operation.
                if service not in (STAR, target.service) and not open_service:
                    continue
                if may_cover(pattern, requested):
                    operations = masks.all if service == STAR or not open_service else masks.for_service(service)
                    partial |= operations
                    if rule.holds and must_cover(pattern, requested):
                        full |= operations
            if rule.denies:
                denied |= mask & partial
                always_denied |= mask & full
            else:
                possible |= mask & partial
                allowed |= mask & full
        results.append(Coverage(target, allowed, denied, possible, always_denied))
    return results


class _Prepared:
    """A rule as a mask of operations and target patterns with their service apart; `sure` if its constraints hold."""

    __slots__ = ("denies", "holds", "mask", "patterns")

    def __init__(self, masks: CatalogueMasks, rule: Rule, holds: bool) -> None:
        self.denies = rule.denies
        self.mask = masks.for_rule(rule)
        self.patterns = [(pattern.service, pattern._replace(service=STAR)) for pattern in rule.targets]
        self.holds = holds


def _hold_all(constraints: Iterable[Constraint], context: RequestContext) -> bool | None:
    """Whether all constraints hold; None when what is not known decides."""
    holds = True
    for constraint in constraints:
        if not conditions.may_hold(constraint)(context):
            return False
        holds = holds and conditions.must_hold(constraint)(context)
    return True if holds else None


@dataclass(frozen=True, slots=True)
class OperationBounds:
    """Masks of operations.

    `named` are those some allow speaks of, `shut` those a deny without any condition takes away, `possible` those some
    request gets, as far as conditions go, and `sure` those every request in the tenant gets.
    """

    named: int
    always_denied: int
    possible: int
    always_allowed: int

    def within(self, other: "OperationBounds") -> "OperationBounds":
        """Both together: what each of the two gives."""
        return OperationBounds(
            self.named & other.named,
            self.always_denied | other.always_denied,
            self.possible & other.possible,
            self.always_allowed & other.always_allowed,
        )


def unlimited_bounds(masks: CatalogueMasks) -> OperationBounds:
    """Of somebody nothing limits."""
    return OperationBounds(masks.all, 0, masks.all, masks.all)


def exact_bounds(mask: int) -> OperationBounds:
    """Of a plain set of operations, such as scopes are."""
    return OperationBounds(mask, 0, mask, mask)


def operation_bounds(masks: CatalogueMasks, rules: Iterable[GrantedRule], tenant: str) -> OperationBounds:
    """The reach of rules in a tenant; each allow ends where the reach of its author's rights ends."""
    named = possible = always_allowed = denied = always_denied = 0
    caps: dict[int, OperationBounds] = {}
    for granted in rules:
        partial, full = rule_bounds(masks, granted.rule, tenant)
        if granted.rule.denies:
            denied |= partial
            always_denied |= full
            continue
        if granted.cap is not None:
            cap = caps.get(id(granted.cap))
            if cap is None:
                cap = caps[id(granted.cap)] = operation_bounds(masks, granted.cap.rules, tenant)
            partial, full = partial & cap.possible, full & cap.always_allowed
        named |= partial
        possible |= partial
        always_allowed |= full
    return OperationBounds(named, always_denied, possible & ~always_denied, always_allowed & ~denied)


def rule_bounds(masks: CatalogueMasks, rule: Rule, tenant: str) -> tuple[int, int]:
    """The operations a rule matches on some request of the tenant, and those it matches on every one."""
    partial = full = 0
    for target in rule.targets:
        if target.tenant not in (STAR, tenant):
            continue
        operations = masks.for_pattern(OperationPattern(target.service, STAR, STAR))
        partial |= operations
        if not rule.constraints and _covers_all(target):
            full |= operations
    mask = masks.for_rule(rule)
    return mask & partial, mask & full


def _covers_all(target: Target) -> bool:
    return target.region == STAR and target.type == STAR and target.id.strip(STAR) == ""

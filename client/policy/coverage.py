"""The operations of a catalogue as masks, the operations that rules allow on targets, and bounds for a whole tenant.

Bit i of a mask is operation i of the catalogue. A pattern is the AND of its parts' masks, a rule the OR of its
patterns, so the work is rules times targets, not operations times targets.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property

from client.policy import model
from client.policy.bitsets import indices, mask_from
from client.policy.engine import GrantedRule
from client.policy.matching import STAR, OperationPattern, Target, compile_glob, may_cover, must_cover, resolve_target
from client.policy.model import Constraint, RequestContext, Rule


class CatalogueMasks:
    """Masks for each value of each part of an operation. Build it once for each catalogue."""

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
        services, resources, actions = self._masks_by_part
        service, resource, action = pattern
        mask = self.all if service == STAR else services.get(service, 0)
        if resource != STAR:
            mask &= resources.get(resource, 0)
        return mask if action == STAR else mask & actions.get(action, 0)

    def for_service(self, service: str) -> int:
        return self._masks_by_part[0].get(service, 0)

    def for_rule(self, rule: Rule) -> int:
        mask = 0
        for pattern in rule.operations:
            mask |= self.for_pattern(pattern)
        return mask

    def names(self, mask: int) -> list[str]:
        return [self.operations[index] for index in indices(mask)]


@dataclass(frozen=True, slots=True)
class Coverage:
    """Operations on one target, as masks.

    `allowed`: an allow applies for all values of the unknown attributes; `possible`: for some. `denied`: a deny applies
    for some values; `always_denied`: for all.
    """

    target: Target
    allowed: int
    denied: int
    possible: int = 0
    always_denied: int = 0

    @property
    def effective(self) -> int:
        return self.allowed & ~self.denied

    @property
    def conditional(self) -> int:
        """Operations with decisions that depend on unknown attributes."""
        return self.possible & ~self.always_denied & ~self.effective

    def within(self, mask: int) -> "Coverage":
        return Coverage(
            self.target, self.allowed & mask, self.denied & mask, self.possible & mask, self.always_denied & mask
        )


def compute_coverage(
    masks: CatalogueMasks, rules: Sequence[GrantedRule], targets: Sequence[Target], context: RequestContext
) -> list[Coverage]:
    """Return the coverage of each target. Ignores caps: the author check reports rules that exceed them."""
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
            if not mask & ~((denied & always_denied) if rule.denies else (possible & allowed)):
                continue
            partial = full = 0
            for service, pattern in rule.patterns:
                # An unknown service is that of the operation.
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
    """A rule as a mask of operations and target patterns without service. `holds`: all constraints must hold."""

    __slots__ = ("denies", "holds", "mask", "patterns")

    def __init__(self, masks: CatalogueMasks, rule: Rule, holds: bool) -> None:
        self.denies = rule.denies
        self.mask = masks.for_rule(rule)
        self.patterns = [(pattern.service, pattern._replace(service=STAR)) for pattern in rule.targets]
        self.holds = holds


def _hold_all(constraints: Iterable[Constraint], context: RequestContext) -> bool | None:
    """Return whether all constraints hold; None if unknown."""
    holds = True
    for constraint in constraints:
        if not model.may_hold(constraint)(context):
            return False
        holds = holds and model.must_hold(constraint)(context)
    return True if holds else None


@dataclass(frozen=True, slots=True)
class OperationBounds:
    """Bounds of the operations that rules allow in a tenant, as masks.

    `named`: an allow names the operation. `always_denied`: an unconditional deny covers every target. `possible`: some
    request may be allowed. `always_allowed`: every request in the tenant is allowed.
    """

    named: int
    always_denied: int
    possible: int
    always_allowed: int

    def within(self, other: "OperationBounds") -> "OperationBounds":
        return OperationBounds(
            self.named & other.named,
            self.always_denied | other.always_denied,
            self.possible & other.possible,
            self.always_allowed & other.always_allowed,
        )


def unlimited_bounds(masks: CatalogueMasks) -> OperationBounds:
    return OperationBounds(masks.all, 0, masks.all, masks.all)


def exact_bounds(mask: int) -> OperationBounds:
    """Return the bounds of a set of operations, such as scopes."""
    return OperationBounds(mask, 0, mask, mask)


def operation_bounds(masks: CatalogueMasks, rules: Iterable[GrantedRule], tenant: str) -> OperationBounds:
    """Return the bounds of rules in a tenant; each allow is limited to its author's bounds."""
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
    """Return the operations that a rule matches for some requests of the tenant, and for all."""
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


MAX_SUGGESTIONS = 3


class Catalogue:
    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)

    @cached_property
    def masks(self) -> CatalogueMasks:
        return CatalogueMasks(self.names)

    def has_match(self, pattern: OperationPattern) -> bool:
        return bool(self.masks.for_pattern(pattern))

    @cached_property
    def _names_by_part(self) -> dict[str, dict[str, list[str]]]:
        tree: dict[str, dict[str, list[str]]] = {}
        for name in self.names:
            service, resource, action = name.split(":")
            tree.setdefault(service, {}).setdefault(resource, []).append(action)
        return tree

    def suggest(self, pattern: OperationPattern) -> list[str]:
        """Return the names closest to a pattern without a match, compared part by part for speed."""
        suggestions: list[str] = []
        for service in _close_matches(pattern.service, list(self._names_by_part)):
            resources = self._names_by_part[service]
            for resource in _close_matches(pattern.resource, list(resources)):
                actions = resources[resource]
                for action in _close_matches(pattern.action, actions):
                    parts = (service, resource, action)
                    # Keep the * of the pattern.
                    corrected = [
                        STAR if written == STAR else known for written, known in zip(pattern, parts, strict=True)
                    ]
                    suggestions.append(":".join(corrected))
        return list(dict.fromkeys(suggestions))[:MAX_SUGGESTIONS]

    def expand(self, text: str) -> list[str]:
        """Return the operations that match a pattern with `*` inside a part."""
        parts = text.split(":")
        if len(parts) != 3:
            return []
        tests = [compile_glob(part) for part in parts]
        return [
            name for name in self.names if all(test(part) for test, part in zip(tests, name.split(":"), strict=True))
        ]


def _close_matches(part: str, values: Sequence[str]) -> list[str]:
    if part == STAR or part in values:
        return [part] if part in values else list(values)[:MAX_SUGGESTIONS]
    return get_close_matches(part, values, n=2, cutoff=0.6)

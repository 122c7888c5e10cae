"""Compares the effects of two sets of rules on a target, unconditional and under conditions."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from client.policy import conditions
from client.policy.coverage import CatalogueMasks, Coverage
from client.policy.engine import GrantedRule
from client.policy.matching import STAR, Target, may_cover, must_cover, resolve_target
from client.policy.model import RequestContext, Rule


class Condition(NamedTuple):
    """Condition for a rule to match: one of the targets (any if empty), and all constraints."""

    denies: bool
    targets: frozenset[Target]
    constraints: frozenset[tuple[str, str, frozenset[str]]]


def conditions_by_target(
    masks: CatalogueMasks, rules: Iterable[GrantedRule], targets: Iterable[tuple[Target, int]], context: RequestContext
) -> list[dict[Condition, int]]:
    """Return, for each target, its conditions with the requested operations that they apply to."""
    open_rules = [_OpenRule(masks, granted.rule, context) for granted in rules]
    results = []
    for target, operations in targets:
        result: dict[Condition, int] = {}
        for rule in open_rules:
            if rule.mask & operations:
                for patterns, within in rule.conditions_on(target):
                    condition = Condition(rule.denies, patterns, rule.constraints)
                    result[condition] = result.get(condition, 0) | rule.mask & within & operations
        results.append(result)
    return results


def differing_operations(before: dict[Condition, int], after: dict[Condition, int]) -> int:
    mask = 0
    for condition in before.keys() | after.keys():
        mask |= before.get(condition, 0) ^ after.get(condition, 0)
    return mask


def classify_changes(before: Coverage, after: Coverage, differing: int) -> dict[str, int]:
    """Return the operations that change on one target, by kind of change.

    `gained` and `lost` are unconditional. `nowUnconditional` were allowed under conditions before; `nowConditional`
    still are. `conditionalGained` were not allowed before; `conditionalLost` are no longer allowed.
    """
    allowed_before, allowed_after = before.effective, after.effective
    conditional_before, conditional_after = before.conditional, after.conditional
    return {
        "gained": allowed_after & ~allowed_before,
        "lost": allowed_before & ~allowed_after,
        "nowUnconditional": conditional_before & allowed_after,
        "nowConditional": allowed_before & conditional_after,
        "conditionalGained": conditional_after & ~conditional_before & ~allowed_before,
        "conditionalLost": conditional_before & ~conditional_after & ~allowed_after,
        "conditionsChanged": conditional_before & conditional_after & differing,
    }


class _OpenRule:
    """A rule as a mask of operations, target patterns, and constraints that the context does not satisfy."""

    __slots__ = ("constraints", "denies", "mask", "masks", "patterns", "region")

    def __init__(self, masks: CatalogueMasks, rule: Rule, context: RequestContext) -> None:
        self.masks = masks
        self.denies = rule.denies
        self.region = context.region
        constraints = [constraint for constraint in rule.constraints if not conditions.must_hold(constraint)(context)]
        self.constraints = frozenset(
            (constraint.operator, constraint.key, frozenset(constraint.values)) for constraint in constraints
        )
        never = any(not conditions.may_hold(constraint)(context) for constraint in constraints)
        self.mask = 0 if never else masks.for_rule(rule)
        self.patterns = [] if never else [(target.service, target._replace(service=STAR)) for target in rule.targets]

    def conditions_on(self, target: Target) -> Iterator[tuple[frozenset[Target], int]]:
        """Yield the patterns that may cover a target (none if one must cover it), with operations of their service."""
        requested = resolve_target(target, STAR, self.region)
        open_service = target.service == STAR
        applicable = [
            (service if open_service else STAR, pattern)
            for service, pattern in self.patterns
            if (open_service or service in (STAR, target.service)) and may_cover(pattern, requested)
        ]
        services = {service for service, _ in applicable} - {STAR}
        rest = self.masks.all
        for service in services:
            operations = self.masks.for_service(service)
            rest &= ~operations
            yield _deciding([pattern for own, pattern in applicable if own in (STAR, service)], requested), operations
        general = [pattern for own, pattern in applicable if own == STAR]
        if general:
            yield _deciding(general, requested), rest


def _deciding(patterns: Sequence[Target], requested: Target) -> frozenset[Target]:
    return frozenset(() if any(must_cover(pattern, requested) for pattern in patterns) else patterns)

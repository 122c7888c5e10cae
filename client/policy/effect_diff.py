"""What changes between two sets of rules on one target: in effect for certain, and under conditions.

By bit masks as the coverage map is: each condition is told apart by what is said, not by where it stands, and two
operations are under the same conditions when the same ones speak of them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from client.policy import conditions
from client.policy.coverage import CatalogueMasks, Coverage
from client.policy.engine import GrantedRule
from client.policy.matching import STAR, Target, may_cover, must_cover, resolve_target
from client.policy.model import RequestContext, Rule


class Condition(NamedTuple):
    """What has to turn out for a rule to match: one of some targets, none if any will do, and all constraints."""

    denies: bool
    targets: frozenset[Target]
    constraints: frozenset[tuple[str, str, frozenset[str]]]


def conditions_by_target(
    masks: CatalogueMasks, rules: Iterable[GrantedRule], asked: Iterable[tuple[Target, int]], facts: RequestContext
) -> list[dict[Condition, int]]:
    """Which of the operations asked for on each target each condition speaks of."""
    open_yet = [_Open(masks, granted.rule, facts) for granted in rules]
    listed = []
    for target, operations in asked:
        found: dict[Condition, int] = {}
        for rule in open_yet:
            if rule.mask & operations:
                for patterns, within in rule.on(target):
                    condition = Condition(rule.denies, patterns, rule.constraints)
                    found[condition] = found.get(condition, 0) | rule.mask & within & operations
        listed.append(found)
    return listed


def differing_operations(before: dict[Condition, int], after: dict[Condition, int]) -> int:
    """The operations that not the same conditions speak of."""
    mask = 0
    for condition in before.keys() | after.keys():
        mask |= before.get(condition, 0) ^ after.get(condition, 0)
    return mask


def classify_changes(before: Coverage, after: Coverage, conditions_differ: int) -> dict[str, int]:
    """The operations that change on one target, by how.

    `gained` and `lost` are in effect for certain, `nowUnconditional` and `nowConditional` those of them that were, or
    still are, allowed under conditions. `conditionalGained` were not allowed at all, `conditionalLost` no longer are.
    """
    then, now = before.effective, after.effective
    perhaps_then, perhaps_now = before.conditional, after.conditional
    return {
        "gained": now & ~then,
        "lost": then & ~now,
        "nowUnconditional": perhaps_then & now,
        "nowConditional": then & perhaps_now,
        "conditionalGained": perhaps_now & ~perhaps_then & ~then,
        "conditionalLost": perhaps_then & ~perhaps_now & ~now,
        "conditionsChanged": perhaps_then & perhaps_now & conditions_differ,
    }


class _Open:
    """A rule as a mask of operations, with its target patterns and what it says of facts that are not known."""

    __slots__ = ("constraints", "denies", "mask", "masks", "patterns", "region")

    def __init__(self, masks: CatalogueMasks, rule: Rule, facts: RequestContext) -> None:
        self.masks = masks
        self.denies = rule.denies
        self.region = facts.region
        constraints = [one for one in rule.constraints if not conditions.must_hold(one)(facts)]
        self.constraints = frozenset((one.operator, one.key, frozenset(one.values)) for one in constraints)
        never = any(not conditions.may_hold(one)(facts) for one in constraints)
        self.mask = 0 if never else masks.of_rule(rule)
        self.patterns = [] if never else [(target.service, target._replace(service=STAR)) for target in rule.targets]

    def on(self, target: Target) -> Iterator[tuple[frozenset[Target], int]]:
        """The patterns that may cover a target, none where one surely does; with the operations of their service."""
        asked = resolve_target(target, STAR, self.region)
        open_service = target.service == STAR
        here = [
            (service if open_service else STAR, pattern)
            for service, pattern in self.patterns
            if (open_service or service in (STAR, target.service)) and may_cover(pattern, asked)
        ]
        services = {service for service, _ in here} - {STAR}
        rest = self.masks.all
        for service in services:
            of = self.masks.of_service(service)
            rest &= ~of
            yield _deciding([pattern for mine, pattern in here if mine in (STAR, service)], asked), of
        everywhere = [pattern for mine, pattern in here if mine == STAR]
        if everywhere:
            yield _deciding(everywhere, asked), rest


def _deciding(patterns: Sequence[Target], asked: Target) -> frozenset[Target]:
    return frozenset(() if any(must_cover(pattern, asked) for pattern in patterns) else patterns)

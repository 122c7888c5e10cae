"""Which operations a set of rules can give in a tenant at all: always, under conditions, or never.

The coarse map beside the coverage of one target: what a principal may do "somewhere, somehow", by bit masks.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from service.policy.coverage import CatalogueMasks
from service.policy.engine import GrantedRule
from service.policy.matching import STAR, OperationPattern, Target
from service.policy.rules import Rule


@dataclass(frozen=True, slots=True)
class Reach:
    """Masks of operations.

    `named` are those some allow speaks of, `shut` those a deny without any condition takes away, `possible` those some
    request gets, as far as conditions go, and `sure` those every request in the tenant gets.
    """

    named: int
    shut: int
    possible: int
    sure: int

    def within(self, other: "Reach") -> "Reach":
        """Both together: what each of the two gives."""
        return Reach(
            self.named & other.named, self.shut | other.shut, self.possible & other.possible, self.sure & other.sure
        )


def everything(masks: CatalogueMasks) -> Reach:
    """Of somebody nothing limits."""
    return Reach(masks.all, 0, masks.all, masks.all)


def only(mask: int) -> Reach:
    """Of a plain set of operations, such as scopes are."""
    return Reach(mask, 0, mask, mask)


def reach(masks: CatalogueMasks, rules: Iterable[GrantedRule], tenant: str) -> Reach:
    """The reach of rules in a tenant; each allow ends where the reach of its author's rights ends."""
    named = possible = sure = denied = shut = 0
    caps: dict[int, Reach] = {}
    for granted in rules:
        some, every = spans(masks, granted.rule, tenant)
        if granted.rule.denies:
            denied |= some
            shut |= every
            continue
        if granted.cap is not None:
            cap = caps.get(id(granted.cap))
            if cap is None:
                cap = caps[id(granted.cap)] = reach(masks, granted.cap.rules, tenant)
            some, every = some & cap.possible, every & cap.sure
        named |= some
        possible |= some
        sure |= every
    return Reach(named, shut, possible & ~shut, sure & ~denied)


def spans(masks: CatalogueMasks, rule: Rule, tenant: str) -> tuple[int, int]:
    """The operations a rule matches on some request of the tenant, and those it matches on every one."""
    some = every = 0
    for target in rule.targets:
        if target.tenant not in (STAR, tenant):
            continue
        here = masks.of(OperationPattern(target.service, STAR, STAR))
        some |= here
        if not rule.constraints and _whole(target):
            every |= here
    mask = masks.of_rule(rule)
    return mask & some, mask & every


def _whole(target: Target) -> bool:
    return target.region == STAR and target.type == STAR and target.id.strip(STAR) == ""

"""Containment by trying every request of a small universe with the reference."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product

from client.policy.instants import parse_stored_timestamp
from client.policy.model import AccessRequest, RequestContext, Rule, parse_address
from tests.policy import reference
from tests.policy.worlds import ADDRESSES, TIMES

OPERATIONS = tuple(
    ":".join(parts)
    for parts in product(("compute", "storage", "new"), ("instances", "volumes", "new"), ("read", "delete", "new"))
)
REGIONS, TYPES = ("eu", "us", "elsewhere", "*"), ("instances", "volumes", "new", "*")
IDS = (*("".join(letters) for size in (1, 2, 3) for letters in product("abcx", repeat=size)), "*")
FEW_IDS = ("a", "ab", "abc", "b", "ba", "axb", "x", "*")
TEXTS = ("", "d", "de", "dev", "Dev", "prod", "de*", "*d*", "xd", "dex", "zz", "pro")
INSTANTS = tuple(parse_stored_timestamp(text) + step for text in TIMES for step in (-1.0, 0.0, 1.0))


def known(key: str) -> Iterator[object]:
    """Every value a fact of the universe takes; None is unknown."""
    if key == "frn:sourceIp":
        yield from (parse_address(text) for text in (*ADDRESSES, "10.128.0.1", "2001:db9::", "255.255.255.255"))
    elif key == "frn:currentTime":
        yield from (*INSTANTS, None)
    elif key == "frn:principalType":
        yield from ("api_key", "workload_identity", "user", None)
    else:
        yield from (*TEXTS, ABSENT)


ABSENT = "(absent)"


def facts(rules: Iterable[Rule]) -> list[RequestContext]:
    """Every combination of the facts some rules ask for, but for those that the target settles: region and tenant."""
    keys = sorted({constraint.key for rule in rules for constraint in rule.constraints} - {"frn:region", "frn:tenant"})
    found = [RequestContext()]
    for key in keys:
        if "Tag/" not in key:
            name = {
                "frn:sourceIp": "source_ip",
                "frn:currentTime": "current_time",
                "frn:principalType": "principal_type",
            }[key]
            found = [replace(one, **{name: value}) for one in found for value in known(key)]  # type: ignore[arg-type]
    for prefix, name in (("frn:requestTag/", "request_tags"), ("frn:resourceTag/", "resource_tags")):
        tags = [key.removeprefix(prefix) for key in keys if key.startswith(prefix)]
        if not tags:
            continue
        maps: list[dict[str, str] | None] = [
            {tag: value for tag, value in zip(tags, values, strict=True) if value != ABSENT}
            for values in product((*TEXTS, ABSENT), repeat=len(tags))
        ]
        maps.append(None)
        found = [replace(one, **{name: value}) for one in found for value in maps]  # type: ignore[arg-type]
    return found


def escapes(draft: Sequence[Rule], author: Sequence[Rule], tenant: str) -> AccessRequest | None:
    """A request of the universe that the draft allows and the author may not make; None when there is none."""
    every = facts([*draft, *author])
    ids = IDS if len(every) == 1 else FEW_IDS
    for service in ("compute", "storage", "new"):
        targets = [
            f"frn:{service}:{region}:{tenant}:{kind}/{name}" for region, kind, name in product(REGIONS, TYPES, ids)
        ]
        spread = _Spread(targets, every)
        for operation in OPERATIONS:
            if not operation.startswith(f"{service}:"):
                continue
            left = spread.effective(draft, operation) & ~spread.effective(author, operation)
            if left:
                place = (left & -left).bit_length() - 1
                target, fact = divmod(place, len(every))
                return AccessRequest(operation, targets[target], placed(every[fact], targets[target]))
    return None


def placed(facts: RequestContext, target: str) -> RequestContext:
    """The facts with the region and the tenant of a target; a region `*` is unknown."""
    _, _, region, tenant, _ = target.split(":", 4)
    return replace(facts, region=None if region == "*" else region, tenant=tenant)


class _Spread:
    """Rules as sets of (target, facts), numbered target first."""

    def __init__(self, targets: Sequence[str], every: Sequence[RequestContext]) -> None:
        self.targets = targets
        self.every = every
        self.kept: dict[tuple[bool, Rule], int] = {}

    def effective(self, rules: Sequence[Rule], operation: str) -> int:
        allowed = denied = 0
        for rule in rules:
            if any(reference.operation_matches(pattern, operation) for pattern in rule.operation_texts):
                if rule.denies:
                    denied |= self.of(rule)
                else:
                    allowed |= self.of(rule)
        return allowed & ~denied

    def of(self, rule: Rule) -> int:
        """Where a rule counts: an allow where it surely holds, a deny where it may."""
        name = (rule.denies, rule)
        if name not in self.kept:
            enough = (reference.TRUE, reference.UNKNOWN) if rule.denies else (reference.TRUE,)
            by_region: dict[str, int] = {}
            whole = 0
            for place, target in enumerate(self.targets):
                region = target.split(":")[2]
                if region not in by_region:
                    by_region[region] = self._facts_of(rule, target, enough)
                if any(reference.target_truth(pattern, target) in enough for pattern in rule.target_texts):
                    whole |= by_region[region] << place * len(self.every)
            self.kept[name] = whole
        return self.kept[name]

    def _facts_of(self, rule: Rule, target: str, enough: Sequence[str]) -> int:
        here = 0
        for place, one in enumerate(self.every):
            known = placed(one, target)
            if all(reference.constraint_truth(constraint, known) in enough for constraint in rule.constraints):
                here |= 1 << place
        return here

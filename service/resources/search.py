"""Finds the resources that a caller may list, at a bounded cost, however few of them there are.

What can be known without looking at a resource is left to the database: the regions and ids that rules name. The rest
is decided once for each region and set of tags, or once for each resource if rules name ids.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from client.policy.engine import Engine
from client.policy.matching import STAR, Target, fields_may_cover, parse_operation, parse_target
from client.policy.model import Rule
from service.api.enforcement import target_in
from service.authz.authorize import AuthorizationContext
from service.authz.decisions import CompiledGrants, Decision
from service.db.engine import Record

MAX_IDS = 5_000
"""Ids in one query; rules that name more are decided resource by resource."""
MAX_PATTERNS = 20
MAX_DECISIONS = 5_000
"""Resources that one request decides one by one."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where all resources are that may be allowed; None: anywhere. An id may be a pattern with `*`."""

    regions: frozenset[str] | None = None
    ids: frozenset[str] | None = None

    def and_also(self, other: "Bounds") -> "Within":
        """Return the narrower of both. Of two sets of ids the first is taken: they may hold patterns."""
        regions = [one.regions for one in (self, other) if one.regions is not None]
        return Bounds(
            frozenset.intersection(*regions) if regions else None, other.ids if self.ids is None else self.ids
        )


class ListFilter:
    """Decides about the resources of one listing.

    `within` bounds what has to be read. `exhausted` is true once `MOST_DECIDED` resources were decided one by one.
    """

    def __init__(self, ready: CompiledGrants, access: AuthorizationContext) -> None:
        self._ready = ready
        self._access = access
        asked = parse_target(target_in(access, None))
        engines = [engine for engine in (ready.role, ready.policies) if engine is not None]
        self.within = Bounds()
        for engine in engines:
            self.within = self.within.and_also(_within(engine, str(access.action), asked))
        self._by_id = any(_names_ids(engine, str(access.action), asked) for engine in engines)
        self._known: dict[Any, Decision] = {}
        self._left = MAX_DECISIONS

    @property
    def exhausted(self) -> bool:
        return self._left <= 0

    def decide(self, row: Record) -> Decision:
        """Return whether the caller may list a resource."""
        if self._by_id:
            self._left -= 1
            return self._decide(row)
        alike = (row.region, tuple(sorted(row.tags.items())))
        known = self._known.get(alike)
        if known is None:
            known = self._known[alike] = self._decide(row)
        return known

    def _decide(self, row: Record) -> Decision:
        access = self._access
        facts = replace(access.facts, region=row.region, resource_tags=row.tags)
        return self._ready.decide(str(access.action), target_in(access, row), facts)


def _rules(engine: Engine, action: str) -> Iterable[tuple[Rule, Engine | None]]:
    for number in engine.candidates(parse_operation(action)):
        yield engine.rules[number - 1].rule, engine.rules[number - 1].cap


def _targets(rule: Rule, asked: Target) -> list[Target]:
    return [pattern for pattern in rule.targets if fields_may_cover(pattern, asked)]


def _any(pattern: str) -> bool:
    return not pattern.strip(STAR)


def _within(engine: Engine, action: str, asked: Target) -> Bounds:
    """Return where the allows of an engine reach."""
    targets = [pattern for rule, _ in _rules(engine, action) if not rule.denies for pattern in _targets(rule, asked)]
    return Bounds(_named([pattern.region for pattern in targets]), _few([pattern.id for pattern in targets]))


def _named(values: Sequence[str]) -> frozenset[str] | None:
    return None if any(map(_any, values)) else frozenset(values)


def _few(ids: Sequence[str]) -> frozenset[str] | None:
    named = _named(ids)
    if named is None or len(named) > MAX_IDS or sum(STAR in one for one in named) > MAX_PATTERNS:
        return None
    return named


def _names_ids(engine: Engine, action: str, asked: Target) -> bool:
    """Return whether a rule, or the rights of its author, depends on the id of a resource."""
    caps: dict[int, Engine] = {}
    for rule, cap in _rules(engine, action):
        if not all(_any(pattern.id) for pattern in _targets(rule, asked)):
            return True
        if cap is not None:
            caps[id(cap)] = cap
    return any(_names_ids(cap, action, asked) for cap in caps.values())

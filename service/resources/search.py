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

    def intersection(self, other: "Bounds") -> "Bounds":
        """Return the narrower of both. Of two sets of ids the first is taken: they may hold patterns."""
        regions = [bounds.regions for bounds in (self, other) if bounds.regions is not None]
        return Bounds(
            frozenset.intersection(*regions) if regions else None, other.ids if self.ids is None else self.ids
        )


class ListFilter:
    """Decides about the resources of one listing.

    `within` bounds what has to be read. `exhausted` is true once `MOST_DECIDED` resources were decided one by one.
    """

    def __init__(self, grants: CompiledGrants, access: AuthorizationContext) -> None:
        self._grants = grants
        self._access = access
        requested = parse_target(target_in(access, None))
        engines = [engine for engine in (grants.role, grants.policies) if engine is not None]
        self.bounds = Bounds()
        for engine in engines:
            self.bounds = self.bounds.intersection(_bounds(engine, str(access.action), requested))
        self._by_id = any(_names_ids(engine, str(access.action), requested) for engine in engines)
        self._decisions: dict[Any, Decision] = {}
        self._remaining = MAX_DECISIONS

    @property
    def exhausted(self) -> bool:
        return self._remaining <= 0

    def decide(self, row: Record) -> Decision:
        """Return whether the caller may list a resource."""
        if self._by_id:
            self._remaining -= 1
            return self._decide(row)
        key = (row.region, tuple(sorted(row.tags.items())))
        decision = self._decisions.get(key)
        if decision is None:
            decision = self._decisions[key] = self._decide(row)
        return decision

    def _decide(self, row: Record) -> Decision:
        access = self._access
        context = replace(access.facts, region=row.region, resource_tags=row.tags)
        return self._grants.decide(str(access.action), target_in(access, row), context)


def _rules(engine: Engine, action: str) -> Iterable[tuple[Rule, Engine | None]]:
    for number in engine.candidates(parse_operation(action)):
        yield engine.rules[number - 1].rule, engine.rules[number - 1].cap


def _targets(rule: Rule, requested: Target) -> list[Target]:
    return [pattern for pattern in rule.targets if fields_may_cover(pattern, requested)]


def _is_any(pattern: str) -> bool:
    return not pattern.strip(STAR)


def _bounds(engine: Engine, action: str, requested: Target) -> Bounds:
    """Return where the allows of an engine reach."""
    targets = [
        pattern for rule, _ in _rules(engine, action) if not rule.denies for pattern in _targets(rule, requested)
    ]
    return Bounds(_literals([pattern.region for pattern in targets]), _bounded_ids([pattern.id for pattern in targets]))


def _literals(values: Sequence[str]) -> frozenset[str] | None:
    return None if any(map(_is_any, values)) else frozenset(values)


def _bounded_ids(ids: Sequence[str]) -> frozenset[str] | None:
    literals = _literals(ids)
    if literals is None or len(literals) > MAX_IDS or sum(STAR in id_ for id_ in literals) > MAX_PATTERNS:
        return None
    return literals


def _names_ids(engine: Engine, action: str, requested: Target) -> bool:
    """Return whether a rule, or the rights of its author, depends on the id of a resource."""
    caps: dict[int, Engine] = {}
    for rule, cap in _rules(engine, action):
        if not all(_is_any(pattern.id) for pattern in _targets(rule, requested)):
            return True
        if cap is not None:
            caps[id(cap)] = cap
    return any(_names_ids(cap, action, requested) for cap in caps.values())

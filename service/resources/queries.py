"""Queries for resources of a tenant, and the filter of a listing, with bounded cost.

Regions and ids in policy rules limit the query. Decisions are cached by region and tags, unless rules name ids.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, bindparam, or_, select

from client.policy.engine import Engine
from client.policy.matching import STAR, Target, fields_may_cover, parse_operation, parse_target
from client.policy.model import Rule
from service.api.enforcement import target_in
from service.authz.context import TenantContext
from service.authz.decisions import CompiledGrants, Decision
from service.db.engine import Record
from service.db.prepared import prepared
from service.db.statements import KeysetKey, after_key, delete_rows, insert_row, records, update_row
from service.db.tables import resources

_ORDER = (resources.c.created_at, resources.c.id)
_SELECT_ONE = prepared(
    select(resources).where(
        resources.c.tenant_id == bindparam("tenant"),
        resources.c.kind == bindparam("of_kind"),
        resources.c.id == bindparam("one"),
    )
)
_SELECT_FOR_UPDATE = _SELECT_ONE.with_for_update()
MAX_IDS = 5_000
"""Maximum number of ids in a query. If rules name more, the query is not limited by id."""
MAX_PATTERNS = 20
MAX_DECISIONS = 5_000
"""Maximum number of uncached decisions in a request."""


def find(connection: Connection, tenant_id: str, kind: str, resource_id: str, *, lock: bool = False) -> Record | None:
    """Return a resource; `lock` locks its row."""
    parameters = {"tenant": tenant_id, "of_kind": kind, "one": resource_id}
    return connection.execute(_SELECT_FOR_UPDATE if lock else _SELECT_ONE, parameters).one_or_none()


def find_of_kinds(connection: Connection, tenant_id: str, kinds: Sequence[str], resource_id: str) -> Record | None:
    return connection.execute(
        select(resources).where(
            resources.c.tenant_id == tenant_id, resources.c.kind.in_(kinds), resources.c.id == resource_id
        )
    ).one_or_none()


def page(
    connection: Connection,
    tenant_id: str,
    kind: str,
    after: KeysetKey | None,
    limit: int,
    regions: Iterable[str] | None = None,
    ids: Iterable[str] | None = None,
) -> Sequence[Record]:
    """Return up to `limit` + 1 resources of a kind in the order of creation.

    Args:
        regions: Only resources in these regions.
        ids: Only resources with these ids; `*` is any text. SQLite ignores case, so it may return more.
    """
    query = select(resources).where(resources.c.tenant_id == tenant_id, resources.c.kind == kind)
    if regions is not None:
        query = query.where(resources.c.region.in_(sorted(regions)))
    if ids is not None:
        ids = sorted(ids)
        literals = resources.c.id.in_([id_ for id_ in ids if "*" not in id_])
        query = query.where(or_(literals, *(resources.c.id.like(_like(id_), escape="\\") for id_ in ids if "*" in id_)))
    if after is not None:
        query = query.where(after_key(_ORDER, after))
    return list(records(connection, query.order_by(*_ORDER).limit(limit + 1)))


def _like(pattern: str) -> str:
    return re.sub(r"[\\%_]", r"\\\g<0>", pattern).replace("*", "%")


def add(connection: Connection, values: dict[str, Any]) -> Record:
    """Insert a resource; return its row."""
    return insert_row(connection, resources, values)


def change(connection: Connection, tenant_id: str, resource_id: str, values: dict[str, Any]) -> Record | None:
    """Update a resource; return its row."""
    return update_row(connection, resources, {"tenant_id": tenant_id, "id": resource_id}, values)


def remove(connection: Connection, tenant_id: str, resource_id: str) -> None:
    delete_rows(connection, resources, {"tenant_id": tenant_id, "id": resource_id})


@dataclass(frozen=True, slots=True)
class Bounds:
    """Regions and ids outside which no resource is allowed; None for any. Ids may contain `*`."""

    regions: frozenset[str] | None = None
    ids: frozenset[str] | None = None

    def intersection(self, other: "Bounds") -> "Bounds":
        """Intersect the regions. Sets of ids may have patterns, so the first is used."""
        regions = [bounds.regions for bounds in (self, other) if bounds.regions is not None]
        return Bounds(
            frozenset.intersection(*regions) if regions else None, other.ids if self.ids is None else self.ids
        )


class ListFilter:
    """Decides which resources a listing includes, within `bounds`; `exhausted` after `MAX_DECISIONS`."""

    def __init__(self, grants: CompiledGrants, context: TenantContext) -> None:
        self._grants = grants
        self._context = context
        requested = parse_target(target_in(context, None))
        engines = [engine for engine in (grants.role, grants.policies) if engine is not None]
        self.bounds = Bounds()
        for engine in engines:
            self.bounds = self.bounds.intersection(_bounds(engine, str(context.action), requested))
        self._by_id = any(_names_ids(engine, str(context.action), requested) for engine in engines)
        self._decisions: dict[Any, Decision] = {}
        self._remaining = MAX_DECISIONS

    @property
    def exhausted(self) -> bool:
        return self._remaining <= 0

    def decide(self, row: Record) -> Decision:
        if self._by_id:
            self._remaining -= 1
            return self._decide(row)
        key = (row.region, tuple(sorted(row.tags.items())))
        decision = self._decisions.get(key)
        if decision is None:
            decision = self._decisions[key] = self._decide(row)
        return decision

    def _decide(self, row: Record) -> Decision:
        context = self._context
        request_context = replace(context.facts, region=row.region, resource_tags=row.tags)
        return self._grants.decide(str(context.action), target_in(context, row), request_context)


def _rules(engine: Engine, action: str) -> Iterable[tuple[Rule, Engine | None]]:
    for number in engine.candidates(parse_operation(action)):
        yield engine.rules[number - 1].rule, engine.rules[number - 1].cap


def _targets(rule: Rule, requested: Target) -> list[Target]:
    return [pattern for pattern in rule.targets if fields_may_cover(pattern, requested)]


def _is_any(pattern: str) -> bool:
    return not pattern.strip(STAR)


def _bounds(engine: Engine, action: str, requested: Target) -> Bounds:
    """Return the bounds of an engine's allow rules."""
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
    """Return whether a rule or its author's cap depends on resource ids."""
    caps: dict[int, Engine] = {}
    for rule, cap in _rules(engine, action):
        if not all(_is_any(pattern.id) for pattern in _targets(rule, requested)):
            return True
        if cap is not None:
            caps[id(cap)] = cap
    return any(_names_ids(cap, action, requested) for cap in caps.values())

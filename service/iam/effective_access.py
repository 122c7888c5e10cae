"""Computes the operations and grants of a principal, and the effect of a change on them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from client.policy.bitsets import indices
from client.policy.coverage import (
    CatalogueMasks,
    OperationBounds,
    exact_bounds,
    operation_bounds,
    rule_bounds,
    unlimited_bounds,
)
from client.policy.engine import GrantedRule
from client.policy.explain import Condition, conditions_by_target, differing_operations
from client.policy.matching import ANY_TARGET
from client.policy.model import RequestContext
from client.policy.partial import undetermined_rules
from service.authz.decisions import CatalogueSnapshot, CompiledGrants
from service.catalogue.operations import covers, roles
from service.db.engine import Record
from service.iam import representations

MAX_VALUES = 20
"""Limit on rules of an operation and on targets and values of a rule; the response has their totals."""

Paths = Mapping[str, list[Record | None]]
"""Paths to the principal by policy id: None for a direct attachment, else the group with `id` and `name`."""


@dataclass(frozen=True, slots=True)
class GrantParts:
    """The parts of compiled grants; each must allow an operation. None is no limit."""

    scopes: tuple[str, ...] | None
    role: tuple[GrantedRule, ...] | None
    policies: tuple[GrantedRule, ...] | None
    unreadable: bool = False

    def reach(self, catalogue: CatalogueSnapshot, tenant: str) -> OperationBounds:
        """Return the operations that all parts allow."""
        masks = catalogue.operations.masks
        bounds = unlimited_bounds(masks)
        if self.scopes is not None:
            bounds = bounds.within(exact_bounds(scope_mask(self.scopes, catalogue)))
        if self.role is not None:
            bounds = bounds.within(operation_bounds(masks, self.role, tenant))
        if self.unreadable:
            # The rules of an unreadable policy are unknown, so report denials.
            return replace(bounds, always_denied=masks.all, possible=0, always_allowed=0)
        return bounds if self.policies is None else bounds.within(operation_bounds(masks, self.policies, tenant))

    def conditions(self, masks: CatalogueMasks, tenant: str, operations: int) -> dict[Condition, int]:
        target = ANY_TARGET._replace(tenant=tenant)
        return conditions_by_target(masks, self.policies or (), [(target, operations)], RequestContext())[0]


def load_parts(compiled: CompiledGrants) -> GrantParts:
    grants = compiled.principal
    return GrantParts(
        scopes=grants.scopes,
        role=None if compiled.role is None else tuple(compiled.role.rules),
        policies=None if compiled.policies is None else tuple(compiled.policies.rules),
        unreadable=bool(compiled.unreadable),
    )


def scope_mask(scopes: Iterable[str], catalogue: CatalogueSnapshot) -> int:
    scope_names = tuple(scopes)
    mask = 0
    for index, name in enumerate(catalogue.operations.names):
        if covers(scope_names, catalogue.scope_of(name)):
            mask |= 1 << index
    return mask


def operations(compiled: CompiledGrants, paths: Paths) -> list[dict[str, Any]]:
    """Return the operations that rules allow, each with the rules that allow or deny it."""
    tenant, catalogue = compiled.principal.tenant_id, compiled.catalogue
    masks = catalogue.operations.masks
    parts = load_parts(compiled)
    bounds = parts.reach(catalogue, tenant)
    allows, denies = _Grants(), _Grants()
    for scope in parts.scopes or ():
        allows.add(bounds.named & scope_mask((scope,), catalogue), partial(_scope, scope))
    for rules in (parts.role, parts.policies):
        for granted in rules or ():
            mask, _ = rule_bounds(masks, granted.rule, tenant)
            (denies if granted.rule.denies else allows).add(mask & bounds.named, partial(grant, granted, paths))
    entries = []
    for index in indices(bounds.named):
        bit = 1 << index
        access = "allowed" if bounds.always_allowed & bit else "conditional" if bounds.possible & bit else "denied"
        entries.append(
            {
                "operation": masks.operations[index],
                "access": access,
                "by": allows.first.get(index, []),
                "byTotal": allows.total(index),
                "deniedBy": denies.first.get(index, []),
                "deniedByTotal": denies.total(index),
            }
        )
    return sorted(entries, key=lambda entry: str(entry["operation"]))


class _Grants:
    """The first grants of each operation, by its index in the catalogue, and their number.

    Plane n contains bit n of each operation's number, so that all are incremented at once.
    """

    def __init__(self) -> None:
        self.first: dict[int, list[dict[str, Any]]] = {}
        self._planes: list[int] = []
        self._full = 0

    def add(self, mask: int, grant: Callable[[], dict[str, Any]]) -> None:
        """Add a grant to the operations of a mask; call `grant` only if it is among the first of an operation."""
        unfilled = mask & ~self._full
        entry = grant() if unfilled else {}
        for index in indices(unfilled):
            first = self.first.setdefault(index, [])
            first.append(entry)
            if len(first) == MAX_VALUES:
                self._full |= 1 << index
        for number, plane in enumerate(self._planes):
            if not mask:
                return
            self._planes[number], mask = plane ^ mask, plane & mask
        if mask:
            self._planes.append(mask)

    def total(self, index: int) -> int:
        return sum((plane >> index & 1) << number for number, plane in enumerate(self._planes))


def _scope(scope: str) -> dict[str, Any]:
    return {"kind": "scope", "scope": scope}


def _scopes_for(scopes: Iterable[str], operation: str, catalogue: CatalogueSnapshot) -> list[str]:
    return [scope for scope in scopes if covers((scope,), catalogue.scope_of(operation))]


def grant(granted: GrantedRule, paths: Paths) -> dict[str, Any]:
    source, rule = granted.source, granted.rule
    entry: dict[str, Any] = {"kind": "policy", "ruleIndex": source.index, "ruleName": rule.name}
    if source.policy_id.startswith("role:"):
        entry |= {"kind": "role", "role": source.policy_id.removeprefix("role:")}
    else:
        entry |= {
            "policyId": source.policy_id,
            "policyName": source.policy_name,
            "paths": wire_paths(paths.get(source.policy_id, ())),
        }
    if rule.target_texts != ("*",):
        entry |= {"targets": list(rule.target_texts[:MAX_VALUES]), "targetsTotal": len(rule.target_texts)}
    if rule.constraints:
        entry |= {
            "constraints": [
                representations.constraint(constraint._replace(values=constraint.values[:MAX_VALUES]))
                | {"valuesTotal": len(constraint.values)}
                for constraint in rule.constraints[:MAX_VALUES]
            ],
            "constraintsTotal": len(rule.constraints),
        }
    return entry


def wire_paths(groups: Sequence[Record | None]) -> list[dict[str, Any]]:
    return [_path(group) for group in groups[:MAX_VALUES]]


def _path(group: Record | None) -> dict[str, Any]:
    return {"type": "direct"} if group is None else {"type": "group", "id": group.id, "name": group.name}


def limits(compiled: CompiledGrants) -> list[dict[str, str]]:
    """Return the scopes and role that limit a principal."""
    entries = []
    if compiled.principal.scopes is not None:
        entries.append({"kind": "scopes", "detail": ", ".join(compiled.principal.scopes)})
    if compiled.role is not None:
        role = compiled.principal.role
        entries.append({"kind": "role", "detail": role if role and role in roles() else "none"})
    return entries


def explain_access(
    compiled: CompiledGrants, operation: str, target: str, facts: RequestContext
) -> dict[str, Any] | None:
    """Return whether a request is allowed or conditional, with its grants; None if it is denied.

    Each part contributes its deciding rule or, without one, the first rules that may allow or deny the request.
    """
    scopes = compiled.principal.scopes
    covering = [] if scopes is None else _scopes_for(scopes, operation, compiled.catalogue)[:1]
    if compiled.unreadable or (scopes is not None and not covering):
        return None
    by = [_scope(scope) for scope in covering]
    denied: list[dict[str, Any]] = []
    access = "allowed"
    for engine in (compiled.role, compiled.policies):
        if engine is None:
            continue
        decision = engine.decide(operation, target, facts)
        if decision > 0:
            by.append(grant(engine.rules[decision - 1], {}))
            continue
        undetermined = undetermined_rules(engine, operation, target, facts)
        if not undetermined.allows:
            return None
        access = "conditional"
        by += [grant(granted, {}) for granted in undetermined.allows[:MAX_VALUES]]
        denied += [grant(granted, {}) for granted in undetermined.denies[:MAX_VALUES]]
    return {"access": access, "by": by, "deniedBy": denied} if by else None


def difference(catalogue: CatalogueSnapshot, tenant: str, before: GrantParts, after: GrantParts) -> dict[str, Any]:
    """Return the operations that a principal gains and loses by a change.

    `gained` and `lost`: from no request to every request, and the reverse. `conditionalGained` and `conditionalLost`:
    from no request to some, and the reverse. `widened` and `narrowed`: from some requests to every request, and the
    reverse. `conditionsChanged`: some requests, under other conditions.
    """
    masks = catalogue.operations.masks
    then, now = before.reach(catalogue, tenant), after.reach(catalogue, tenant)
    conditional = then.possible & ~then.always_allowed & now.possible & ~now.always_allowed
    lists = {
        "gained": now.always_allowed & ~then.possible,
        "lost": then.always_allowed & ~now.possible,
        "conditionalGained": now.possible & ~now.always_allowed & ~then.possible,
        "conditionalLost": then.possible & ~then.always_allowed & ~now.possible,
        "widened": now.always_allowed & ~then.always_allowed & then.possible,
        "narrowed": then.always_allowed & ~now.always_allowed & now.possible,
        "conditionsChanged": conditional
        and differing_operations(*(one.conditions(masks, tenant, conditional) for one in (before, after))),
    }
    entry: dict[str, Any] = {name: masks.names(mask)[:200] for name, mask in lists.items()}
    entry |= {f"{name}Count": mask.bit_count() for name, mask in lists.items()}
    return entry

"""What a principal may do at all, from where it has each operation, and what a change would give or take."""

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
from client.policy.effect_diff import Condition, conditions_by_target, differing_operations
from client.policy.engine import GrantedRule
from client.policy.matching import ANY_TARGET
from client.policy.model import RequestContext
from client.policy.partial import undetermined_rules
from service.authz.decisions import CatalogueSnapshot, CompiledGrants, covers
from service.catalogue.operations import roles
from service.db.engine import Record
from service.iam import representations

MAX_VALUES = 20
"""Of what may be very many (rules for one operation, targets and values of one rule): the first, and how many."""

Paths = Mapping[str, list[Record | None]]
"""By policy id: how it reaches the principal; None is directly, a record the group with `id` and `name`."""


@dataclass(frozen=True, slots=True)
class GrantParts:
    """A compiled standing taken apart: each part must give what is done. None: the part is not asked."""

    scopes: tuple[str, ...] | None
    role: tuple[GrantedRule, ...] | None
    policies: tuple[GrantedRule, ...] | None
    unreadable: bool = False

    def reach(self, known: CatalogueSnapshot, tenant: str) -> OperationBounds:
        """All parts together."""
        masks = known.catalogue.masks
        found = unlimited_bounds(masks)
        if self.scopes is not None:
            found = found.within(exact_bounds(scope_mask(self.scopes, known)))
        if self.role is not None:
            found = found.within(operation_bounds(masks, self.role, tenant))
        if self.unreadable:
            # What it would give is not known, so all of it is shown as taken away.
            return replace(found, always_denied=masks.all, possible=0, always_allowed=0)
        return found if self.policies is None else found.within(operation_bounds(masks, self.policies, tenant))

    def conditions(self, masks: CatalogueMasks, tenant: str, operations: int) -> dict[Condition, int]:
        """What some operations depend on in a tenant by the policies, the part that a change may be about."""
        target = ANY_TARGET._replace(tenant=tenant)
        return conditions_by_target(masks, self.policies or (), [(target, operations)], RequestContext())[0]


def load_parts(compiled: CompiledGrants) -> GrantParts:
    """The parts of a standing."""
    grants = compiled.principal
    return GrantParts(
        scopes=grants.scopes,
        role=None if compiled.role is None else tuple(compiled.role.rules),
        policies=None if compiled.policies is None else tuple(compiled.policies.rules),
        unreadable=bool(compiled.unreadable),
    )


def scope_mask(scopes: Iterable[str], known: CatalogueSnapshot) -> int:
    """The operations scopes cover."""
    given = tuple(scopes)
    mask = 0
    for place, name in enumerate(known.catalogue.names):
        if covers(given, known.scope_of(name)):
            mask |= 1 << place
    return mask


def operations(compiled: CompiledGrants, paths: Paths) -> list[dict[str, Any]]:
    """Every operation some rule gives, with the rules that give it and those that take it away."""
    tenant, known = compiled.principal.tenant_id, compiled.known
    masks = known.catalogue.masks
    parts = load_parts(compiled)
    found = parts.reach(known, tenant)
    giving, taking = _Grants(), _Grants()
    for scope in parts.scopes or ():
        giving.add(found.named & scope_mask((scope,), known), partial(_scope, scope))
    for rules in (parts.role, parts.policies):
        for granted in rules or ():
            mask, _ = rule_bounds(masks, granted.rule, tenant)
            (taking if granted.rule.denies else giving).add(mask & found.named, partial(grant, granted, paths))
    listed = []
    for place in indices(found.named):
        bit = 1 << place
        access = "allowed" if found.always_allowed & bit else "conditional" if found.possible & bit else "denied"
        listed.append(
            {
                "operation": masks.operations[place],
                "access": access,
                "by": giving.first.get(place, []),
                "byTotal": giving.total(place),
                "deniedBy": taking.first.get(place, []),
                "deniedByTotal": taking.total(place),
            }
        )
    return sorted(listed, key=lambda entry: str(entry["operation"]))


class _Grants:
    """By operation (its place in the catalogue) the first grants, and how many there are.

    Counted for all operations at once: plane n holds bit n of each one's number, so that a rule for every operation
    costs as little as a rule for one.
    """

    def __init__(self) -> None:
        self.first: dict[int, list[dict[str, Any]]] = {}
        self._planes: list[int] = []
        self._full = 0

    def add(self, mask: int, grant: Callable[[], dict[str, Any]]) -> None:
        """One more for the operations of a mask; `grant` is made only where it is among the first."""
        wanted = mask & ~self._full
        shown = grant() if wanted else {}
        for place in indices(wanted):
            first = self.first.setdefault(place, [])
            first.append(shown)
            if len(first) == MAX_VALUES:
                self._full |= 1 << place
        for number, plane in enumerate(self._planes):
            if not mask:
                return
            self._planes[number], mask = plane ^ mask, plane & mask
        if mask:
            self._planes.append(mask)

    def total(self, place: int) -> int:
        return sum((plane >> place & 1) << number for number, plane in enumerate(self._planes))


def _scope(scope: str) -> dict[str, Any]:
    return {"kind": "scope", "scope": scope}


def _scopes_for(scopes: Iterable[str], operation: str, known: CatalogueSnapshot) -> list[str]:
    return [scope for scope in scopes if covers((scope,), known.scope_of(operation))]


def grant(granted: GrantedRule, paths: Paths) -> dict[str, Any]:
    """Where a rule comes from, on the wire."""
    source, rule = granted.source, granted.rule
    shown: dict[str, Any] = {"kind": "policy", "ruleIndex": source.index, "ruleName": rule.name}
    if source.policy_id.startswith("role:"):
        shown |= {"kind": "role", "role": source.policy_id.removeprefix("role:")}
    else:
        shown |= {
            "policyId": source.policy_id,
            "policyName": source.policy_name,
            "paths": shown_paths(paths.get(source.policy_id, ())),
        }
    if rule.target_texts != ("*",):
        shown |= {"targets": list(rule.target_texts[:MAX_VALUES]), "targetsTotal": len(rule.target_texts)}
    if rule.constraints:
        shown |= {
            "constraints": [
                representations.constraint(one._replace(values=one.values[:MAX_VALUES]))
                | {"valuesTotal": len(one.values)}
                for one in rule.constraints[:MAX_VALUES]
            ],
            "constraintsTotal": len(rule.constraints),
        }
    return shown


def shown_paths(groups: Sequence[Record | None]) -> list[dict[str, Any]]:
    """The first ways in which a policy reaches a principal."""
    return [_path(one) for one in groups[:MAX_VALUES]]


def _path(group: Record | None) -> dict[str, Any]:
    """How a policy reaches a principal."""
    return {"type": "direct"} if group is None else {"type": "group", "id": group.id, "name": group.name}


def limits(compiled: CompiledGrants) -> list[dict[str, str]]:
    """What bounds a principal beside its policies."""
    found = []
    if compiled.principal.scopes is not None:
        found.append({"kind": "scopes", "detail": ", ".join(compiled.principal.scopes)})
    if compiled.role is not None:
        role = compiled.principal.role
        found.append({"kind": "role", "detail": role if role and role in roles() else "none"})
    return found


def explain_access(
    compiled: CompiledGrants, operation: str, target: str, facts: RequestContext
) -> dict[str, Any] | None:
    """Whether a request is allowed, or allowed as what is not known turns out, and through what; None if neither.

    Of each part the rule that decides; where none does, the first that may, and the first denies that may stand
    against them.
    """
    scopes = compiled.principal.scopes
    given = [] if scopes is None else _scopes_for(scopes, operation, compiled.known)[:1]
    if compiled.unreadable or (scopes is not None and not given):
        return None
    by = [_scope(scope) for scope in given]
    denied: list[dict[str, Any]] = []
    access = "allowed"
    for engine in (compiled.role, compiled.policies):
        if engine is None:
            continue
        verdict = engine.decide(operation, target, facts)
        if verdict > 0:
            by.append(grant(engine.rules[verdict - 1], {}))
            continue
        perhaps = undetermined_rules(engine, operation, target, facts)
        if not perhaps.allows:
            return None
        access = "conditional"
        by += [grant(granted, {}) for granted in perhaps.allows[:MAX_VALUES]]
        denied += [grant(granted, {}) for granted in perhaps.denies[:MAX_VALUES]]
    return {"access": access, "by": by, "deniedBy": denied} if by else None


def difference(known: CatalogueSnapshot, tenant: str, before: GrantParts, after: GrantParts) -> dict[str, Any]:
    """What a principal has afterwards and had not before.

    `gained` and `lost` are for certain: on every request afterwards, or before. What some requests only get that none
    got, or that none get any more, is `conditionalGained` and `conditionalLost`. `narrowed` and `widened` stay possible
    but under more or fewer conditions, `conditionsChanged` under other ones.
    """
    masks = known.catalogue.masks
    then, now = before.reach(known, tenant), after.reach(known, tenant)
    perhaps = then.possible & ~then.always_allowed & now.possible & ~now.always_allowed
    lists = {
        "gained": now.always_allowed & ~then.possible,
        "lost": then.always_allowed & ~now.possible,
        "conditionalGained": now.possible & ~now.always_allowed & ~then.possible,
        "conditionalLost": then.possible & ~then.always_allowed & ~now.possible,
        "widened": now.always_allowed & ~then.always_allowed & then.possible,
        "narrowed": then.always_allowed & ~now.always_allowed & now.possible,
        "conditionsChanged": perhaps
        and differing_operations(*(one.conditions(masks, tenant, perhaps) for one in (before, after))),
    }
    shown: dict[str, Any] = {name: masks.names(mask)[:200] for name, mask in lists.items()}
    shown |= {f"{name}Count": mask.bit_count() for name, mask in lists.items()}
    return shown

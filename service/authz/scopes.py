"""Which operations a scope stands for, and whether somebody's role gives any of them. contract: Scope rules

A key never exceeds its creator at any moment, because every decision asks the creator's role as well. What is asked
here, when a scope is given, is coarser: nobody gives a scope of which they hold nothing. checklist K09, K10
"""

from dataclasses import dataclass
from functools import lru_cache

from client.policy.coverage import operation_bounds
from service.authz.decisions import CatalogueSnapshot, role_rules
from service.catalogue.operations import scope_of, scopes

REMEMBERED = 2_048
MAX_OPERATIONS = 5


@dataclass(frozen=True, slots=True)
class Holding:
    """How much of a scope a role gives: of every verb something (`held`), and up to five operations it lacks."""

    held: bool
    lacks: tuple[str, ...]


@lru_cache(maxsize=REMEMBERED)
def holding(role: str | None, scope: str, tenant_id: str, known: CatalogueSnapshot) -> Holding:
    """Return how much of a scope a role holds in a tenant, under any conditions.

    An operation of another service that the scope covers too (`organizations:write` covers bindings) is not enough.
    """
    given = possible(role, tenant_id, known)
    parts = [part for part in verbs(scope, known) if part]
    lacks = [name for part in parts for name in part if name not in given]
    # The first one is printed: an operation of the scope's own service explains the refusal.
    lacks.sort(key=lambda name: not _is_own(scope, name))
    held = bool(parts) and all(any(name in given for name in _own(scope, part)) for part in parts)
    return Holding(held, tuple(lacks[:MAX_OPERATIONS]))


def _own(scope: str, operations: list[str]) -> list[str]:
    """Return the operations of the scope's service; all of them for a scope that covers other services only."""
    return [name for name in operations if _is_own(scope, name)] or operations


def _is_own(scope: str, operation: str) -> bool:
    return operation.partition(":")[0] == scope.partition(":")[0]


@lru_cache(maxsize=REMEMBERED)
def possible(role: str | None, tenant_id: str, known: CatalogueSnapshot) -> frozenset[str]:
    """The operations a role gives on something in a tenant, under whatever conditions."""
    masks = known.catalogue.masks
    return frozenset(masks.names(operation_bounds(masks, role_rules(role), tenant_id).possible))


def verbs(scope: str, known: CatalogueSnapshot) -> list[list[str]]:
    """The operations of a scope, apart by the scope that a service asks for.

    `compute:*` stands for two: `compute:read` and `compute:write`. A scope that no service asks for stands for the
    operations it is named after, or for its whole service.
    """
    service, _, verb = scope.partition(":")
    if ":" in verb:
        return [[scope]]
    by_scope: dict[str, list[str]] = {}
    for name in known.catalogue.names:
        by_scope.setdefault(scope_of(name, known.levels[name]), []).append(name)
    if verb == "*":
        return [part for needed, part in by_scope.items() if needed.startswith(f"{service}:") and needed in listed()]
    names = [name for name in known.catalogue.names if name.startswith(f"{service}:")]
    return [by_scope.get(scope) or [name for name in names if name.rpartition(":")[2] == verb] or names]


def listed() -> frozenset[str]:
    """The scopes that can be given, the global wildcard not among them."""
    return frozenset(scope.scope for scope in scopes() if scope.scope != "*")

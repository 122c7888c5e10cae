"""The operations that a scope covers, and whether a role allows any of them.

Users can only grant a scope if their role allows one of its operations. Each decision about a key checks its creator's
current role again.
"""

from dataclasses import dataclass
from functools import lru_cache

from client.policy.coverage import operation_bounds
from service.authz.decisions import CatalogueSnapshot, role_rules
from service.catalogue.operations import scope_of, scopes

CACHE_SIZE = 2_048
MAX_OPERATIONS = 5


@dataclass(frozen=True, slots=True)
class Holding:
    """Whether a role permits a scope, and up to five operations that it lacks."""

    permitted: bool
    lacks: tuple[str, ...]


@lru_cache(maxsize=CACHE_SIZE)
def holding(role: str | None, scope: str, tenant_id: str, catalogue: CatalogueSnapshot) -> Holding:
    """Return how much of a scope a role allows in a tenant, under any conditions.

    A role permits a scope if it allows an operation of the scope's own service for every verb.
    `organizations:write` also covers bindings, which are not enough.
    """
    allowed = possible(role, tenant_id, catalogue)
    parts = [part for part in verbs(scope, catalogue) if part]
    lacks = [name for part in parts for name in part if name not in allowed]
    # Clients print the first operation; the scope's own service explains the refusal best.
    lacks.sort(key=lambda name: not _is_own(scope, name))
    permitted = bool(parts) and all(any(name in allowed for name in _own_operations(scope, part)) for part in parts)
    return Holding(permitted, tuple(lacks[:MAX_OPERATIONS]))


def _own_operations(scope: str, operations: list[str]) -> list[str]:
    """Return the operations of the scope's service, or all without any."""
    return [name for name in operations if _is_own(scope, name)] or operations


def _is_own(scope: str, operation: str) -> bool:
    return operation.partition(":")[0] == scope.partition(":")[0]


@lru_cache(maxsize=CACHE_SIZE)
def possible(role: str | None, tenant_id: str, catalogue: CatalogueSnapshot) -> frozenset[str]:
    """Return the operations that a role allows on some target, under any conditions."""
    masks = catalogue.operations.masks
    return frozenset(masks.names(operation_bounds(masks, role_rules(role), tenant_id).possible))


def verbs(scope: str, catalogue: CatalogueSnapshot) -> list[list[str]]:
    """Return the operations of a scope, grouped by enforced scope: `compute:*` has `compute:read` and `compute:write`.

    A scope that no service enforces covers the operations with its verb or, without any, its service.
    """
    service, _, verb = scope.partition(":")
    if ":" in verb:
        return [[scope]]
    by_scope: dict[str, list[str]] = {}
    for name in catalogue.operations.names:
        by_scope.setdefault(scope_of(name, catalogue.levels[name]), []).append(name)
    if verb == "*":
        return [part for needed, part in by_scope.items() if needed.startswith(f"{service}:") and needed in listed()]
    names = [name for name in catalogue.operations.names if name.startswith(f"{service}:")]
    return [by_scope.get(scope) or [name for name in names if name.rpartition(":")[2] == verb] or names]


def listed() -> frozenset[str]:
    """Return the scopes that can be granted, without the global wildcard."""
    return frozenset(scope.scope for scope in scopes() if scope.scope != "*")

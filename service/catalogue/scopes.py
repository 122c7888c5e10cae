"""The scopes of API keys and workload identities, and which scope covers an operation or another scope."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from service.catalogue.operations import DATA_DIR
from service.files import load_yaml


@dataclass(frozen=True, slots=True)
class Scope:
    """A scope of API keys. Without `enforced`, it grants no access."""

    scope: str
    description: str
    enforced: bool


@cache
def scopes() -> tuple[Scope, ...]:
    """Return the scopes in the order of the API. Keys may not have the first, `*`."""
    return tuple(
        Scope(entry["scope"], entry["description"], entry.get("enforced", True))
        for entry in load_yaml(DATA_DIR / "scopes.yaml")
    )


@cache
def enforced_scopes() -> Mapping[str, Scope]:
    return {scope.scope: scope for scope in scopes() if scope.enforced}


@cache
def _naming() -> dict[str, dict[str, str]]:
    naming: dict[str, dict[str, str]] = load_yaml(DATA_DIR / "roles.yaml")["scopes"]
    return naming


@cache
def scope_of(operation: str, access_level: str) -> str:
    """Return the scope that covers an operation, such as `compute:read`; `roles.yaml` lists special scopes."""
    special = _naming()["special"].get(operation)
    return special or f"{operation.partition(':')[0]}:{_naming()['verbs'][access_level]}"


def covers(scopes: Collection[str], needed: str | None) -> bool:
    """Return whether the scopes contain `needed` or the wildcard of its service.

    `write` does not cover `read`. A scope that no service enforces is not covered.
    """
    if needed is None or needed not in enforced_scopes():
        return False
    return needed in scopes or f"{needed.partition(':')[0]}:*" in scopes


def has_enforced_scope(scopes: Iterable[str]) -> bool:
    """Return whether a service enforces any of the scopes."""
    return not enforced_scopes().keys().isdisjoint(scopes)

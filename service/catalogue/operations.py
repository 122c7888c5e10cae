"""The operation catalogue, the roles, and the scopes of API keys and workload identities, which cover operations."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from service.files import load_yaml, read_table

DATA_DIR = Path(__file__).with_name("data")


@dataclass(frozen=True, slots=True)
class Operation:
    """An entry of the append-only catalogue; `position` is its line."""

    position: int
    name: str
    access_level: str
    """`read`, `write`, `list` or `permission`."""
    description: str


@cache
def operations() -> tuple[Operation, ...]:
    """Return the operations in catalogue order."""
    return tuple(
        Operation(position, line["name"], line["access_level"], line["description"])
        for position, line in enumerate(read_table(DATA_DIR / "catalogue.csv"), start=1)
    )


@cache
def access_levels() -> Mapping[str, str]:
    """Return the access levels by operation name."""
    return {operation.name: operation.access_level for operation in operations()}


@dataclass(frozen=True, slots=True)
class Role:
    """A role of organization members."""

    name: str
    title: str
    description: str
    limitable: bool
    """Whether a membership may be limited to named tenants."""
    authors_policies: bool
    """Whether members may write policies that grant no more than they have."""
    document: dict[str, Any]
    """An access policy document (schemaVersion 1)."""


@cache
def roles() -> Mapping[str, Role]:
    """Return the roles by name, the most powerful first."""
    return MappingProxyType(
        {name: Role(name=name, **entry) for name, entry in load_yaml(DATA_DIR / "roles.yaml")["roles"].items()}
    )


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

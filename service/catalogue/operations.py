"""The operation catalogue, the scopes of API keys, and the roles of people."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from service.files import load_yaml, read_table

DATA_DIR = Path(__file__).with_name("data")


@dataclass(frozen=True, slots=True)
class Operation:
    """One entry of the append-only catalogue; `position` is its line and never changes."""

    position: int
    name: str
    access_level: str
    """`read`, `write`, `list` or `permission`."""
    description: str


@dataclass(frozen=True, slots=True)
class Scope:
    """A scope of API keys. One that is not enforced is accepted and grants nothing."""

    scope: str
    description: str
    enforced: bool


@cache
def operations() -> tuple[Operation, ...]:
    """Return all operations of this version, in catalogue order."""
    return tuple(
        Operation(position, line["name"], line["access_level"], line["description"])
        for position, line in enumerate(read_table(DATA_DIR / "catalogue.csv"), start=1)
    )


@cache
def access_levels() -> Mapping[str, str]:
    """Return the access level of each operation by its name."""
    return {operation.name: operation.access_level for operation in operations()}


@cache
def scopes() -> tuple[Scope, ...]:
    """Return all scopes in the order of the API; the first is `*`, which no key may have."""
    return tuple(
        Scope(entry["scope"], entry["description"], entry.get("enforced", True))
        for entry in load_yaml(DATA_DIR / "scopes.yaml")
    )


@cache
def enforced_scopes() -> Mapping[str, Scope]:
    """Return the scopes that a service enforces, by name."""
    return {scope.scope: scope for scope in scopes() if scope.enforced}


@dataclass(frozen=True, slots=True)
class Role:
    """A role of organization members in their tenants."""

    name: str
    title: str
    description: str
    limitable: bool
    """Whether a membership may be limited to named tenants; owners and admins never are."""
    authors_policies: bool
    """Whether members may write policies that grant no more than they have themselves."""
    document: dict[str, Any]
    """An access policy document, schemaVersion 1."""


@cache
def roles() -> Mapping[str, Role]:
    """Return all roles by name, the most powerful first."""
    return MappingProxyType(
        {name: Role(name=name, **entry) for name, entry in load_yaml(DATA_DIR / "roles.yaml")["roles"].items()}
    )


@cache
def _scopes() -> dict[str, dict[str, str]]:
    scopes: dict[str, dict[str, str]] = load_yaml(DATA_DIR / "roles.yaml")["scopes"]
    return scopes


def scope_of(operation: str, access_level: str) -> str:
    """Return the scope that covers an operation: `compute:read` for a `read` or `list` of compute.

    Interactive sessions and the decision point have special scopes.
    """
    special = _scopes()["special"].get(operation)
    return special or f"{operation.partition(':')[0]}:{_scopes()['verbs'][access_level]}"

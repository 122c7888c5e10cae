"""The operation catalogue and the scopes of API keys, as the platform ships them.

Roles: the rules a person has in an organization, and which scope an operation's access level asks for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from service.catalogue.data_files import CATALOGUE, document, table


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
    """A scope a key may be given. One that is not enforced is accepted and opens nothing."""

    scope: str
    description: str
    enforced: bool


@cache
def operations() -> tuple[Operation, ...]:
    """Every operation this version of the platform knows, in catalogue order."""
    return tuple(
        Operation(position, line["name"], line["access_level"], line["description"])
        for position, line in enumerate(table(CATALOGUE / "catalogue.csv"), start=1)
    )


@cache
def levels() -> Mapping[str, str]:
    """The access level of every operation this version knows, by name."""
    return {operation.name: operation.access_level for operation in operations()}


@cache
def scopes() -> tuple[Scope, ...]:
    """Every scope in the order it is served; the first is `*`, which no key may hold."""
    return tuple(
        Scope(entry["scope"], entry["description"], entry.get("enforced", True))
        for entry in document(CATALOGUE / "scopes.yaml")
    )


@cache
def enforced_scopes() -> Mapping[str, Scope]:
    """The scopes some service asks for, by name."""
    return {scope.scope: scope for scope in scopes() if scope.enforced}


@dataclass(frozen=True, slots=True)
class Role:
    """What members with this role may do in the tenants they are entitled to."""

    name: str
    title: str
    description: str
    limitable: bool
    """Whether a membership may be limited to named tenants; owners and admins never are."""
    authors_policies: bool
    """Whether its members may write access policies, within what they hold themselves."""
    document: dict[str, Any]
    """An access policy document, schemaVersion 1."""


@cache
def roles() -> Mapping[str, Role]:
    """Every role by name, the most powerful first."""
    return MappingProxyType(
        {name: Role(name=name, **entry) for name, entry in document(CATALOGUE / "roles.yaml")["roles"].items()}
    )


@cache
def _scopes() -> dict[str, dict[str, str]]:
    scopes: dict[str, dict[str, str]] = document(CATALOGUE / "roles.yaml")["scopes"]
    return scopes


def scope_of(operation: str, access_level: str) -> str:
    """The key scope that covers a catalogue operation: `compute:read` for a `read` or `list` of compute.

    contract: Scope rules; the interactive sessions and the decision point have scopes of their own, which nothing else
    substitutes.
    """
    special = _scopes()["special"].get(operation)
    return special or f"{operation.partition(':')[0]}:{_scopes()['verbs'][access_level]}"

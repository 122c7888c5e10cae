"""Roles: the rules a person has in an organization, and which scope an operation's access level asks for."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from service.world.files import document


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
    return MappingProxyType({name: Role(name=name, **entry) for name, entry in document("roles.yaml")["roles"].items()})


@cache
def _scopes() -> dict[str, dict[str, str]]:
    scopes: dict[str, dict[str, str]] = document("roles.yaml")["scopes"]
    return scopes


def scope_of(operation: str, access_level: str) -> str:
    """The key scope that covers a catalogue operation: `compute:read` for a `read` or `list` of compute.

    contract: Scope rules; the interactive sessions and the decision point have scopes of their own, which nothing else
    substitutes.
    """
    special = _scopes()["special"].get(operation)
    return special or f"{operation.partition(':')[0]}:{_scopes()['verbs'][access_level]}"

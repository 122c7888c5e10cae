"""The operation catalogue and the scopes of API keys, as the platform ships them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from service.world.files import document, table


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
        for position, line in enumerate(table("catalogue.csv"), start=1)
    )


@cache
def levels() -> Mapping[str, str]:
    """The access level of every operation this version knows, by name."""
    return {operation.name: operation.access_level for operation in operations()}


@cache
def scopes() -> tuple[Scope, ...]:
    """Every scope in the order it is served; the first is `*`, which no key may hold."""
    return tuple(
        Scope(entry["scope"], entry["description"], entry.get("enforced", True)) for entry in document("scopes.yaml")
    )


@cache
def enforced_scopes() -> Mapping[str, Scope]:
    """The scopes some service asks for, by name."""
    return {scope.scope: scope for scope in scopes() if scope.enforced}

"""The operation catalogue and the roles."""

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
